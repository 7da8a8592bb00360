package jetstream

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/verigraph/verigraph/blob"
)

// Stream names.
const (
	Backlog      = "BACKLOG"
	Prompts      = "PROMPTS"
	Trajectories = "TRAJECTORIES"
	Scored       = "SCORED"
	References   = "REFERENCES"
	Ledger       = "LEDGER"
	Batches      = "BATCHES"
	SetAside     = "SET_ASIDE"
	// JournalStream holds the turns of unfinished rollouts.
	JournalStream = "JOURNAL"
)

// stages are the subject tokens of the streams.
var stages = map[string]string{
	Backlog: "backlog", Prompts: "prompts", Trajectories: "trajectories", Scored: "scored",
	References: "references", Ledger: "ledger", Batches: "batches", SetAside: "set_aside", JournalStream: "journal",
}

// journalAge is when what nobody freed is gone: longer than any run is left alone with a group half done.
const journalAge = 14 * 24 * time.Hour

var runName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,63}$`)

// CheckRun reports whether a run name is usable as a subject token and verl uid part.
func CheckRun(run string) error {
	if !runName.MatchString(run) {
		return fmt.Errorf("run %q: want 1 to 64 letters, digits or '-'", run)
	}
	return nil
}

// Config of a bus.
type Config struct {
	// AckWait is how long a silent holder keeps a message; holders signal progress at a third of it. A
	// leader that is silent for as long is replaced.
	AckWait time.Duration `yaml:"ack_wait"`
	// MaxDeliver is the number of deliveries after which a group is set aside.
	MaxDeliver int `yaml:"max_deliver"`
	// Replicas of every stream: 1 on one server, 3 or 5 on a cluster of at least as many.
	Replicas int `yaml:"replicas"`
	// MaxAckPending bounds the messages of one stage that are held at a time, by all its processes.
	MaxAckPending int `yaml:"max_ack_pending"`
	// MaxBytes bounds each stream by name; what is over it is refused, nothing is thrown away. A missing
	// one has no bound of its own.
	MaxBytes map[string]int64 `yaml:"max_bytes"`
	// Storage is file, or memory.
	Storage string `yaml:"storage"`
	// Manage lets this process make the streams and consumers and change them to what is written here.
	// Without it they must be there: a reward server makes them.
	Manage bool `yaml:"manage"`
}

// Storages.
const (
	StorageFile   = "file"
	StorageMemory = "memory"
)

// Defaults for one server.
func Defaults() Config {
	return Config{
		AckWait: 5 * time.Second, MaxDeliver: 6, Replicas: 1, MaxAckPending: 100_000, Storage: StorageFile, Manage: true,
	}
}

// Validate reports every problem at once.
func (c Config) Validate() error {
	var errs []error
	if c.AckWait < time.Second {
		errs = append(errs, fmt.Errorf("nats.ack_wait: %s is below 1s", c.AckWait))
	}
	if c.MaxDeliver < 1 {
		errs = append(errs, fmt.Errorf("nats.max_deliver: %d, want at least 1", c.MaxDeliver))
	}
	if c.Replicas < 1 || c.Replicas > 5 {
		errs = append(errs, fmt.Errorf("nats.replicas: %d, want 1 to 5", c.Replicas))
	}
	if c.Replicas == 2 || c.Replicas == 4 {
		errs = append(errs, fmt.Errorf("nats.replicas: %d survives the loss of no more servers than %d: want 1, 3 or 5", c.Replicas, c.Replicas-1))
	}
	if c.MaxAckPending < 1 {
		errs = append(errs, fmt.Errorf("nats.max_ack_pending: %d, want at least 1", c.MaxAckPending))
	}
	for name, n := range c.MaxBytes {
		if stages[name] == "" {
			errs = append(errs, fmt.Errorf("nats.max_bytes: no stream is called %q", name))
		} else if n < 2*partLimit {
			errs = append(errs, fmt.Errorf("nats.max_bytes.%s: %d holds not even one message of up to %d bytes", name, n, 2*partLimit))
		}
	}
	if c.Storage != StorageFile && c.Storage != StorageMemory {
		errs = append(errs, fmt.Errorf("nats.storage: %q, want %s or %s", c.Storage, StorageFile, StorageMemory))
	}
	return errors.Join(errs...)
}

// Bus is a connection with the project's streams in place. Safe for concurrent use.
type Bus struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	cfg   Config
	blobs *blob.Store
	state jetstream.KeyValue
}

// New reconciles the streams and returns the bus, which owns nc from then on.
func New(ctx context.Context, nc *nats.Conn, blobs *blob.Store, cfg Config) (*Bus, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := checkServer(nc); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	b := &Bus{nc: nc, js: js, cfg: cfg, blobs: blobs}
	if cfg.Manage {
		for name := range stages {
			if err := b.reconcile(ctx, name); err != nil {
				return nil, err
			}
		}
	}
	b.state, err = b.bucket(ctx, jetstream.KeyValueConfig{Bucket: "verigraph_state"})
	return b, err
}

// A server that is silent for longer than this many pings is left for the next one. A host or a link that dies
// resets nothing, and the library's own two minutes would hold all that is in work for longer than any lease.
const (
	pingEvery   = 2 * time.Second
	pingsMissed = 2
)

// Dial connects to an external server or cluster (URLs separated by commas). Answers come to an inbox of
// the run's own, so that a user's permissions can keep it from those of others.
func Dial(url, credentials, run string) (*nats.Conn, error) {
	opts := []nats.Option{
		nats.Name("verigraph"), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(false), nats.CustomInboxPrefix("_INBOX.verigraph." + run),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(pingsMissed),
	}
	if credentials != "" {
		opts = append(opts, nats.UserCredentials(credentials))
	}
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		return nil, fmt.Errorf("nats: connect %s: %w", redactURL(url), err)
	}
	return nc, nil
}

// Close closes the connection.
func (b *Bus) Close() { b.nc.Close() }

// Flush waits until the server has seen all that was sent.
func (b *Bus) Flush() error {
	if err := b.nc.Flush(); err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	return nil
}

// Closed reports whether the connection is closed for good.
func (b *Bus) Closed() bool { return b.nc.IsClosed() }

func subject(run, stream, key string) string {
	return "verigraph." + run + "." + stages[stream] + "." + key
}
