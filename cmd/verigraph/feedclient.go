package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/cmd/internal/config"
	verigraphv1 "github.com/verigraph/verigraph/proto/verigraph/v1"
)

// feedFlags say how to reach a run's feed.
type feedFlags struct {
	addr, tokenEnv, ca, cert, key string
}

func (f *feedFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.addr, "feed", os.Getenv("VERIGRAPH_FEED"), "HOST:PORT of the feed (default: VERIGRAPH_FEED)")
	fs.StringVar(&f.tokenEnv, "token-env", "", "environment variable with the feed's bearer token")
	fs.StringVar(&f.ca, "tls-ca", "", "PEM file with the feed's certificate authority; without it the connection is in the clear")
	fs.StringVar(&f.cert, "tls-cert", "", "PEM file with this client's certificate")
	fs.StringVar(&f.key, "tls-key", "", "PEM file with its key")
}

// dial connects; the context carries the token.
func (f *feedFlags) dial(ctx context.Context) (context.Context, verigraphv1.RolloutServiceClient, func() error, error) {
	if f.addr == "" {
		return ctx, nil, nil, cli.Usage(errors.New("--feed: HOST:PORT of the run's feed is needed"))
	}
	creds, err := f.credentials()
	if err != nil {
		return ctx, nil, nil, cli.Usage(err)
	}
	conn, err := grpc.NewClient(f.addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		return ctx, nil, nil, cli.Usage(fmt.Errorf("--feed: %w", err))
	}
	if f.tokenEnv != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+os.Getenv(f.tokenEnv))
	}
	return ctx, verigraphv1.NewRolloutServiceClient(conn), conn.Close, nil
}

func (f *feedFlags) credentials() (credentials.TransportCredentials, error) {
	if f.ca == "" {
		return insecure.NewCredentials(), nil
	}
	pool, err := config.LoadCA(f.ca)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	cfg := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}
	if f.cert != "" {
		cert, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert: %w", err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return credentials.NewTLS(cfg), nil
}
