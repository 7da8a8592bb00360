package jetstream_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/jetstream"
)

// A message leaves its queue when it is acknowledged, after the next stage holds the result; a repeat that still waits
// is recognised by its key.
func ExampleQueue() {
	dir, err := os.MkdirTemp("", "queue")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := jetstream.StartServer(jetstream.ServerConfig{Dir: filepath.Join(dir, "nats")})
	if err != nil {
		panic(err)
	}
	defer server.Stop()
	nc, err := server.Connect()
	if err != nil {
		panic(err)
	}
	blobs, err := blob.OpenDir(dir)
	if err != nil {
		panic(err)
	}
	defer blobs.Close()
	ctx := context.Background()
	bus, err := jetstream.New(ctx, nc, blobs, jetstream.Defaults())
	if err != nil {
		panic(err)
	}
	defer bus.Close()
	q, err := jetstream.NewQueue[string](ctx, bus, jetstream.Prompts, "first")
	if err != nil {
		panic(err)
	}
	for range 2 {
		if err := q.Publish(ctx, "first", "429-0", "How many rows?"); err != nil {
			panic(err)
		}
	}
	m, err := q.Receive(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(m.Value, m.Deliveries, m.Ack(ctx))
	// Output:
	// How many rows? 1 <nil>
}
