package headrace

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// domain is that of the reasons of headracev1.ErrorReason.
const domain = "headrace"

// Error is a call that failed:
//
//	var failure *headrace.Error
//	if errors.As(err, &failure) && failure.Reason == "OVERLOADED" { … }
//
// errors.Is finds context.Canceled and context.DeadlineExceeded in one that ended so.
type Error struct {
	// Code is the status of gRPC.
	Code codes.Code
	// Reason is a value of headracev1.ErrorReason without its prefix, or empty where
	// the error is not the server's: that of a proxy or of the connection.
	Reason string
	// Message says what happened and what to do.
	Message string
	// Field is the field of the request that is at fault, such as
	// "sampling.temperature", or empty where no single one is.
	Field string
	// RetryDelay is the time to wait before another try, or 0 where the server did not
	// say one.
	RetryDelay time.Duration

	status *status.Status
}

// FromError returns the *Error for an error of a call, and nil for nil. The methods of
// this package have done so; the stubs of headracev1 have not.
func FromError(err error) error {
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	failure := &Error{Code: s.Code(), Message: s.Message(), status: s}
	for _, detail := range s.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.Domain == domain {
				failure.Reason = detail.Reason
			}
		case *errdetails.BadRequest:
			if len(detail.FieldViolations) > 0 {
				failure.Field = detail.FieldViolations[0].Field
			}
		case *errdetails.RetryInfo:
			failure.RetryDelay = detail.RetryDelay.AsDuration()
		}
	}
	return failure
}

// Error returns the name of the error and its message.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s", e.Name(), e.Message)
}

// Name returns the reason, or the code as gRPC writes it where there is none.
func (e *Error) Name() string {
	if e.Reason != "" {
		return e.Reason
	}
	return code.Code(e.Code).String()
}

// GRPCStatus lets status.FromError and status.Code read the error.
func (e *Error) GRPCStatus() *status.Status {
	if e.status == nil { // one that was not made by FromError
		return status.New(e.Code, e.Message)
	}
	return e.status
}

// Is says whether the call ended like a context whose error is target.
func (e *Error) Is(target error) bool {
	switch target {
	case context.Canceled:
		return e.Code == codes.Canceled
	case context.DeadlineExceeded:
		return e.Code == codes.DeadlineExceeded
	}
	return false
}
