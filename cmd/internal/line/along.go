package line

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/jetstream"
)

// along reads a run's logs while another server leads it, so that the time to follow it does not grow with the run.
type along struct {
	ledger  *jetstream.LogReader[leader.Event]
	batches *jetstream.LogReader[leader.BatchRecord]
	history *leader.History
	next    time.Time
}

const (
	alongEvery = 2 * time.Second
	alongLimit = 500 * time.Millisecond // the lease is not asked for meanwhile
)

func (l *Lead) newAlong() *along {
	return &along{
		ledger:  jetstream.NewLogReader[leader.Event](l.bus, jetstream.Ledger, l.cfg.Run),
		batches: jetstream.NewLogReader[leader.BatchRecord](l.bus, jetstream.Batches, l.cfg.Run),
		history: leader.NewHistory(nil, nil),
	}
}

// readAlong books what came since the last time. It reads for a moment only: what is left, or was not answered, is
// read the next time, at the latest by whoever takes the logs over.
func (l *Lead) readAlong(ctx context.Context) {
	if l.along == nil {
		l.along = l.newAlong()
	}
	a, start := l.along, time.Now()
	if start.Before(a.next) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, alongLimit)
	defer cancel()
	events, err := a.ledger.Read(ctx)
	records, berr := a.batches.Read(ctx)
	a.history.Add(events, records)
	if err == nil && berr == nil {
		a.next = start.Add(alongEvery)
	} else {
		l.log.Debug("logs are not read along to their end yet", zap.NamedError("ledger", err), zap.NamedError("batches", berr))
	}
}
