package rollout

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/trajectory"
)

// maxResumes bounds how often one turn is resumed after an abort or inside open reasoning.
const maxResumes = 256

// generated is one finished turn of the policy.
type generated struct {
	tokens turnTokens
	text   string
	finish string
	// code is the cell, ready to run; hasCode tells an empty one from none.
	code    string
	hasCode bool
	// closed: the policy sampled the end-of-turn id itself.
	closed  bool
	cut     trajectory.Termination
	seconds float64
}

// generate samples one turn. A stop inside open reasoning and an abort go on from the same ids.
func (r *run) generate(ctx context.Context, turn int) (generated, error) {
	var g generated
	base := r.log.context()
	for range maxResumes {
		budget, cut := r.budget(len(base), g.tokens.len())
		if budget < 1 {
			return r.cutTurn(g, cut), nil
		}
		c, err := r.complete(ctx, turn, slices.Concat(base, g.tokens.ids()), budget, &g)
		if err != nil {
			var pe *policy.Error
			if asPolicyError(err, &pe) && pe.Outcome == policy.ContextFull && g.tokens.len()+r.log.responseLen() > 0 {
				return r.cutTurn(g, trajectory.ContextFull), nil
			}
			return g, err
		}
		if done, err := r.settle(&g, c); done || err != nil {
			return g, err
		}
		if c.Finish == "length" {
			_, cut := r.budget(len(base), g.tokens.len())
			return r.cutTurn(g, cut), nil
		}
	}
	return g, fmt.Errorf("policy: turn %d was resumed %d times", turn, maxResumes)
}

func (r *run) complete(ctx context.Context, turn int, prompt []int32, budget int, g *generated) (policy.Completion, error) {
	req := policy.Request{
		ID: r.out.ID.RequestID(r.out.Attempt, turn), Session: r.out.ID.String(), Prompt: prompt,
		MaxTokens: budget, Sampling: r.Config.Sampling,
		Seed:         turnSeed(r.seed, turn, g.tokens.len()),
		StopTokenIDs: []int32{r.Chat.EndOfTurn()},
	}
	if r.Config.Stop == StopAtCodeTag {
		req.Stop = []string{codeClose}
	}
	before := r.Version()
	req.CacheSalt = strconv.FormatInt(before, 10)
	c, err := r.Policy.Complete(ctx, req)
	if err != nil {
		return c, err
	}
	g.seconds += c.Duration.Seconds()
	g.finish = c.Finish
	g.tokens.add(sampled{ids: c.IDs, logProbs: c.LogProbs, version: before, versionEnd: max(before, r.Version())})
	return c, nil
}

// settle decides whether the turn is over, and trims it to its closing code tag.
func (r *run) settle(g *generated, c policy.Completion) (bool, error) {
	ids := g.tokens.ids()
	scan := policy.ScanTurn(r.Tokenizer, ids, codeClose)
	if scan.Found {
		g.tokens.trim(scan.N)
		g.text = r.text(ids[:scan.N])
		if g.hasCode = scan.HasCode; g.hasCode {
			g.code = clean(valid(r.Tokenizer.Decode(ids[:scan.N])[scan.CodeStart:scan.CodeEnd]))
		}
		return true, nil
	}
	switch c.Finish {
	case "abort", "length":
		return false, nil
	case "stop":
		return r.stopped(g, c, ids, scan)
	}
	// The engine ended the turn on its own (repetition): nothing of it runs.
	*g = r.cutTurn(*g, trajectory.TurnTruncated)
	return true, nil
}

// stopped handles a stop without a closing code tag outside reasoning.
func (r *run) stopped(g *generated, c policy.Completion, ids []int32, scan policy.Scan) (bool, error) {
	ended := len(ids) > 0 && ids[len(ids)-1] == r.Chat.EndOfTurn()
	if !ended && c.StopString == codeClose {
		if scan.ThinkOpen {
			return false, nil // the tag stands inside open reasoning, where nothing counts
		}
		return false, &policy.Error{Outcome: policy.Rejected, Err: fmt.Errorf("the server stopped at %s, which its token ids do not hold", codeClose)}
	}
	g.closed = ended
	g.text = r.text(ids)
	return true, nil
}

// budget is what the next call may sample, and which limit is the tightest.
func (r *run) budget(contextLen, turnLen int) (int, trajectory.Termination) {
	best, reason := r.Config.MaxTurnTokens-turnLen, trajectory.TurnTruncated
	if n := r.Config.MaxResponseTokens - r.log.responseLen() - turnLen; n < best {
		best, reason = n, trajectory.MaxTokens
	}
	if r.Config.MaxContext > 0 {
		if n := r.Config.MaxContext - contextLen - turnLen; n < best {
			best, reason = n, trajectory.ContextFull
		}
	}
	return best, reason
}

func (r *run) cutTurn(g generated, reason trajectory.Termination) generated {
	g.cut = reason
	g.text = r.text(g.tokens.ids())
	return g
}

// text is the readable form of ids: valid UTF-8, the end-of-turn marker left out.
func (r *run) text(ids []int32) string {
	if n := len(ids); n > 0 && ids[n-1] == r.Chat.EndOfTurn() {
		ids = ids[:n-1]
	}
	return valid(r.Tokenizer.Decode(ids))
}

func valid(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

func sampleSeed(dispatch int64, sample int) int64 { return mix(dispatch, int64(sample)) }

func turnSeed(sample int64, turn, resumed int) int64 {
	return mix(mix(sample, int64(turn)), int64(resumed))
}

// mix derives a seed in [0, 2^31), the range that every server and numpy accept.
func mix(a, b int64) int64 {
	return rand.New(rand.NewPCG(uint64(a), uint64(b))).Int64N(math.MaxInt32)
}
