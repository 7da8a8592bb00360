package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"os"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/parquet"
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// openParquet reads batches file by file; one file is held at a time. The rows of a rollout stand together.
func openParquet(s *Source, files []string) (_ *Source, err error) {
	if s.Fingerprint, err = fingerprint(s.Path, files); err != nil {
		return nil, err
	}
	s.each = func() iter.Seq2[Ref, error] {
		return func(yield func(Ref, error) bool) {
			for _, f := range files {
				if !eachRollout(f, yield) {
					return
				}
			}
		}
	}
	return s, nil
}

func eachRollout(path string, yield func(Ref, error) bool) bool {
	data, err := os.ReadFile(path)
	if err != nil {
		return yield(Ref{}, fmt.Errorf("--in: %w", err))
	}
	meta, rows, err := parquet.Read(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return yield(Ref{}, fmt.Errorf("--in: %s: %w", path, err))
	}
	for start := 0; start < len(rows); {
		end := start + 1
		for end < len(rows) && rows[end].RolloutID == rows[start].RolloutID {
			end++
		}
		own := rows[start:end]
		load := func() (sft.Record, error) { return ofRows(path, meta, own) }
		if !yield(Ref{ID: own[0].RolloutID, Load: load}, nil) {
			return false
		}
		start = end
	}
	return true
}

// ofRows puts a rollout together from its segments. A batch keeps no verdicts and no reports.
func ofRows(path string, meta dataset.Meta, rows []dataset.Row) (sft.Record, error) {
	first := &rows[0]
	r := sft.Record{ID: first.RolloutID, PromptID: first.PromptID, DataSource: first.DataSource, Where: path}
	fail := func(column string, err error) (sft.Record, error) {
		return r, fmt.Errorf("--in: %s: rollout %s: %s: %w", path, r.ID, column, err)
	}
	s := &trajectory.Scored{Score: scoreOf(first)}
	t := &s.Trajectory
	t.ID = task.RolloutID{Run: meta.Run, Dispatch: first.UID, Sample: int(first.SessionID)}
	t.PromptID, t.DataSource, t.Termination = r.PromptID, r.DataSource, trajectory.Termination(first.TerminationReason)
	if err := json.Unmarshal([]byte(first.MessagesJSON), &t.Messages); err != nil {
		return fail("messages_json", err)
	}
	if err := json.Unmarshal([]byte(first.GraphJSON), &t.Graph); err != nil {
		return fail("graph_json", err)
	}
	t.Answer, t.Turns = t.Graph.Answer(), turnsOf(t.Messages, &t.Graph)
	for i := range t.Graph.Taints {
		t.Flags = append(t.Flags, "tainted:"+t.Graph.Taints[i].Construct)
	}
	h := sha256.New()
	for i := range rows {
		t.Segments = append(t.Segments, segmentOf(&rows[i]))
		_ = binary.Write(h, binary.LittleEndian, rows[i].PromptIDs)
		_ = binary.Write(h, binary.LittleEndian, rows[i].ResponseIDs)
	}
	fmt.Fprintf(h, "%s\n%s\n%s\n%g", first.RolloutID, first.MessagesJSON, first.GraphJSON, first.Reward)
	h.Sum(r.Digest[:0])
	r.Scored = s
	return r, nil
}

func scoreOf(r *dataset.Row) trajectory.Score {
	return trajectory.Score{
		Status: trajectory.ScoreStatus(r.RewardStatus), Process: float64(r.RProcess), Infer: float64(r.RInfer),
		Outcome: float64(r.ROutcome), Penalty: float64(r.RPenalty), Total: float64(r.Score), Clipped: float64(r.SeqReward),
		Overlong: float64(r.OverlongReward), Reward: float64(r.Reward), Accuracy: float64(r.Acc),
	}
}

// turnsOf restores of each turn what selection and stages need: its text and what became of its cell.
func turnsOf(messages []trajectory.Message, g *evidence.Export) []trajectory.Turn {
	var turns []trajectory.Turn
	for _, m := range messages {
		if m.Role == sft.Assistant {
			turns = append(turns, trajectory.Turn{Text: m.Content})
		}
	}
	for _, c := range g.Cells {
		if c.Turn < len(turns) {
			t := &turns[c.Turn]
			t.Code, t.HasCode, t.Status = c.Code, true, trajectory.CellStatus(c.Status)
		}
	}
	return turns
}

func segmentOf(r *dataset.Row) trajectory.Segment {
	s := trajectory.Segment{
		PromptIDs: r.PromptIDs, ResponseIDs: r.ResponseIDs, ResponseMask: r.ResponseMask, LogProbs: r.RolloutLogProbs,
	}
	for _, sp := range r.Spans {
		s.Spans = append(s.Spans, trajectory.Span{
			Start: int(sp.Start), End: int(sp.End), Kind: trajectory.SpanKind(sp.Kind), Turn: int(sp.Turn),
			PolicyVersion: sp.PolicyVersion, PolicyVersionEnd: sp.PolicyVersionEnd,
		})
	}
	return s
}
