package dataset_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// segment is a valid segment: two sampled ids, one template id, one sampled id.
func segment(first int32) trajectory.Segment {
	return trajectory.Segment{
		PromptIDs:    []int32{first, 2, 3},
		ResponseIDs:  []int32{10, 11, 12, 13},
		ResponseMask: []int8{1, 1, 0, 1},
		LogProbs:     []float32{-0.5, -0.25, 0, -1},
		Spans: []trajectory.Span{
			{Start: 0, End: 2, Kind: trajectory.SpanSampled, Turn: 0, PolicyVersion: 3, PolicyVersionEnd: 4},
			{Start: 2, End: 3, Kind: trajectory.SpanTemplate, Turn: 0},
			{Start: 3, End: 4, Kind: trajectory.SpanSampled, Turn: 1, PolicyVersion: 4, PolicyVersionEnd: 4},
		},
	}
}

// scoredGroup has one rewarded member per reward.
func scoredGroup(rewards ...float64) trajectory.ScoredGroup {
	d := task.Dispatch{
		ID: "p1-0", Run: "run", GroupSize: len(rewards),
		Prompt: task.Prompt{ID: "p1", DataSource: "dabench"},
	}
	g := trajectory.ScoredGroup{Group: trajectory.Group{Dispatch: d, PadTokenID: 99}}
	for i, r := range rewards {
		g.Group.Trajectories = append(g.Group.Trajectories, trajectory.Trajectory{
			ID: task.RolloutID{Run: "run", Dispatch: d.ID, Sample: i}, PromptID: "p1",
			Termination: trajectory.Submitted, Segments: []trajectory.Segment{segment(1)},
			Turns: []trajectory.Turn{
				{HasCode: true, Status: trajectory.CellOK}, {HasCode: true, Status: trajectory.CellException}, {},
			},
		})
		g.Scores = append(g.Scores, trajectory.Score{
			Status: trajectory.ScoreOK, Reward: r, Total: r + 1, Clipped: r + 0.5, Accuracy: 1, TurnRewards: []float64{r},
		})
	}
	return g
}

// lose takes the reward of one member away.
func lose(g trajectory.ScoredGroup, i int, status trajectory.ScoreStatus, why trajectory.Termination) {
	g.Scores[i] = trajectory.Score{Status: status, Reason: "test"}
	g.Group.Trajectories[i].Termination = why
	g.Group.Trajectories[i].Segments = nil
}

func TestEverySegmentOfARolloutIsOneRowThatCarriesTheRolloutsReward(t *testing.T) {
	t.Parallel()
	g := scoredGroup(0.25, 0.75)
	g.Group.Trajectories[0].Segments = []trajectory.Segment{segment(1), segment(7)}
	rows, err := dataset.Rows(g, 5, dataset.RowOptions{})
	require.NoError(t, err)
	require.Len(t, rows, 3)
	for i, want := range []struct {
		session, output int32
		reward          float32
		firstPrompt     int32
	}{{0, 0, 0.25, 1}, {0, 1, 0.25, 7}, {1, 0, 0.75, 1}} {
		r := rows[i]
		assert.Equal(t, int32(5+i), r.RowIdx)
		assert.Equal(t, "p1-0", r.UID)
		assert.Equal(t, want.session, r.SessionID)
		assert.Equal(t, want.output, r.OutputIdx)
		assert.Equal(t, want.reward, r.Reward)
		assert.Equal(t, want.reward, r.SeqFinalReward)
		assert.Equal(t, want.reward+1, r.Score)
		assert.Equal(t, want.reward+0.5, r.SeqReward)
		assert.Equal(t, want.firstPrompt, r.PromptIDs[0])
		assert.True(t, r.LossValid)
		assert.Equal(t, "ok", r.RewardStatus)
		assert.Equal(t, int32(3), r.NumTurns)
		assert.Equal(t, int32(2), r.ToolCalls)
		assert.Equal(t, int32(1), r.ToolErrors)
		assert.Equal(t, int64(3), r.PolicyVersionMin)
		assert.Equal(t, int64(4), r.PolicyVersionMax)
	}
	assert.Equal(t, int32(2), rows[0].NumPreempted, "one mixed span in each of two segments")
	assert.Equal(t, int32(1), rows[2].NumPreempted)
}

func TestVersionsAndInterruptionsComeFromTheSampledSpans(t *testing.T) {
	t.Parallel()
	sampled := func(turn int, version, end int64) trajectory.Span {
		return trajectory.Span{Kind: trajectory.SpanSampled, Turn: turn, PolicyVersion: version, PolicyVersionEnd: end}
	}
	template := trajectory.Span{Kind: trajectory.SpanTemplate, PolicyVersion: 99, PolicyVersionEnd: 99}
	for _, c := range []struct {
		name             string
		spans            []trajectory.Span
		oldest, newest   int64
		wantInterruption int32
	}{
		{"one version", []trajectory.Span{sampled(0, 5, 5), template, sampled(1, 5, 5)}, 5, 5, 0},
		{"an update between turns", []trajectory.Span{sampled(0, 5, 5), template, sampled(1, 6, 6)}, 5, 6, 0},
		{"an update between neighbouring turns", []trajectory.Span{sampled(0, 5, 5), sampled(1, 6, 6)}, 5, 6, 0},
		{"a mixed span", []trajectory.Span{sampled(0, 5, 7)}, 5, 7, 1},
		{"a resubmission under a new version", []trajectory.Span{sampled(0, 5, 5), sampled(0, 6, 6)}, 5, 6, 1},
		{"a continuation under the same version", []trajectory.Span{sampled(0, 5, 5), sampled(0, 5, 5)}, 5, 5, 0},
		{"a rollback", []trajectory.Span{sampled(0, 7, 7), template, sampled(1, 3, 3)}, 3, 7, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			seg := trajectory.Segment{PromptIDs: []int32{1}}
			for i, sp := range c.spans {
				sp.Start, sp.End = i, i+1
				seg.Spans = append(seg.Spans, sp)
				seg.ResponseIDs, seg.LogProbs = append(seg.ResponseIDs, 1), append(seg.LogProbs, 0)
				mask := int8(0)
				if sp.Kind == trajectory.SpanSampled {
					mask = 1
				}
				seg.ResponseMask = append(seg.ResponseMask, mask)
			}
			g := scoredGroup(0)
			g.Group.Trajectories[0].Segments = []trajectory.Segment{seg}
			rows, err := dataset.Rows(g, 0, dataset.RowOptions{})
			require.NoError(t, err)
			assert.Equal(t, c.oldest, rows[0].PolicyVersionMin)
			assert.Equal(t, c.newest, rows[0].PolicyVersionMax)
			assert.Equal(t, c.wantInterruption, rows[0].NumPreempted)
		})
	}
}

func TestAMemberWithoutARewardIsLeftOutOfTheRows(t *testing.T) {
	t.Parallel()
	g := scoredGroup(0, 0.5, 1)
	lose(g, 0, trajectory.ScoreLost, trajectory.SandboxLost)
	rows, err := dataset.Rows(g, 0, dataset.RowOptions{})
	require.NoError(t, err)
	require.Len(t, rows, 2)
	assert.Equal(t, int32(1), rows[0].SessionID)
	assert.Equal(t, int32(0), rows[0].RowIdx)
}

func TestAFilledMemberHasMaskZeroAndDoesNotMoveTheGroupsMean(t *testing.T) {
	t.Parallel()
	g := scoredGroup(0, 0.5, 1)
	g.Group.Trajectories[0].Segments = append(g.Group.Trajectories[0].Segments, segment(1))
	lose(g, 1, trajectory.ScoreUnscored, trajectory.Submitted)
	rows, err := dataset.Rows(g, 0, dataset.RowOptions{FillLost: true})
	require.NoError(t, err)
	require.Len(t, rows, 4)
	filled := rows[2]
	assert.Equal(t, int32(1), filled.SessionID)
	assert.Equal(t, float32(0.5), filled.Reward, "the mean over rollouts; over rows it would be 1/3")
	assert.Equal(t, float32(1), filled.SeqReward)
	assert.Equal(t, float32(1.5), filled.Score)
	assert.False(t, filled.LossValid)
	assert.Equal(t, "unscored", filled.RewardStatus)
	assert.Equal(t, []int8{0}, filled.ResponseMask)
	assert.Equal(t, []int32{99}, filled.ResponseIDs)
	assert.Equal(t, []float32{0}, filled.RolloutLogProbs)
	assert.Equal(t, rows[0].PromptIDs, filled.PromptIDs)
}

func TestAGroupWithTooFewRewardedMembersFailsWithATypedReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		lost    int
		opts    dataset.RowOptions
		tooFew  bool
		wantMin int
	}{
		{"two of four by default", 2, dataset.RowOptions{}, false, 0},
		{"one of four by default", 3, dataset.RowOptions{}, true, 2},
		{"one of four where one is enough", 3, dataset.RowOptions{MinValid: 1}, false, 0},
		{"filling does not save it", 3, dataset.RowOptions{FillLost: true}, true, 2},
		{"none", 4, dataset.RowOptions{MinValid: 1}, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := scoredGroup(0, 0.25, 0.5, 1)
			for i := range c.lost {
				lose(g, i, trajectory.ScoreLost, trajectory.PolicyUnavailable)
			}
			_, err := dataset.Rows(g, 0, c.opts)
			if !c.tooFew {
				require.NoError(t, err)
				return
			}
			var few *dataset.TooFewValidError
			require.ErrorAs(t, err, &few)
			assert.Equal(t, dataset.TooFewValidError{Dispatch: "p1-0", Valid: 4 - c.lost, MinValid: c.wantMin, Size: 4}, *few)
		})
	}
}

func TestASingleMemberGroupIsAllowedByDefault(t *testing.T) {
	t.Parallel()
	rows, err := dataset.Rows(scoredGroup(1), 0, dataset.RowOptions{})
	require.NoError(t, err)
	assert.Len(t, rows, 1)
}

func TestWhatATrainerMustNotSeeIsRefusedWithItsReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		break_ func(*trajectory.ScoredGroup)
		opts   dataset.RowOptions
		want   error
	}{
		{"text only", func(g *trajectory.ScoredGroup) { g.Group.Trajectories[1].TextOnly = true }, dataset.RowOptions{}, dataset.ErrTextOnly},
		{"NaN reward", func(g *trajectory.ScoredGroup) { g.Scores[1].Reward = math.NaN() }, dataset.RowOptions{}, dataset.ErrNotFinite},
		{"term beyond float32", func(g *trajectory.ScoredGroup) { g.Scores[1].Process = 1e300 }, dataset.RowOptions{}, dataset.ErrNotFinite},
		{"infinite turn reward", func(g *trajectory.ScoredGroup) { g.Scores[1].TurnRewards[0] = math.Inf(-1) }, dataset.RowOptions{}, dataset.ErrNotFinite},
		{"NaN timing", func(g *trajectory.ScoredGroup) { g.Group.Trajectories[1].Timing.ToolS = math.NaN() }, dataset.RowOptions{}, dataset.ErrNotFinite},
		{"long prompt", func(*trajectory.ScoredGroup) {}, dataset.RowOptions{Limits: dataset.Limits{PromptLength: 2}}, dataset.ErrOverLength},
		{"long response", func(*trajectory.ScoredGroup) {}, dataset.RowOptions{Limits: dataset.Limits{ResponseLength: 3}}, dataset.ErrOverLength},
		{"NaN log-prob", func(g *trajectory.ScoredGroup) {
			g.Group.Trajectories[1].Segments[0].LogProbs[0] = float32(math.NaN())
		}, dataset.RowOptions{}, dataset.ErrBrokenTokens},
		{"ends with a tool token", func(g *trajectory.ScoredGroup) {
			g.Group.Trajectories[1].Segments[0].ResponseMask[3] = 0
		}, dataset.RowOptions{}, dataset.ErrBrokenTokens},
		{"no segment", func(g *trajectory.ScoredGroup) { g.Group.Trajectories[1].Segments = nil }, dataset.RowOptions{}, dataset.ErrBrokenTokens},
		{"two segments for one row", func(g *trajectory.ScoredGroup) {
			g.Group.Trajectories[1].Segments = []trajectory.Segment{segment(1), segment(1)}
		}, dataset.RowOptions{OneRow: true}, dataset.ErrManySegments},
		{"our failure with a reward", func(g *trajectory.ScoredGroup) {
			g.Group.Trajectories[1].Termination = trajectory.SandboxLost
		}, dataset.RowOptions{}, dataset.ErrBadReward},
		{"missing member", func(g *trajectory.ScoredGroup) { g.Group.Trajectories = g.Group.Trajectories[:1] }, dataset.RowOptions{}, dataset.ErrIncomplete},
		{"members out of order", func(g *trajectory.ScoredGroup) { g.Group.Trajectories[1].ID.Sample = 0 }, dataset.RowOptions{}, dataset.ErrIncomplete},
		{"member of another group", func(g *trajectory.ScoredGroup) { g.Group.Trajectories[1].ID.Dispatch = "p2-0" }, dataset.RowOptions{}, dataset.ErrIncomplete},
		{"uid with underscore", func(g *trajectory.ScoredGroup) { g.Group.Dispatch.ID = "p_1-0" }, dataset.RowOptions{}, dataset.ErrIncomplete},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := scoredGroup(0, 1)
			_, err := dataset.Rows(g, 0, c.opts)
			if c.opts == (dataset.RowOptions{}) || c.opts.OneRow {
				require.NoError(t, err, "the group is good before it is broken")
			}
			c.break_(&g)
			rows, err := dataset.Rows(g, 0, c.opts)
			require.ErrorIs(t, err, c.want)
			assert.Nil(t, rows)
			var rowErr *dataset.RowError
			require.ErrorAs(t, err, &rowErr)
		})
	}
}

func TestGroundingIsAShareOfTheSubmittedClaimsAndNullWhereItDidNotRun(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	g := scoredGroup(0, 1)
	g.Group.Trajectories[0].Graph.Grounding = []evidence.ClaimGrounding{
		{Claim: "c1", Structural: &yes, Replayed: &yes, Lexical: &no},
		{Claim: "c2", Structural: &no, Lexical: &no},
	}
	rows, err := dataset.Rows(g, 0, dataset.RowOptions{})
	require.NoError(t, err)
	require.NotNil(t, rows[0].GroundingStructural)
	assert.Equal(t, float32(0.5), *rows[0].GroundingStructural)
	require.NotNil(t, rows[0].GroundingLexical)
	assert.Equal(t, float32(0), *rows[0].GroundingLexical)
	assert.Nil(t, rows[0].GroundingReplayed, "it ran on one of two claims")
	assert.Nil(t, rows[0].GroundingSupported)
	assert.Nil(t, rows[1].GroundingStructural, "nothing was submitted")
}

func TestInvalidUTF8IsCleanedBeforeItReachesAColumn(t *testing.T) {
	t.Parallel()
	g := scoredGroup(0, 1)
	g.Group.Dispatch.Prompt.ID = "p\xff1"
	g.Group.Trajectories[0].Messages = []trajectory.Message{{Role: "user", Content: "cut \xe4\xb8 here <b>"}}
	rows, err := dataset.Rows(g, 0, dataset.RowOptions{})
	require.NoError(t, err)
	assert.Equal(t, "p\uFFFD1", rows[0].PromptID)
	assert.Contains(t, rows[0].MessagesJSON, "here <b>")
	assert.Equal(t, rows[0].MessagesJSON, strings.ToValidUTF8(rows[0].MessagesJSON, ""))
	assert.Equal(t, "[]", rows[1].MessagesJSON, "no messages are an empty list, not null")
}

func TestMetaIsEqualForGroupsThatMayShareABatch(t *testing.T) {
	t.Parallel()
	a, b := scoredGroup(0, 1), scoredGroup(1, 1)
	a.Scores[0] = trajectory.Score{Status: trajectory.ScoreLost}
	a.Scores[1].Preset, a.Scores[1].PresetHash = "default", "h"
	b.Scores[0].Preset, b.Scores[0].PresetHash = "default", "h"
	limits := dataset.Limits{PromptLength: 8, ResponseLength: 16}
	assert.Equal(t, dataset.MetaOf(a, limits, dataset.OverlongNone), dataset.MetaOf(b, limits, dataset.OverlongNone))
	b.Group.TokenizerSHA256 = "other"
	assert.NotEqual(t, dataset.MetaOf(a, limits, dataset.OverlongNone), dataset.MetaOf(b, limits, dataset.OverlongNone))
}

func TestMetaSurvivesItsTextForm(t *testing.T) {
	t.Parallel()
	m := dataset.Meta{
		Run: "r", Model: "m", TokenizerSHA256: "t", ChatTemplateSHA256: "c", PadTokenID: 7,
		Sampling:     trajectory.Sampling{Temperature: 0.7, TopP: 1, TopK: -1, MinP: 1e-9, RepetitionPenalty: 1, MaxTokens: 9},
		RewardPreset: "default", RewardHash: "h", PromptLength: 1, ResponseLength: 2, OverlongOwner: dataset.OverlongReward,
	}
	values := map[string]string{}
	for _, kv := range m.KeyValues() {
		values[kv.Key] = kv.Value
	}
	get := func(key string) (string, bool) { v, ok := values[key]; return v, ok }
	back, err := dataset.ParseMeta(get)
	require.NoError(t, err)
	assert.Equal(t, m, back)

	delete(values, "max_tokens")
	back, err = dataset.ParseMeta(get)
	require.NoError(t, err, "files of early runs do not state it")
	assert.Zero(t, back.Sampling.MaxTokens)

	delete(values, "model")
	values["top_k"] = "many"
	_, err = dataset.ParseMeta(get)
	require.ErrorContains(t, err, "no model")
	require.ErrorContains(t, err, "top_k")
	values["schema_version"] = "2"
	_, err = dataset.ParseMeta(get)
	require.ErrorContains(t, err, "schema_version 2, want 1")
}
