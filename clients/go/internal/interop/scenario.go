package main

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/metadata"

	"example.com/headrace"
)

// scenario is a line of the input.
type scenario struct {
	ID          string            `json:"id"`
	Method      string            `json:"method"`
	Request     json.RawMessage   `json:"request"`
	Requests    []json.RawMessage `json:"requests"`
	Count       int               `json:"count"`
	Metadata    map[string]string `json:"metadata"`
	TimeoutMS   *float64          `json:"timeout_ms"`
	APIKey      *string           `json:"api_key"`
	Compression string            `json:"compression"`
	Cancel      string            `json:"cancel"`
	ReadPauseMS float64           `json:"read_pause_ms"`
}

// answer is a line of the output.
type answer struct {
	ID    string   `json:"id"`
	Calls []result `json:"calls"`
}

// result is what was seen of one call.
type result struct {
	Code         string            `json:"code"`
	Message      string            `json:"message"`
	Reason       *string           `json:"reason"`
	Field        *string           `json:"field"`
	RetryDelayMS *int64            `json:"retry_delay_ms"`
	Headers      map[string]string `json:"headers"`
	Trailers     map[string]string `json:"trailers"`
	Responses    []json.RawMessage `json:"responses"`
	ElapsedMS    float64           `json:"elapsed_ms"`
}

// nextScenario reads a line, which may replace the key.
func nextScenario(lines *json.Decoder, apiKey string) (*scenario, error) {
	line := &scenario{APIKey: &apiKey}
	return line, lines.Decode(line)
}

// requests returns the request of each call, to be made at the same time.
func (s *scenario) requests() []json.RawMessage {
	if len(s.Requests) > 0 {
		return s.Requests
	}
	count, request := s.Count, s.Request
	if count == 0 {
		count = 1
	}
	if request == nil {
		request = json.RawMessage("{}")
	}
	requests := make([]json.RawMessage, count)
	for i := range requests {
		requests[i] = request
	}
	return requests
}

// setStatus tells how the call ended.
func (r *result) setStatus(err error) {
	r.Code = code.Code_OK.String()
	var failure *headrace.Error
	if !errors.As(headrace.FromError(err), &failure) {
		return
	}
	r.Code = code.Code(failure.Code).String()
	r.Message = failure.Message
	r.Reason = unlessEmpty(failure.Reason)
	r.Field = unlessEmpty(failure.Field)
	if failure.RetryDelay > 0 {
		delay := failure.RetryDelay.Milliseconds()
		r.RetryDelayMS = &delay
	}
}

func unlessEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// textOf returns the metadata that is text, by lower-case keys as gRPC has them.
func textOf(md metadata.MD) map[string]string {
	text := make(map[string]string, len(md))
	for key, values := range md {
		if !strings.HasSuffix(key, "-bin") {
			text[key] = strings.Join(values, ", ")
		}
	}
	return text
}

func milliseconds(n float64) time.Duration {
	return time.Duration(n * float64(time.Millisecond))
}
