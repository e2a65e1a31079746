package main

import (
	"errors"
	"flag"
	"io"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"example.com/headrace"
	"example.com/headrace/headracev1"
)

func TestParse(t *testing.T) {
	// What a person has in the environment is not for the test.
	t.Setenv("HEADRACE_API_KEY", "first,second")
	tests := []struct {
		name    string
		args    []string
		wrong   bool
		tokens  *int32
		key     string
		timeout time.Duration
	}{
		{name: "a prompt alone", args: []string{"Hi"}, key: "first"},
		{name: "a key and a time", args: []string{"--api-key", "k", "--timeout", "1.5", "Hi"},
			key: "k", timeout: 1500 * time.Millisecond},
		{name: "no tokens", args: []string{"-max-tokens=0", "Hi"}, tokens: proto.Int32(0), key: "first"},
		{name: "an empty key", args: []string{"-api-key=", "Hi"}, key: ""},
		{name: "no prompt", wrong: true},
		{name: "two prompts", args: []string{"Hi", "there"}, wrong: true},
		{name: "tokens that are no number", args: []string{"-max-tokens", "x", "Hi"}, wrong: true},
		{name: "tokens beyond int32", args: []string{"-max-tokens", "2147483648", "Hi"}, wrong: true},
		{name: "no time", args: []string{"-timeout", "0", "Hi"}, wrong: true},
		{name: "a time that is no number", args: []string{"-timeout", "nan", "Hi"}, wrong: true},
		{name: "a time beyond clocks", args: []string{"-timeout", "1e99", "Hi"}, wrong: true},
		{name: "a certificate without its key", args: []string{"-certfile", "c.pem", "Hi"}, wrong: true},
		{name: "certificates that are not there", args: []string{"-ca-certs", "none.pem", "Hi"}, wrong: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			set := flag.NewFlagSet("headrace-go", flag.ContinueOnError)
			set.SetOutput(io.Discard)
			got, err := parse(set, test.args)
			if (err != nil) != test.wrong {
				t.Fatalf("got the error %v, want one: %t", err, test.wrong)
			}
			if test.wrong {
				return
			}
			want := headrace.UserPrompt("Hi")
			want.Stopping = &headracev1.Stopping{MaxOutputTokens: test.tokens}
			if !proto.Equal(got.request, want) {
				t.Errorf("the request is %v, want %v", got.request, want)
			}
			if got.connection.APIKey != test.key || got.timeout != test.timeout {
				t.Errorf("got %q and %v, want %q and %v",
					got.connection.APIKey, got.timeout, test.key, test.timeout)
			}
		})
	}
}

func TestSentence(t *testing.T) {
	overloaded := headrace.Error{Reason: "OVERLOADED", Message: "Full.", RetryDelay: time.Second}
	tests := []struct {
		err  error
		want string
	}{
		{&overloaded, "OVERLOADED: Full.; retry in 1.0 s"},
		{&headrace.Error{Reason: "DRAINING", Message: "Bye."}, "DRAINING: Bye."},
		{errors.New("no address"), "no address"},
	}
	for _, test := range tests {
		if got := sentence(test.err); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
