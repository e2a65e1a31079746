package headrace_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"example.com/headrace"
	"example.com/headrace/headracev1"
)

// echoServer answers with the text of the question, and to "for ever" until it is
// cancelled, which it tells.
type echoServer struct {
	headracev1.UnimplementedInferenceServiceServer
	cancelled chan struct{}
}

func (s *echoServer) Generate(
	request *headracev1.GenerateRequest, stream headracev1.InferenceService_GenerateServer,
) error {
	incoming, _ := metadata.FromIncomingContext(stream.Context())
	if key := incoming.Get("authorization"); len(key) != 1 || key[0] != "Bearer secret" {
		return status.Error(codes.Unauthenticated, "No key.")
	}
	question := request.GetChat().GetMessages()[0]
	if question.Role != headracev1.Role_ROLE_USER {
		return status.Error(codes.InvalidArgument, "Not a user's.")
	}
	if err := stream.Send(response(0, question.Content)); err != nil {
		return err
	}
	if err := stream.Send(response(1, "another candidate")); err != nil {
		return err
	}
	if question.Content == "for ever" {
		<-stream.Context().Done()
		close(s.cancelled)
		return stream.Context().Err()
	}
	return stream.Send(response(0, "."))
}

func TestStreamReadsTheTextOfTheFirstCandidate(t *testing.T) {
	client, _ := serve(t, headrace.WithAPIKey("secret"))
	stream, err := client.Stream(context.Background(), headrace.UserPrompt("Paris"))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var texts []string
	for stream.Next() {
		texts = append(texts, stream.Text())
	}
	if err := stream.Err(); err != nil {
		t.Error(err)
	}
	if want := []string{"Paris", "", "."}; !equal(texts, want) {
		t.Errorf("got %q, want %q", texts, want)
	}
}

func TestStreamEndsWithTheErrorOfTheServer(t *testing.T) {
	client, _ := serve(t)
	stream, err := client.Stream(context.Background(), headrace.UserPrompt("Paris"))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if stream.Next() {
		t.Fatal("there is an answer without a key")
	}
	var failure *headrace.Error
	if !errors.As(stream.Err(), &failure) || failure.Code != codes.Unauthenticated {
		t.Errorf("got %v, want UNAUTHENTICATED", stream.Err())
	}
}

func TestDialRefusesAKeyThatCannotBeSentWithoutTellingIt(t *testing.T) {
	for _, key := range []string{"secret\n", "se cret", "s\u00e9cret"} {
		client, err := headrace.Dial("localhost:1", headrace.WithAPIKey(key))
		if err == nil {
			client.Close()
			t.Errorf("%q is taken", key)
		} else if strings.Contains(err.Error(), key) {
			t.Errorf("the error tells the key: %v", err)
		}
	}
}

func TestTLSWithoutAConfigIsStillTLS(t *testing.T) {
	client, _ := serve(t, headrace.WithTLS(nil), headrace.WithAPIKey("secret"))
	stream, err := client.Stream(context.Background(), headrace.UserPrompt("Paris"))
	if err == nil {
		defer stream.Close()
		if stream.Next() {
			t.Fatal("the key went to a server without TLS")
		}
		err = stream.Err()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
}

func TestCloseCancelsTheCallAtTheServer(t *testing.T) {
	client, server := serve(t, headrace.WithAPIKey("secret"))
	stream, err := client.Stream(context.Background(), headrace.UserPrompt("for ever"))
	if err != nil {
		t.Fatal(err)
	}
	if !stream.Next() {
		t.Fatal(stream.Err())
	}
	stream.Close()
	select {
	case <-server.cancelled:
	case <-time.After(10 * time.Second):
		t.Fatal("the server was not told")
	}
	for stream.Next() {
	}
	if !errors.Is(stream.Err(), context.Canceled) {
		t.Errorf("got %v, want a cancellation", stream.Err())
	}
}

// serve returns a client of a server that ends with the test.
func serve(t *testing.T, options ...headrace.Option) (*headrace.Client, *echoServer) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	echo := &echoServer{cancelled: make(chan struct{})}
	server := grpc.NewServer()
	headracev1.RegisterInferenceServiceServer(server, echo)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	client, err := headrace.Dial(listener.Addr().String(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return client, echo
}

func response(candidate int32, text string) *headracev1.GenerateResponse {
	delta := &headracev1.CandidateDelta{CandidateIndex: candidate, Text: text}
	return &headracev1.GenerateResponse{Deltas: []*headracev1.CandidateDelta{delta}}
}

func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
