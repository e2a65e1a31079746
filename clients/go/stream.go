package headrace

import (
	"context"
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc/metadata"

	"example.com/headrace/headracev1"
)

// Stream is one answer as it is made. One goroutine reads it, and any may close it:
//
//	for stream.Next() {
//		fmt.Print(stream.Text())
//	}
//	if err := stream.Err(); err != nil { … }
type Stream struct {
	call     headracev1.InferenceService_GenerateClient
	cancel   context.CancelFunc
	response *headracev1.GenerateResponse
	err      error
}

// UserPrompt returns the request for a chat with one message of the user's. What else
// it should hold is for the caller to set.
func UserPrompt(text string) *headracev1.GenerateRequest {
	message := &headracev1.ChatMessage{Role: headracev1.Role_ROLE_USER, Content: text}
	return &headracev1.GenerateRequest{
		Prompt: &headracev1.GenerateRequest_Chat{
			Chat: &headracev1.Chat{Messages: []*headracev1.ChatMessage{message}},
		},
	}
}

// Next waits for the next response and says whether there is one. After false Err says
// why not.
func (s *Stream) Next() bool {
	if s.err == nil {
		s.response, s.err = s.call.Recv()
	}
	if s.err != nil {
		s.response = nil
		s.cancel()
	}
	return s.err == nil
}

// Response returns the response that Next has read, or nil once it has returned false.
func (s *Stream) Response() *headracev1.GenerateResponse {
	return s.response
}

// Text returns the text of the response that Next has read, of the first candidate.
func (s *Stream) Text() string {
	return text(s.response)
}

// Err returns the *Error for which Next has returned false, and nil where the answer is
// complete or still goes on.
func (s *Stream) Err() error {
	if s.err == nil || errors.Is(s.err, io.EOF) {
		return nil
	}
	return FromError(s.err)
}

// Header waits until the server has taken the request and returns the headers of the
// answer: x-request-id names the request in the server's log. They may be empty where the
// server refused it; Next and Err say why.
func (s *Stream) Header() (metadata.MD, error) {
	header, err := s.call.Header()
	return header, FromError(err)
}

// Trailer returns the trailers of the answer, once Next has returned false.
func (s *Stream) Trailer() metadata.MD {
	return s.call.Trailer()
}

// Close cancels the call unless it is at its end, and does not wait for it. Call it when an
// answer is left before that: otherwise the server makes it to its end, and the call and
// its goroutine stay until then.
func (s *Stream) Close() {
	s.cancel()
}

func text(response *headracev1.GenerateResponse) string {
	var pieces strings.Builder
	for _, delta := range response.GetDeltas() {
		if delta.CandidateIndex == 0 {
			pieces.WriteString(delta.Text)
		}
	}
	return pieces.String()
}
