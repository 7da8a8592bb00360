package line

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/policy/pool"
	"github.com/verigraph/verigraph/policy/probe"
)

// probeTimeout bounds all calls of one probe.
const probeTimeout = 2 * time.Minute

// prober makes the full probe of a worker's endpoints.
type prober struct {
	pool  *pool.Pool
	opt   probe.Options
	log   *zap.Logger
	limit atomic.Int64
}

// contextLimit is what the server stated when it was probed last, 0 if it stated none.
func (p *prober) contextLimit() int { return int(p.limit.Load()) }

// run probes one of the endpoints. Its error names everything that is missing, each with the option that
// gives it. A short context only ends trajectories earlier, so it is a warning here.
func (p *prober) run(ctx context.Context) error {
	client := p.pool.Client()
	if client == nil {
		return errors.New("policy: there is no endpoint")
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	opt := p.opt
	opt.Endpoint = client.Root()
	report := probe.Run(ctx, client, opt)
	var missing []error
	for _, c := range report.Checks {
		switch {
		case c.State == probe.Missing && c.Name != probe.ContextLength:
			missing = append(missing, fmt.Errorf("policy endpoint %s: %s: %s -> %s", report.Endpoint, c.Name, c.Found, c.Fix))
		case c.State == probe.Missing, c.State == probe.Warning:
			p.log.Warn("policy server", zap.String("endpoint", report.Endpoint), zap.String("check", c.Name),
				zap.String("found", c.Found), zap.String("fix", c.Fix))
		}
	}
	if len(missing) == 0 {
		p.limit.Store(int64(report.MaxModelLen))
	}
	return errors.Join(missing...)
}
