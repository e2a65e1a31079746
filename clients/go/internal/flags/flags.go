// Package flags holds the flags by which the programs of this module connect.
package flags

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"example.com/headrace"
)

// Connection is where and as whom a program connects.
type Connection struct {
	Target string
	// APIKey is empty where none was given.
	APIKey string

	tls               bool
	caCerts           string
	certFile, keyFile string
}

// Register adds the flags to a set and returns where their values will be.
func Register(set *flag.FlagSet) *Connection {
	c := &Connection{}
	set.StringVar(&c.Target, "target", "localhost:1920", "the `address` of the server")
	set.BoolVar(&c.tls, "tls", false, "encrypt, and trust what this machine trusts")
	set.StringVar(&c.caCerts, "ca-certs", "", "encrypt, and trust the certificates in `FILE`")
	set.StringVar(&c.certFile, "certfile", "", "show the certificate in `FILE` (needs -keyfile)")
	set.StringVar(&c.keyFile, "keyfile", "", "the `FILE` of that certificate's private key")
	// No StringVar, which would show the default in the usage.
	set.Func("api-key", "the `KEY` to call with (default: HEADRACE_API_KEY)",
		func(key string) error {
			c.APIKey = key
			return nil
		})
	return c
}

// DefaultAPIKey takes the key of the environment, to be called before flags are parsed.
func (c *Connection) DefaultAPIKey() {
	c.APIKey, _, _ = strings.Cut(os.Getenv("HEADRACE_API_KEY"), ",")
}

// TLS returns the options that encrypt the connection: none where no flag asks for it.
func (c *Connection) TLS() ([]headrace.Option, error) {
	if (c.certFile == "") != (c.keyFile == "") {
		return nil, errors.New("-certfile and -keyfile belong together: give both or none")
	}
	if !c.tls && c.caCerts == "" && c.certFile == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.caCerts != "" {
		pem, err := os.ReadFile(c.caCerts)
		if err != nil {
			return nil, fmt.Errorf("-ca-certs: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("-ca-certs: %s holds no certificate in PEM", c.caCerts)
		}
	}
	if c.certFile != "" {
		certificate, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
		if err != nil {
			return nil, fmt.Errorf("-certfile, -keyfile: %w", err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return []headrace.Option{headrace.WithTLS(config)}, nil
}
