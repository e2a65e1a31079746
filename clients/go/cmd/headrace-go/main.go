// Headrace-go asks a server one question and prints the answer as it is made.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"example.com/headrace"
	"example.com/headrace/headracev1"
	"example.com/headrace/internal/flags"
)

const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130

	longest = 365 * 24 * time.Hour
)

// command is what the flags ask for.
type command struct {
	connection *flags.Connection
	options    []headrace.Option
	request    *headracev1.GenerateRequest
	timeout    time.Duration // 0: none
}

func main() {
	command, err := parse(flag.CommandLine, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(exitUsage)
	}
	os.Exit(command.run())
}

func parse(set *flag.FlagSet, args []string) (*command, error) {
	c := &command{connection: flags.Register(set)}
	c.connection.DefaultAPIKey()
	stopping := &headracev1.Stopping{}
	set.Func("max-tokens", "the most tokens of the answer, `N` (default: no limit)",
		func(value string) error {
			n, err := strconv.ParseInt(value, 10, 32)
			stopping.MaxOutputTokens = proto.Int32(int32(n))
			return err
		})
	set.Func("timeout", "the time for the answer in `SECONDS` (default: no limit)",
		func(value string) error {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return err
			}
			if !(seconds > 0 && seconds <= longest.Seconds()) { // NaN is neither
				return fmt.Errorf("must be above 0 and at most %.0f", longest.Seconds())
			}
			c.timeout = time.Duration(seconds * float64(time.Second))
			return nil
		})
	set.Usage = func() {
		fmt.Fprintln(set.Output(), "usage: headrace-go [flags] PROMPT")
		set.PrintDefaults()
	}
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	if set.NArg() != 1 {
		return nil, fmt.Errorf("give one PROMPT behind the flags, not %d", set.NArg())
	}
	c.request = headrace.UserPrompt(set.Arg(0))
	c.request.Stopping = stopping

	options, err := c.connection.TLS()
	c.options = append(options, headrace.WithAPIKey(c.connection.APIKey))
	return c, err
}

// run answers the command and returns the exit status.
func (c *command) run() int {
	interruptible, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	go func() { // so that a second Ctrl-C ends the program
		<-interruptible.Done()
		stop()
	}()
	ctx := interruptible
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	err := c.ask(ctx, os.Stdout)
	switch {
	case interruptible.Err() != nil:
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(os.Stderr, "error:", sentence(err))
		return exitFailed
	}
	return 0
}

// ask prints the answer as it comes.
func (c *command) ask(ctx context.Context, out io.Writer) error {
	client, err := headrace.Dial(c.connection.Target, c.options...)
	if err != nil {
		return err
	}
	defer client.Close()
	stream, err := client.Stream(ctx, c.request)
	if err != nil {
		return err
	}
	defer stream.Close()

	begun := false
	for stream.Next() {
		if _, err := io.WriteString(out, stream.Text()); err != nil {
			return err
		}
		begun = true
	}
	if begun {
		if _, err := fmt.Fprintln(out); err != nil {
			return err
		}
	}
	return stream.Err()
}

// sentence says what went wrong and when to try again.
func sentence(err error) string {
	var failure *headrace.Error
	if errors.As(err, &failure) && failure.RetryDelay > 0 {
		return fmt.Sprintf("%v; retry in %.1f s", err, failure.RetryDelay.Seconds())
	}
	return err.Error()
}
