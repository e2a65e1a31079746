package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"

	"example.com/headrace"
)

// makeCall makes one call and returns what was seen of it. Its error is that the line
// cannot be followed, never that the call failed.
func makeCall(client *headrace.Client, line *scenario, requestJSON []byte) (result, error) {
	method, known := methods[line.Method]
	if !known {
		return result{}, fmt.Errorf("there is no method %q", line.Method)
	}
	request := method.request()
	if err := protojson.Unmarshal(requestJSON, reflective(request)); err != nil {
		return result{}, err
	}
	ctx, cancel := line.context()
	defer cancel()
	began := time.Now()
	r := result{
		Headers: map[string]string{}, Trailers: map[string]string{}, Responses: []json.RawMessage{},
	}
	call, err := begin(ctx, client, line.Method, request, line.callOptions())
	if err == nil {
		err = r.read(call, line, cancel)
		r.Trailers = textOf(call.Trailer())
	}
	r.setStatus(err)
	r.ElapsedMS = float64(time.Since(began)) / float64(time.Millisecond)
	return r, nil
}

// read reads a call to its end and cancels it where the line says. It returns nil at the
// end of a complete answer.
func (r *result) read(call running, line *scenario, cancel func()) error {
	header, err := call.Header()
	if err != nil {
		return err
	}
	r.Headers = textOf(header)
	if line.Cancel == "after_headers" {
		cancel()
	}
	for {
		response, err := call.receive()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		told, err := protojson.Marshal(reflective(response))
		if err != nil {
			return err
		}
		r.Responses = append(r.Responses, told)
		if line.Cancel == "after_first_message" {
			cancel()
		}
		time.Sleep(milliseconds(line.ReadPauseMS))
	}
}

// context returns that of a call: its metadata, and its deadline if the line has one.
func (s *scenario) context() (context.Context, context.CancelFunc) {
	ctx := metadata.NewOutgoingContext(context.Background(), metadata.New(s.Metadata))
	if s.TimeoutMS != nil {
		return context.WithTimeout(ctx, milliseconds(*s.TimeoutMS))
	}
	return context.WithCancel(ctx)
}

func (s *scenario) callOptions() []grpc.CallOption {
	var opts []grpc.CallOption
	if s.APIKey != nil && *s.APIKey != "" {
		opts = append(opts, grpc.PerRPCCredentials(headrace.BearerKey(*s.APIKey)))
	}
	if s.Compression == gzip.Name {
		opts = append(opts, grpc.UseCompressor(gzip.Name))
	}
	return opts
}
