package generate

import (
	"fmt"
	"strings"
	"time"

	"github.com/verigraph/verigraph/trajectory"
)

// meter counts rollouts by source, and tokens, cost and time of this session.
type meter struct {
	price    Price
	rollouts []int
	// session, gained are rollouts and accepted ones of this session.
	session       int
	input, output int
	begin, shown  time.Time
}

func newMeter(c Config) meter {
	return meter{price: c.Price, rollouts: make([]int, len(c.Sources)), begin: time.Now()}
}

// charsPerToken stands in where a text-only teacher gives no ids.
const charsPerToken = 4

// add counts the tokens that a trajectory was billed for: every turn reads its whole context again.
func (m *meter) add(t *trajectory.Trajectory) {
	m.session++
	if t.TextOnly || len(t.Segments) == 0 {
		context := 0
		for _, msg := range t.Messages {
			n := (len(msg.Content) + charsPerToken - 1) / charsPerToken
			if msg.Role == "assistant" {
				m.input += context
				m.output += n
			}
			context += n
		}
		return
	}
	for i := range t.Segments {
		s := &t.Segments[i]
		for _, sp := range s.Spans {
			if sp.Kind == trajectory.SpanSampled {
				m.input += len(s.PromptIDs) + sp.Start
				m.output += sp.End - sp.Start
			}
		}
	}
}

func (m *meter) cost() float64 {
	return (float64(m.input)*m.price.Input + float64(m.output)*m.price.Output) / 1e6
}

func (m *meter) due(now time.Time) bool {
	if now.Sub(m.shown) < time.Second {
		return false
	}
	m.shown = now
	return true
}

// line is the progress: acceptance by source, tokens, cost, and the time left at the pace of this session.
func (s *Session) line(now time.Time) string {
	var parts []string
	need := 0.0 // rollouts that are still needed, at each source's acceptance
	for i, src := range s.Config.Sources {
		p, n := &s.schedule.sources[i], s.meter.rollouts[i]
		rate := 0.0
		if n > 0 {
			rate = float64(p.accepted) / float64(n)
		}
		parts = append(parts, fmt.Sprintf("%s %d of %d (%.0f %% of %d accepted)", src.Name, p.accepted, src.Want, 100*rate, n))
		if left := src.Want - p.accepted; left > 0 {
			need += float64(left) / max(rate, 1/float64(n+1))
		}
	}
	text := strings.Join(parts, ", ")
	text += fmt.Sprintf("; %d rollouts, %d tokens in, %d out", s.meter.session, s.meter.input, s.meter.output)
	if s.meter.price != (Price{}) {
		text += fmt.Sprintf(", cost %.2f", s.meter.cost())
	}
	if elapsed := now.Sub(s.meter.begin); s.meter.session > 0 && need > 0 {
		left := time.Duration(need / float64(s.meter.session) * float64(elapsed))
		text += ", about " + left.Round(time.Second).String() + " left"
	}
	return text
}
