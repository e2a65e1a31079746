package main

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/runtime/protoimpl"

	"example.com/headrace"
	"example.com/headrace/headracev1"
)

// running is a call that has begun.
type running interface {
	Header() (metadata.MD, error)
	Trailer() metadata.MD
	// receive returns the next response, or io.EOF at the end of a complete answer.
	receive() (any, error)
}

// method is one that scenarios can name, with a function for each kind of its messages. All
// are called as if they streamed, which is the same on the wire, so that each can be
// cancelled anywhere.
type method struct {
	path     string
	request  func() any
	response func() any
}

var methods = map[string]method{
	"Generate": {
		"/headrace.v1.InferenceService/Generate",
		func() any { return &headracev1.GenerateRequest{} },
		func() any { return &headracev1.GenerateResponse{} },
	},
	"Tokenize": {
		"/headrace.v1.InferenceService/Tokenize",
		func() any { return &headracev1.TokenizeRequest{} },
		func() any { return &headracev1.TokenizeResponse{} },
	},
	"Detokenize": {
		"/headrace.v1.InferenceService/Detokenize",
		func() any { return &headracev1.DetokenizeRequest{} },
		func() any { return &headracev1.DetokenizeResponse{} },
	},
	"GetModel": {
		"/headrace.v1.ModelService/GetModel",
		func() any { return &headracev1.GetModelRequest{} },
		func() any { return &headracev1.GetModelResponse{} },
	},
	"ListModels": {
		"/headrace.v1.ModelService/ListModels",
		func() any { return &headracev1.ListModelsRequest{} },
		func() any { return &headracev1.ListModelsResponse{} },
	},
	"HealthCheck": {"/grpc.health.v1.Health/Check", healthRequest, healthResponse},
	"HealthWatch": {"/grpc.health.v1.Health/Watch", healthRequest, healthResponse},
}

func healthRequest() any  { return &grpc_health_v1.HealthCheckRequest{} }
func healthResponse() any { return &grpc_health_v1.HealthCheckResponse{} }

// reflective returns a message for protojson. The health messages of some gRPC are of the
// older kind, which has to be wrapped.
func reflective(message any) proto.Message {
	return protoimpl.X.ProtoMessageV2Of(message)
}

// begin makes a call: Generate by the client that is tried, the others by the connection.
func begin(
	ctx context.Context, client *headrace.Client, name string, request any,
	opts []grpc.CallOption,
) (running, error) {
	if request, ok := request.(*headracev1.GenerateRequest); ok {
		stream, err := client.Stream(ctx, request, opts...)
		return generation{stream}, err
	}
	method := methods[name]
	desc := &grpc.StreamDesc{ServerStreams: true}
	stream, err := client.Conn().NewStream(ctx, desc, method.path, opts...)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(request); err != nil {
		return nil, err
	}
	return other{stream, method}, stream.CloseSend()
}

type generation struct{ *headrace.Stream }

func (g generation) receive() (any, error) {
	if g.Next() {
		return g.Response(), nil
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

type other struct {
	grpc.ClientStream
	method method
}

func (o other) receive() (any, error) {
	response := o.method.response()
	return response, o.RecvMsg(response)
}
