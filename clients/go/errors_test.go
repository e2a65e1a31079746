package headrace

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestFromErrorReadsTheDetailsOfAStatus(t *testing.T) {
	info := &errdetails.ErrorInfo{Reason: "OVERLOADED", Domain: "headrace"}
	tests := []struct {
		name string
		err  error
		want Error
		text string
	}{
		{
			"a field",
			detailed(status.New(codes.InvalidArgument, "top_p is 2.").WithDetails(
				&errdetails.ErrorInfo{Reason: "INVALID_FIELD", Domain: "headrace"},
				&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
					{Field: "sampling.top_p"}, {Field: "sampling.top_k"},
				}},
			)),
			Error{
				Code: codes.InvalidArgument, Reason: "INVALID_FIELD",
				Message: "top_p is 2.", Field: "sampling.top_p",
			},
			"INVALID_FIELD: top_p is 2.",
		},
		{
			"a delay",
			detailed(status.New(codes.ResourceExhausted, "Full.").WithDetails(
				info, &errdetails.RetryInfo{RetryDelay: durationpb.New(1500 * time.Millisecond)},
			)),
			Error{
				Code: codes.ResourceExhausted, Reason: "OVERLOADED",
				Message: "Full.", RetryDelay: 1500 * time.Millisecond,
			},
			"OVERLOADED: Full.",
		},
		{
			"a reason of another domain",
			detailed(status.New(codes.PermissionDenied, "No.").WithDetails(
				&errdetails.ErrorInfo{Reason: "API_DISABLED", Domain: "proxy.example"},
			)),
			Error{Code: codes.PermissionDenied, Message: "No."},
			"PERMISSION_DENIED: No.",
		},
		{
			"no details",
			status.Error(codes.Unavailable, "connection refused"),
			Error{Code: codes.Unavailable, Message: "connection refused"},
			"UNAVAILABLE: connection refused",
		},
		{
			"no status",
			errors.New("odd"),
			Error{Code: codes.Unknown, Message: "odd"},
			"UNKNOWN: odd",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got *Error
			if !errors.As(fmt.Errorf("asking: %w", FromError(test.err)), &got) {
				t.Fatal("errors.As finds no *Error")
			}
			if got.Error() != test.text {
				t.Errorf("Error() is %q, want %q", got.Error(), test.text)
			}
			if status.Code(got) != test.want.Code {
				t.Errorf("status.Code is %v, want %v", status.Code(got), test.want.Code)
			}
			test.want.status = got.status
			if *got != test.want {
				t.Errorf("got %+v, want %+v", *got, test.want)
			}
		})
	}
}

func TestFromErrorOfNoErrorIsNil(t *testing.T) {
	if err := FromError(nil); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}

func TestErrorMadeByHandHasItsStatus(t *testing.T) {
	err := error(&Error{Code: codes.Unavailable, Message: "Gone."})
	if got := status.Convert(err); got.Code() != codes.Unavailable || got.Message() != "Gone." {
		t.Errorf("got the status %v", got)
	}
}

func TestErrorIsTheErrorOfItsContext(t *testing.T) {
	tests := []struct {
		code   codes.Code
		target error
		want   bool
	}{
		{codes.Canceled, context.Canceled, true},
		{codes.DeadlineExceeded, context.DeadlineExceeded, true},
		{codes.Canceled, context.DeadlineExceeded, false},
		{codes.Unavailable, context.Canceled, false},
	}
	for _, test := range tests {
		if got := errors.Is(FromError(status.Error(test.code, "")), test.target); got != test.want {
			t.Errorf("%v is %v: got %t, want %t", test.code, test.target, got, test.want)
		}
	}
}

func detailed(s *status.Status, err error) error {
	if err != nil {
		panic(err)
	}
	return s.Err()
}
