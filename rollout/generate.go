package rollout

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/verigraph/verigraph/policy"
)

// codeClose ends a turn (DESIGN section 4).
const codeClose = "</code_interpreter>"

// generate makes the policy call that the machine asked for.
func (r *run) generate(ctx context.Context, m *Machine, g Generate) {
	if r.recall(m, g) {
		return
	}
	before := r.Version()
	req := policy.Request{
		ID: r.out.ID.RequestID(r.out.Attempt, g.Turn), Session: r.out.ID.String(), Prompt: g.Prompt,
		MaxTokens: g.MaxTokens, Sampling: r.Config.Sampling,
		Seed:         turnSeed(r.seed, g.Turn, g.Sampled),
		StopTokenIDs: []int32{r.Chat.EndOfTurn()},
		CacheSalt:    strconv.FormatInt(before, 10),
	}
	if r.Config.Stop == StopAtCodeTag {
		req.Stop = []string{codeClose}
	}
	c, err := r.Policy.Complete(ctx, req)
	if err != nil {
		m.Failed(err)
		return
	}
	version, versionEnd := before, max(before, r.Version())
	if c.Versions.Known { // the endpoint's own word wins over the newest version that anybody stated
		version, versionEnd = c.Versions.Start, c.Versions.End
	}
	if r.age != nil {
		r.age.used(version)
	}
	r.sampled(ctx, m, g, c, version, versionEnd)
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
