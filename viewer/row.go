package viewer

import (
	"math"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/trajectory"
)

// row is one rollout in memory: what the list is filtered and sorted by, and where its line stands.
type row struct {
	offset      int64
	length      int32
	sample      int32
	id          string
	group       string
	prompt      string
	source      string
	termination string
	status      string
	correct     int8 // -1 where no rule exists or nothing was scored
	flags       []string
	reason      string           // the beginning of why it was lost or not scored
	num         [columns]float64 // NaN for null
}

// column is a number of a row.
type column int

const (
	colTotal column = iota
	colProcess
	colInfer
	colOutcome
	colPenalty
	colStructural
	colReplayed
	colLexical
	colSupported
	colCells
	colErrors
	colClaims
	colTurns
	colTokens
	colSampled
	colNodes
	colRefuted
	colSplit
	colDisagree // split votes, and refuted claims under an answer that the rule calls right
	colVersion  // oldest policy version
	colNewest   // newest policy version
	colQueueS
	colGenerateS
	colToolS
	colScoreS
	colAt // Unix seconds of the archive's line
	columns
)

var columnNames = [columns]string{
	"total", "process", "infer", "outcome", "penalty", "structural", "replayed", "lexical", "supported", "cells",
	"errors", "claims", "turns", "tokens", "sampled", "nodes", "refuted", "split", "disagree", "version", "newest", "queue_s",
	"generate_s", "tool_s", "score_s", "at",
}

func columnOf(name string) (column, bool) {
	i := slices.Index(columnNames[:], name)
	return column(i), i >= 0
}

func (x *index) row(e *archive.Entry, offset int64, length int32) row {
	parts := strings.Split(e.RolloutID, "/")
	group := e.RolloutID
	if len(parts) == 3 {
		group = parts[1]
	}
	r := row{
		offset: offset, length: length, sample: int32(e.Sample), id: e.RolloutID, group: x.same(group), prompt: x.same(e.PromptID),
		source: x.same(e.DataSource), termination: x.same(string(e.TerminationReason)), status: x.same(string(e.RewardStatus)),
		correct: -1, flags: x.sameFlags(e.Flags), reason: x.same(clip(e.Error, maxReason).Text),
	}
	if e.Correct != nil {
		r.correct = 0
		if *e.Correct {
			r.correct = 1
		}
	}
	r.num = numbers(e)
	r.num[colDisagree] = r.num[colSplit]
	if r.correct == 1 {
		r.num[colDisagree] += r.num[colRefuted]
	}
	return r
}

// maxReason is what is kept in memory of an error's text.
const maxReason = 120

func numbers(e *archive.Entry) [columns]float64 {
	null := func(v *float64) float64 {
		if v == nil {
			return math.NaN()
		}
		return *v
	}
	// Lines of older runs lack counts; no rollout has turns but no tokens and no time.
	known := func(v int) float64 {
		if e.ArchivedAt.IsZero() {
			return math.NaN()
		}
		return float64(v)
	}
	n := [columns]float64{
		colTotal: null(e.Rewards.Total), colProcess: null(e.Rewards.Process), colInfer: null(e.Rewards.Infer),
		colOutcome: null(e.Rewards.Outcome), colPenalty: null(e.Rewards.Penalty),
		colStructural: null(e.Grounding.Structural), colReplayed: null(e.Grounding.Replayed),
		colLexical: null(e.Grounding.Lexical), colSupported: null(e.Grounding.Supported),
		colCells: float64(e.Cells), colErrors: float64(e.Cells - e.CellsOK), colClaims: float64(e.Claims),
		colTurns: known(e.Turns), colTokens: known(e.Tokens), colSampled: known(e.Sampled), colNodes: known(e.Nodes),
		colRefuted: float64(e.Verdicts[trajectory.NotEntailed]), colSplit: float64(e.Split),
		colVersion: math.NaN(), colNewest: math.NaN(), colAt: math.NaN(),
		colQueueS: e.Timing.QueueS, colGenerateS: e.Timing.GenerateS, colToolS: e.Timing.ToolS, colScoreS: e.Timing.ScoreS,
	}
	if e.Versions != nil {
		n[colVersion], n[colNewest] = float64(e.Versions[0]), float64(e.Versions[1])
	}
	if !e.ArchivedAt.IsZero() {
		n[colAt] = float64(e.ArchivedAt.UnixMilli()) / 1000
	}
	return n
}

func (r *row) disagrees() bool { return r.num[colDisagree] > 0 }

// same keeps one copy of a text that many rows share.
func (x *index) same(s string) string {
	if old, ok := x.strings[s]; ok {
		return old
	}
	s = strings.Clone(s)
	x.strings[s] = s
	return s
}

func (x *index) sameFlags(flags []string) []string {
	if len(flags) == 0 {
		return nil
	}
	key := strings.Join(flags, "\x00")
	if old, ok := x.flags[key]; ok {
		return old
	}
	x.flags[key] = flags
	return flags
}
