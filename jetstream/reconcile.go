package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// oldest is the first server version with what the streams use: a time to live per message.
var oldest = [2]int{2, 11}

// checkServer refuses a server that the line cannot run on.
func checkServer(nc *nats.Conn) error {
	if err := checkVersion(nc.ConnectedServerVersion()); err != nil {
		return fmt.Errorf("nats: server %s: %w", nc.ConnectedUrlRedacted(), err)
	}
	if nc.MaxPayload() < 2*partLimit {
		return fmt.Errorf("nats: the server's max_payload is %d bytes, want at least %d", nc.MaxPayload(), 2*partLimit)
	}
	return nil
}

func checkVersion(v string) error {
	major, rest, _ := strings.Cut(v, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	if errA != nil || errB != nil || a < oldest[0] || a == oldest[0] && b < oldest[1] {
		return fmt.Errorf("version %q, want %d.%d or newer", v, oldest[0], oldest[1])
	}
	return nil
}

// streamConfig is what a stream has to be.
func (b *Bus) streamConfig(name string) jetstream.StreamConfig {
	cfg := jetstream.StreamConfig{
		Name: name, Subjects: []string{"verigraph.*." + stages[name] + ".>"},
		Storage: b.storage(), Replicas: b.cfg.Replicas, AllowDirect: true, MaxBytes: -1, Discard: jetstream.DiscardNew,
	}
	if n := b.cfg.MaxBytes[name]; n > 0 {
		cfg.MaxBytes = n
	}
	switch name {
	case Backlog, Prompts, Trajectories, Scored:
		cfg.Retention = jetstream.WorkQueuePolicy
	case References, SetAside:
		cfg.MaxMsgsPerSubject = 1
	case JournalStream:
		cfg.MaxAge, cfg.AllowRollup, cfg.AllowMsgTTL = journalAge, true, true
	}
	return cfg
}

func (b *Bus) storage() jetstream.StorageType {
	if b.cfg.Storage == StorageMemory {
		return jetstream.MemoryStorage
	}
	return jetstream.FileStorage
}

// reconcile makes a stream what the configuration says. What cannot be changed in place is refused: a
// person decides about what the stream holds.
func (b *Bus) reconcile(ctx context.Context, name string) error {
	want := b.streamConfig(name)
	return b.settled(ctx, "stream "+name, func(ctx context.Context) error {
		s, err := b.js.Stream(ctx, name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			_, err = b.js.CreateStream(ctx, want)
			if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was faster
				_, err = b.js.UpdateStream(ctx, want)
			}
			return err
		case err != nil:
			return err
		}
		have := s.CachedInfo().Config
		if have.Storage != want.Storage {
			return fmt.Errorf("it is stored in %s and nats.storage says %s, which cannot be changed in place", have.Storage, want.Storage)
		}
		if have.Retention != want.Retention {
			return fmt.Errorf("its retention is %s, want %s, which cannot be changed in place: another program's stream?", have.Retention, want.Retention)
		}
		_, err = b.js.UpdateStream(ctx, want)
		return err
	})
}

// bucket opens a key-value bucket, which a managing process makes.
func (b *Bus) bucket(ctx context.Context, cfg jetstream.KeyValueConfig) (kv jetstream.KeyValue, err error) {
	cfg.Replicas, cfg.Storage = b.cfg.Replicas, b.storage()
	err = b.settled(ctx, "bucket "+cfg.Bucket, func(ctx context.Context) (err error) {
		if b.cfg.Manage {
			kv, err = b.js.CreateOrUpdateKeyValue(ctx, cfg)
		} else {
			kv, err = b.js.KeyValue(ctx, cfg.Bucket)
		}
		return err
	})
	return kv, err
}

// A cluster that has just started, or lost its leader, is asked again for a while. What nobody answers is
// asked again soon, since a call that began before an election (4 to 9 s) waits beyond its end.
const (
	clusterPatience = 20 * time.Second
	clusterElection = 10 * time.Second
	clusterTry      = time.Second
	clusterLateTry  = 5 * time.Second // where the server is slow and not without a leader
)

// errNotLast is a copy that is behind, or an entry on its way.
var errNotLast = errors.New("the last entry is not known yet")

// Codes of the server's API.
const (
	codeInsufficient   jetstream.ErrorCode = 10023
	codeUnavailable    jetstream.ErrorCode = 10008 // the cluster has no leader
	codeNoPeers        jetstream.ErrorCode = 10005 // too few servers for the replicas
	codeNotClustered   jetstream.ErrorCode = 10074
	codeUnknownStream  jetstream.ErrorCode = 10059
	codeOffline        jetstream.ErrorCode = 10118
	codeNotYetEnabled  jetstream.ErrorCode = 10076
	codeNotEnabledHere jetstream.ErrorCode = 10039
)

// settled does something that may be repeated until the cluster is able to, and says what stands against it.
func (b *Bus) settled(ctx context.Context, what string, do func(context.Context) error) error {
	for begun := time.Now(); ; {
		limit := clusterTry
		if time.Since(begun) > clusterElection {
			limit = clusterLateTry
		}
		try, cancel := context.WithTimeout(ctx, limit)
		err := do(try)
		cancel()
		if err == nil {
			return nil
		}
		if tooFewServers(err) {
			return fmt.Errorf("nats: %s: nats.replicas %d is above what the cluster has servers for: %w", what, b.cfg.Replicas, err)
		}
		if !passing(err) || ctx.Err() != nil || time.Since(begun) > clusterPatience {
			return b.explained(what, err)
		}
		if err := wait(ctx, retryEvery); err != nil {
			return fmt.Errorf("nats: %s: %w", what, err)
		}
	}
}

// tooFewServers: the cluster has fewer servers than the replicas that are asked for.
func tooFewServers(err error) bool {
	code := codeOf(err)
	return code == codeNotClustered || code == codeNoPeers && !away(err)
}

// away: it has enough, but does not hear from one of them now.
func away(err error) bool {
	return codeOf(err) == codeNoPeers && strings.Contains(err.Error(), "offline")
}

func passing(err error) bool {
	code := codeOf(err)
	return away(err) || code == codeUnavailable || code == codeOffline ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errNotLast) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// ErrUnanswered says what a broker that answers nothing may suffer from. A nats-server that could not write goes on
// and answers nothing that has to be stored.
var ErrUnanswered = errors.New("no answer (if this stays: the disk of NATS may be full; with room again, nats-server has to be started anew)")

func (b *Bus) explained(what string, err error) error {
	switch code := codeOf(err); {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("nats: %s: %w: %w", what, err, ErrUnanswered)
	case code == codeInsufficient:
		return fmt.Errorf("nats: %s: the store of NATS is full (its max_file_store, or the account's limit): %w", what, err)
	case code == codeNotYetEnabled || code == codeNotEnabledHere || errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("nats: %s: JetStream is not enabled on this server or account: %w", what, err)
	case !b.cfg.Manage && (errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) || code == codeUnknownStream):
		return fmt.Errorf("nats: %s is not there, and nats.manage is off: start a reward server of the run first: %w", what, err)
	}
	return fmt.Errorf("nats: %s: %w", what, err)
}

func codeOf(err error) jetstream.ErrorCode {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode
	}
	return 0
}

// Prepare makes the consumers of a run, for processes that may not.
func (b *Bus) Prepare(ctx context.Context, run string) error {
	for _, stream := range []string{Prompts, Trajectories, Scored} {
		if _, err := b.takers(ctx, stream, run); err != nil {
			return err
		}
	}
	return nil
}

// takers opens the one durable consumer that all takers of a run and stream share.
func (b *Bus) takers(ctx context.Context, stream, run string) (c jetstream.Consumer, err error) {
	name := durable(run)
	err = b.settled(ctx, "consumer "+name+" of "+stream, func(ctx context.Context) (err error) {
		if !b.cfg.Manage {
			c, err = b.js.Consumer(ctx, stream, name)
			return err
		}
		c, err = b.js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{
			Durable: name, FilterSubject: subject(run, stream, ">"), AckPolicy: jetstream.AckExplicitPolicy,
			AckWait: b.cfg.AckWait, MaxAckPending: b.cfg.MaxAckPending,
		})
		return err
	})
	return c, err
}

func durable(run string) string { return "takers-" + run }
