package check

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/build"
	"github.com/verigraph/verigraph/sft/output"
)

func eachLine[T any](path string, do func(int, *T)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 1<<20)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if len(line) > 0 {
				return fmt.Errorf("line %d has no end", n)
			}
			return nil
		}
		if err != nil {
			return err
		}
		row := new(T)
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(row); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		do(n, row)
	}
}

func eachRow[T any](rows iter.Seq2[T, error], do func(int, *T)) error {
	n := 0
	for row, err := range rows {
		if err != nil {
			return err
		}
		n++
		do(n, &row)
	}
	return nil
}

func at(f build.File, n int) string { return fmt.Sprintf("%s:%d", f.Path, n) }

func (c *checker) swift(f build.File, n int, row *output.SwiftRow) {
	c.Rows++
	where := at(f, n)
	c.Kinds[row.Kind]++
	if row.Stage != f.Stage {
		c.add(where, "stage %d in a file of stage %d", row.Stage, f.Stage)
	}
	for i, m := range row.Messages {
		if (m.Role == sft.Assistant) != (m.Loss != nil) {
			c.add(where, "messages[%d]: loss on every assistant message and on no other, not on %s", i, m.Role)
		}
	}
	c.conversation(where, row.Kind, row.Messages)
	c.keep(f, where, row.ID, row.Messages)
}

func (c *checker) chat(f build.File, n int, row *output.ChatRow) {
	c.Rows++
	messages := make([]sft.Message, len(row.Messages))
	for i, m := range row.Messages {
		messages[i] = sft.Message{Role: m.Role, Content: m.Content}
		if m.Role == sft.Assistant {
			loss := m.Weight == nil || *m.Weight != 0
			messages[i].Loss = &loss
		} else if m.Weight != nil {
			c.add(at(f, n), "messages[%d]: weight on %s", i, m.Role)
		}
	}
	c.conversation(at(f, n), "", messages)
	c.keep(f, at(f, n), row.ID, messages)
}

// conversation: roles alternate, something is trained, no control text, and nothing behind the last trained turn
// but in samples that were finished elsewhere.
func (c *checker) conversation(where string, kind sft.Kind, messages []sft.Message) {
	trained := 0
	for i, m := range messages {
		before := ""
		if i > 0 {
			before = messages[i-1].Role
		}
		switch {
		case m.Role == sft.System && i == 0, m.Role == sft.User && before != sft.User, m.Role == sft.Assistant && before == sft.User:
		default:
			c.add(where, "messages[%d]: %s after %q", i, m.Role, before)
		}
		if m.Trained() {
			trained++
		}
		if _, n := c.escaper.Message(m, m.Role == sft.User && before == sft.Assistant); n > 0 {
			c.add(where, "messages[%d]: control text that a trainer would take for a token", i)
		}
	}
	if trained == 0 {
		c.add(where, "no trained turn")
	}
	if kind != "" && kind != sft.Imported && len(messages) > 0 && !messages[len(messages)-1].Trained() {
		c.add(where, "the last message is not trained")
	}
}

func (c *checker) keep(f build.File, where, id string, messages []sft.Message) {
	h := sha256.New()
	var flags strings.Builder
	last := 0
	for i, m := range messages {
		if m.Trained() {
			last = i
		}
	}
	for i, m := range messages {
		if i > last {
			break // what a finished sample has behind its last trained turn is in some formats only
		}
		_, _ = io.WriteString(h, m.Role+"\x00"+m.Content+"\x00")
		if m.Role == sft.Assistant {
			flags.WriteByte(flagOf(m.Trained()))
		}
	}
	s := seen{flags: flags.String(), split: f.Split, turns: strings.Count(flags.String(), "T")}
	copy(s.text[:], h.Sum(nil))
	c.put(f.Format, where, id, s)
}

func flagOf(trained bool) byte {
	if trained {
		return 'T'
	}
	return 'c'
}

func (c *checker) put(format, where, id string, s seen) {
	if _, twice := c.samples[format][id]; twice {
		c.add(where, "sample %s stands there twice", id)
	}
	c.samples[format][id] = s
}

// verl puts the rows of a sample together again: one for each trained turn where some are context.
func (c *checker) verl(f build.File, n int, row *output.VerlRow) {
	c.Rows++
	where := at(f, n)
	id, several := row.ID, false
	if i := strings.LastIndexByte(id, '@'); i > strings.LastIndexByte(id, '#') {
		id, several = id[:i], true
	}
	messages := make([]sft.Message, len(row.Messages))
	for i, m := range row.Messages {
		loss := m.Role == sft.Assistant
		messages[i] = sft.Message{Role: m.Role, Content: m.Content}
		switch m.Role {
		case output.RoleContext:
			messages[i].Role = sft.Assistant
		case output.RoleObservation:
			messages[i].Role = sft.User
			if i == 0 || messages[i-1].Role != sft.Assistant {
				c.add(where, "messages[%d]: an observation without a turn before it", i)
			}
		}
		if messages[i].Role == sft.Assistant {
			messages[i].Loss = &loss
		}
	}
	c.conversation(where, sft.Kind(row.Kind), messages)
	if len(messages) == 0 || !messages[len(messages)-1].Trained() {
		c.add(where, "the last message is not trained")
		return
	}
	if !several {
		c.keep(f, where, id, messages)
		return
	}
	flags := ""
	for i, m := range messages {
		if m.Role == sft.Assistant {
			if m.Trained() && i < len(messages)-1 {
				c.add(where, "messages[%d]: trained beside the last one", i)
			}
			flags += string(flagOf(m.Trained()))
		}
	}
	before := c.samples[f.Format][id]
	// The turns of earlier rows are context here: the flags of a sample are those of all its rows.
	merged := []byte(flags)
	copy(merged, before.flags)
	merged[len(merged)-1] = 'T'
	var whole checker
	whole.samples = map[string]map[string]seen{f.Format: {}}
	whole.keep(f, where, id, messages)
	s := whole.samples[f.Format][id]
	s.flags, s.turns = string(merged), strings.Count(string(merged), "T")
	c.samples[f.Format][id] = s
}

func (c *checker) tokenized(f build.File, n int, row *output.TokenizedRow) {
	c.Rows++
	where := at(f, n)
	if len(row.InputIDs) != len(row.LossMask) {
		c.add(where, "%d ids and %d mask values", len(row.InputIDs), len(row.LossMask))
		return
	}
	trained := 0
	for i, m := range row.LossMask {
		if m != 0 && m != 1 {
			c.add(where, "loss_mask[%d]: %d", i, m)
		}
		trained += int(m)
	}
	switch limit := c.m.Config.Target.MaxTokens; {
	case trained == 0:
		c.add(where, "an empty mask")
	case row.LossMask[len(row.LossMask)-1] != 1:
		c.add(where, "does not end with a trained id")
	case row.LossMask[0] == 1:
		c.add(where, "begins with a trained id")
	case limit > 0 && len(row.InputIDs) > limit:
		c.add(where, "%d ids, the limit is %d", len(row.InputIDs), limit)
	}
	c.put(f.Format, where, row.ID, seen{split: f.Split, turns: runs(row.LossMask)})
}

// runs counts the stretches of trained ids: one for each trained turn, since a header stands before each.
func runs(mask []int8) int {
	n := 0
	for i, m := range mask {
		if m == 1 && (i == 0 || mask[i-1] == 0) {
			n++
		}
	}
	return n
}
