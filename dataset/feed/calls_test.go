package feed_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/verigraph/verigraph/dataset/feed"
	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
	"github.com/verigraph/verigraph/task"
)

func TestAckIsIdempotentAndNeverMovesACursorBack(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	for i := range 3 {
		m.add(t, []byte{byte(i)})
	}
	client := start(t, m)
	for i, c := range []struct {
		cursor   string
		sequence int64
		want     int64
		wantStep int64 // the trainer step that the cursor holds: that of the ack which moved it
	}{
		{"", 2, 2, 0}, {"", 2, 2, 0}, {"trainer", 1, 2, 0}, {"other", 1, 1, 3}, {"", 3, 3, 4}, {"", 1, 3, 4},
	} {
		resp, err := client.Ack(t.Context(), &pb.AckRequest{Cursor: c.cursor, Sequence: c.sequence, TrainerStep: int64(i)})
		require.NoError(t, err)
		assert.Equal(t, c.want, resp.GetAcknowledged(), "ack %d", i)
		name := cmp.Or(c.cursor, feed.TrainerCursor)
		assert.Equal(t, c.wantStep, lastStep(m.cursors[name]), "ack %d", i)
		assert.Equal(t, c.want, m.cursors[name].Acknowledged, "ack %d", i)
	}
}

func TestAnAckThatCannotBeMeantIsRefused(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	m.add(t, []byte("abc"))
	client := start(t, m)
	for _, req := range []*pb.AckRequest{
		{Sequence: 2},
		{Sequence: 0},
		{Sequence: -1},
		{Sequence: 1, TrainerStep: -1},
		{Cursor: "no/slash", Sequence: 1},
		{Cursor: strings.Repeat("a", 65), Sequence: 1},
	} {
		_, err := client.Ack(t.Context(), req)
		assert.Equal(t, codes.InvalidArgument, status.Code(err), "%v", req)
	}
	assert.Empty(t, m.cursors)
}

func TestStatusCarriesTheWholeLedgerAndSurvivesInvalidUTF8(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	m.add(t, []byte("abc"))
	m.finish()
	client := start(t, m)
	_, err := client.Ack(t.Context(), &pb.AckRequest{Sequence: 1})
	require.NoError(t, err)
	got, err := client.GetStatus(t.Context(), &pb.GetStatusRequest{})
	require.NoError(t, err)
	assert.Equal(t, "run\uFFFD", got.GetRun())
	assert.Equal(t, []int64{9, 8, 1, 1}, []int64{
		got.GetPrompts(), got.GetBacklog(), got.GetBatchesWritten(), got.GetBatchesAcknowledged(),
	})
	assert.True(t, got.GetComplete())
	l := got.GetLedger()
	assert.Equal(t, []int64{28, 1, 2, 3, 4, 5, 6, 7}, []int64{
		l.GetDispatched(), l.GetDelivered(), l.GetFiltered(), l.GetStale(), l.GetUnscored(), l.GetFailed(),
		l.GetSetAside(), l.GetInFlight(),
	})
}

func TestSubmitKeepsTheReferenceApartFromThePrompt(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	client := start(t, m)
	digest := strings.Repeat("0f", 32)
	resp, err := client.SubmitPrompts(t.Context(), &pb.SubmitPromptsRequest{Final: true, Prompts: []*pb.Prompt{
		{
			Id: "p1", Question: "q", DataSource: "dabench", MetaJson: []byte(`{"a":1}`), Validate: true,
			Files:   []*pb.DataFile{{Name: "a.csv", Sha256: digest, Size: 3}},
			Answers: []*pb.NamedAnswer{{Name: "x", Value: "secret-1"}}, AnswerText: "secret-2",
			Sampling: &pb.Sampling{Temperature: new(float64), N: proto.Int32(1), MaxTokens: proto.Int32(7)},
		},
		{Id: "p2", Question: "q"},
	}})
	require.NoError(t, err)
	assert.Equal(t, int32(2), resp.GetAccepted())
	assert.True(t, m.final)
	require.Len(t, m.submitted, 2)
	got := m.submitted[0]
	assert.True(t, got.Validate)
	assert.Equal(t, task.Prompt{
		ID: "p1", Question: "q", DataSource: "dabench", Meta: json.RawMessage(`{"a":1}`),
		Files:    []task.File{{Name: "a.csv", SHA256: digest, Size: 3}},
		Sampling: &task.Sampling{Temperature: new(float64), N: pointer(1), MaxTokens: pointer(7)},
	}, got.Prompt)
	assert.Nil(t, m.submitted[1].Prompt.Sampling)
	assert.Equal(t, &task.Reference{
		PromptID: "p1", DataSource: "dabench", Meta: json.RawMessage(`{"a":1}`), Text: "secret-2",
		Answers: []task.NamedAnswer{{Name: "x", Value: "secret-1"}},
	}, got.Reference)
	assert.Nil(t, m.submitted[1].Reference, "no answer is no reference")
}

func pointer[T any](v T) *T { return &v }

func TestSubmitNamesEveryProblemAndTakesNothing(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	client := start(t, m)
	good := strings.Repeat("0f", 32)
	_, err := client.SubmitPrompts(t.Context(), &pb.SubmitPromptsRequest{Prompts: []*pb.Prompt{
		{Id: "ok", Question: "q"},
		{Question: "q"},
		{Id: "ok"},
		{Id: "m", Question: "q", MetaJson: []byte(`[1]`)},
		{Id: "n", Question: "q", MetaJson: []byte(`null`)},
		{Id: "f", Question: "q", Answers: []*pb.NamedAnswer{{Value: "v"}}, Files: []*pb.DataFile{
			{Name: "../etc", Sha256: good, Size: 1},
			{Name: "a/b.csv", Sha256: good, Size: 1},
			{Name: "a.csv", Sha256: strings.ToUpper(good), Size: 1},
			{Name: "a.csv", Sha256: good, Size: 1},
			{Name: "c.csv", Sha256: good},
			{Name: "", Sha256: good, Size: 1},
		}},
		{Id: "s", Question: "q", Sampling: &pb.Sampling{
			Temperature: proto.Float64(math.NaN()), TopP: proto.Float64(0), TopK: proto.Int32(-2), N: proto.Int32(1), MaxTokens: proto.Int32(0),
		}},
		{Id: "v", Question: "q", Validate: true, Sampling: &pb.Sampling{Temperature: proto.Float64(2.1), TopP: proto.Float64(1.1), N: proto.Int32(0)}},
	}})
	assert.Equal(t, codes.InvalidArgument, status.Code(err))
	for _, want := range []string{
		`prompt 1 (""): id: empty`, `prompt 2 ("ok"): question: empty`, `prompt 2 ("ok"): prompt 0 has the same id`,
		`prompt 3 ("m"): meta_json`, `prompt 4 ("n"): meta_json`, `files: "../etc" is no plain`,
		`files: "a/b.csv" is no plain`, `a.csv: sha256`, `"a.csv" is there twice`, `c.csv: size 0`, `files: "" is no plain`,
		`answers: a name is empty`,
		`prompt 6 ("s"): sampling.temperature: NaN, want 0 to 2`, "sampling.top_p: 0, want above 0, at most 1", "sampling.top_k: -2, want -1 or more",
		"sampling.n: 1, want 2 or more, or 1 for validation", "sampling.max_tokens: 0, want 1 or more",
		`prompt 7 ("v"): sampling.temperature: 2.1`, "sampling.top_p: 1.1", "sampling.n: 0",
	} {
		assert.ErrorContains(t, err, want)
	}
	assert.Empty(t, m.submitted)
}

func TestEveryReasonHasItsWireCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		code codes.Code
	}{
		{feed.ErrFull, codes.ResourceExhausted},
		{feed.ErrClosed, codes.FailedPrecondition},
		{feed.ErrInvalid, codes.InvalidArgument},
		{feed.ErrNoBatch, codes.NotFound},
		{feed.ErrStorage, codes.Unavailable},
		{fmt.Errorf("%w: no answer: %w", feed.ErrStorage, context.DeadlineExceeded), codes.Unavailable},
		{feed.ErrDamaged, codes.DataLoss},
		{errors.New("anything else"), codes.Internal},
		{status.Error(codes.Aborted, "made by a source"), codes.Aborted},
	} {
		t.Run(c.code.String(), func(t *testing.T) {
			t.Parallel()
			m := newMemory(t)
			m.submitErr = fmt.Errorf("prompt caf\xe9: %w", c.err)
			_, err := start(t, m).SubmitPrompts(t.Context(), &pb.SubmitPromptsRequest{})
			assert.Equal(t, c.code, status.Code(err), "%v", err)
			assert.ErrorContains(t, err, "caf\uFFFD")
		})
	}
}

func TestARunThatTakesNoPromptsSaysSo(t *testing.T) {
	t.Parallel()
	source := newMemory(t).source()
	source.Submit = nil
	client := pb.NewRolloutServiceClient(serve(t, source, feed.Defaults()).dial(t))
	_, err := client.SubmitPrompts(t.Context(), &pb.SubmitPromptsRequest{})
	assert.Equal(t, codes.FailedPrecondition, status.Code(err))
}

func lastStep(p feed.Position) int64 {
	if n := len(p.Marks); n > 0 {
		return p.Marks[n-1].Step
	}
	return p.Committed.Step
}
