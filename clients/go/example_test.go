package headrace_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"google.golang.org/protobuf/proto"

	"example.com/headrace"
	"example.com/headrace/headracev1"
)

func ExampleClient_Stream() {
	client, err := headrace.Dial("localhost:1920")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel() // stops the work at the server too

	request := headrace.UserPrompt("What is the capital of France?")
	request.Stopping = &headracev1.Stopping{MaxOutputTokens: proto.Int32(60)}
	stream, err := client.Stream(ctx, request)
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	for stream.Next() {
		fmt.Print(stream.Text())
	}

	var failure *headrace.Error
	if errors.As(stream.Err(), &failure) {
		fmt.Println(failure.Reason, failure.Field, failure.RetryDelay)
	}
}
