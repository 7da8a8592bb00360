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
	// AckWait is how long a silent holder keeps a message; holders signal progress at a third of it.
	AckWait time.Duration `yaml:"ack_wait"`
	// MaxDeliver is the number of deliveries after which a group is set aside.
	MaxDeliver int `yaml:"max_deliver"`
	// Replicas of every stream (1 or 3).
	Replicas int `yaml:"replicas"`
}

// Defaults for one server.
func Defaults() Config {
	return Config{AckWait: 20 * time.Second, MaxDeliver: 6, Replicas: 1}
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
	if nc.MaxPayload() < 2*partLimit {
		return nil, fmt.Errorf("nats: the server's max_payload is %d bytes, want at least %d", nc.MaxPayload(), 2*partLimit)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	b := &Bus{nc: nc, js: js, cfg: cfg, blobs: blobs}
	for name := range stages {
		if err := b.reconcile(ctx, name); err != nil {
			return nil, err
		}
	}
	b.state, err = js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: "verigraph_state", Replicas: cfg.Replicas,
	})
	if err != nil {
		return nil, fmt.Errorf("nats: state bucket: %w", err)
	}
	return b, nil
}

// Dial connects to an external cluster.
func Dial(url, credentials string) (*nats.Conn, error) {
	opts := []nats.Option{nats.Name("verigraph"), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(false)}
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

// Closed reports whether the connection is closed for good.
func (b *Bus) Closed() bool { return b.nc.IsClosed() }

func (b *Bus) reconcile(ctx context.Context, name string) error {
	cfg := jetstream.StreamConfig{
		Name: name, Subjects: []string{"verigraph.*." + stages[name] + ".>"},
		Storage: jetstream.FileStorage, Replicas: b.cfg.Replicas, AllowDirect: true,
	}
	switch name {
	case Backlog, Prompts, Trajectories, Scored:
		cfg.Retention = jetstream.WorkQueuePolicy
		cfg.Discard = jetstream.DiscardNew
	case References, SetAside:
		cfg.MaxMsgsPerSubject = 1
	case JournalStream:
		cfg.MaxAge, cfg.AllowRollup, cfg.AllowMsgTTL = journalAge, true, true
	}
	if _, err := b.js.CreateOrUpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("nats: stream %s: %w", name, err)
	}
	return nil
}

func subject(run, stream, key string) string {
	return "verigraph." + run + "." + stages[stream] + "." + key
}
