// Interop makes calls as the lines of stdin say and tells on stdout what it saw. It is how
// the tests of the service try this client; who copies the client leaves it out.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log"
	"os"
	"sync"

	"google.golang.org/grpc"

	"example.com/headrace"
	"example.com/headrace/internal/flags"
)

func main() {
	log.SetFlags(0)
	connection := flags.Register(flag.CommandLine)
	flag.Parse()
	options, err := connection.TLS()
	if err != nil {
		log.Fatal(err)
	}
	client, err := headrace.Dial(connection.Target,
		append(options, headrace.WithDialOptions(grpc.WithDisableRetry()))...)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := answerAll(client, connection.APIKey, os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// answerAll makes the calls of each line, one line after the other.
func answerAll(client *headrace.Client, apiKey string, in io.Reader, out io.Writer) error {
	lines, answers := json.NewDecoder(in), json.NewEncoder(out)
	answers.SetEscapeHTML(false)
	for {
		line, err := nextScenario(lines, apiKey)
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		calls, err := callAll(client, line)
		if err != nil {
			return err
		}
		if err := answers.Encode(answer{ID: line.ID, Calls: calls}); err != nil {
			return err
		}
	}
}

// callAll makes the calls of a line at once, and returns when all have ended.
func callAll(client *headrace.Client, line *scenario) ([]result, error) {
	requests := line.requests()
	results, failures := make([]result, len(requests)), make([]error, len(requests))
	var group sync.WaitGroup
	for i := range requests {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			results[i], failures[i] = makeCall(client, line, requests[i])
		}(i)
	}
	group.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}
