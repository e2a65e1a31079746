// Package headrace is a client of Headrace's gRPC API, which streams the answers of
// language models. Its messages are those of the contract, in package headracev1.
//
//go:generate ./generate.sh
package headrace

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"example.com/headrace/headracev1"
)

// Client is a connection to a server. Goroutines may share it.
type Client struct {
	conn      *grpc.ClientConn
	inference headracev1.InferenceServiceClient
	models    headracev1.ModelServiceClient
}

// Option says how Dial connects.
type Option func(*options)

type options struct {
	transport grpc.DialOption
	apiKey    string
	dial      []grpc.DialOption
}

// WithTLS encrypts the connection. Nil or an empty Config takes the certificates that the
// machine trusts; one with Certificates shows the server who calls, and its ServerName is
// the name that the server's certificate must have, by default the host of the target.
func WithTLS(config *tls.Config) Option {
	transport := grpc.WithTransportCredentials(credentials.NewTLS(config))
	return func(o *options) { o.transport = transport }
}

// WithAPIKey sends a key, of visible ASCII characters, with every call. An empty one sends
// none. Without WithTLS it crosses the network in the clear.
func WithAPIKey(key string) Option {
	return func(o *options) { o.apiKey = key }
}

// WithDialOptions hands options to gRPC, such as a service config that retries. They have
// the last word over those of this package.
func WithDialOptions(dial ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, dial...) }
}

// Dial returns a client of the server at target, such as "localhost:1920". It connects
// in the background: a server that is not there is an error of the first call.
func Dial(target string, opts ...Option) (*Client, error) {
	// Newer versions of gRPC have NewClient and insecure.NewCredentials beside Dial and
	// WithInsecure. These are in all of 1.x.
	o := options{transport: grpc.WithInsecure()}
	for _, opt := range opts {
		opt(&o)
	}
	if !canBeSent(o.apiKey) {
		return nil, errors.New("the API key holds characters other than visible ASCII ones")
	}
	conn, err := grpc.Dial(target, o.dialOptions()...)
	if err != nil {
		return nil, err
	}
	return &Client{
		conn:      conn,
		inference: headracev1.NewInferenceServiceClient(conn),
		models:    headracev1.NewModelServiceClient(conn),
	}, nil
}

// Close ends the connection and cancels the calls that still run.
func (c *Client) Close() error {
	return c.conn.Close()
}

// Conn returns the connection, for the calls that have no method here:
//
//	headracev1.NewInferenceServiceClient(client.Conn()).Tokenize(ctx, …)
func (c *Client) Conn() *grpc.ClientConn {
	return c.conn
}

// Stream sends a request and returns its answer, to be read as it is made and then closed.
// Cancelling ctx, or its deadline, stops the work at the server at once.
func (c *Client) Stream(
	ctx context.Context, request *headracev1.GenerateRequest, opts ...grpc.CallOption,
) (*Stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	call, err := c.inference.Generate(ctx, request, opts...)
	if err != nil {
		cancel()
		return nil, FromError(err)
	}
	return &Stream{call: call, cancel: cancel}, nil
}

// Models lists the models that the server serves.
func (c *Client) Models(
	ctx context.Context, opts ...grpc.CallOption,
) ([]*headracev1.Model, error) {
	var models []*headracev1.Model
	request := &headracev1.ListModelsRequest{}
	for {
		page, err := c.models.ListModels(ctx, request, opts...)
		if err != nil {
			return nil, FromError(err)
		}
		models = append(models, page.Models...)
		if page.NextPageToken == "" {
			return models, nil
		}
		request.PageToken = page.NextPageToken
	}
}

// BearerKey is an API key as the credentials of one call: grpc.PerRPCCredentials takes
// it. Without TLS it crosses the network in the clear.
type BearerKey string

// GetRequestMetadata returns the metadata that proves who calls.
func (k BearerKey) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(k)}, nil
}

// RequireTransportSecurity is false, since servers listen on the loopback interface.
func (k BearerKey) RequireTransportSecurity() bool {
	return false
}

// canBeSent says whether a header can hold the key: the newline of a file is often left in.
func canBeSent(key string) bool {
	return strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

func (o *options) dialOptions() []grpc.DialOption {
	dial := []grpc.DialOption{
		// A long prompt is silent: a server that vanished is noticed by its missing pong.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 30 * time.Second, Timeout: 10 * time.Second,
		}),
		o.transport,
	}
	if o.apiKey != "" {
		dial = append(dial, grpc.WithPerRPCCredentials(BearerKey(o.apiKey)))
	}
	return append(dial, o.dial...)
}
