package source

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
	"strconv"

	"github.com/verigraph/verigraph/sft"
)

// rawRecord is one record as bytes; At names it in messages: a line, or a position in the array.
type rawRecord struct {
	n    int
	at   string
	data []byte
}

// openFinished reads the public layout: objects with messages of role, content and, on assistant messages,
// loss. Rows of our own ms-swift files have this layout too.
func openFinished(s *Source, each func(io.Reader, func(rawRecord) bool) error) (_ *Source, err error) {
	if s.Fingerprint, err = fingerprint(s.Path, []string{s.Path}); err != nil {
		return nil, err
	}
	s.each = func() iter.Seq2[Ref, error] {
		return func(yield func(Ref, error) bool) {
			f, err := os.Open(s.Path)
			if err != nil {
				yield(Ref{}, fmt.Errorf("--in: %w", err))
				return
			}
			defer f.Close()
			stopped := false
			err = each(f, func(raw rawRecord) bool {
				load := func() (sft.Record, error) { return finishedRecord(s, raw) }
				stopped = !yield(Ref{ID: s.Name + ":" + strconv.Itoa(raw.n), Load: load}, nil)
				return !stopped
			})
			if err != nil && !stopped {
				yield(Ref{}, fmt.Errorf("--in: %s: %w", s.Path, err))
			}
		}
	}
	return s, nil
}

func eachOfArray(r io.Reader, do func(rawRecord) bool) error {
	dec := json.NewDecoder(bufio.NewReaderSize(r, 1<<20))
	if t, err := dec.Token(); err != nil {
		return err
	} else if t != json.Delim('[') {
		return errors.New("is not an array of records")
	}
	for n := 0; dec.More(); n++ {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return fmt.Errorf("record %d: %w", n, err)
		}
		if !do(rawRecord{n, "record " + strconv.Itoa(n), raw}) {
			return nil
		}
	}
	_, err := dec.Token()
	return err
}

func eachLine(r io.Reader, do func(rawRecord) bool) error {
	in := bufio.NewReaderSize(r, 1<<20)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		if text := bytes.TrimSpace(line); len(text) > 0 && !do(rawRecord{n, "line " + strconv.Itoa(n), text}) {
			return nil
		}
		if err == io.EOF {
			return nil
		}
	}
}

// finishedRow has the keys of the public layout and of our own rows; another key is an error, since what
// it says would be lost.
type finishedRow struct {
	Messages   []finishedMessage `json:"messages"`
	ID         string            `json:"id"`
	PromptID   string            `json:"prompt_id"`
	DataSource string            `json:"data_source"`
	Source     string            `json:"source"`
	Licence    string            `json:"licence"`
	License    string            `json:"license"`
	Stage      int               `json:"stage"`
	Kind       string            `json:"kind"`
}

type finishedMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	Loss    *bool  `json:"loss"`
}

func finishedRecord(s *Source, raw rawRecord) (sft.Record, error) {
	r := sft.Record{ID: s.Name + ":" + strconv.Itoa(raw.n), Where: s.Path, Digest: sha256.Sum256(raw.data)}
	fail := func(err error) (sft.Record, error) { return r, fmt.Errorf("--in: %s: %s: %w", s.Path, raw.at, err) }
	var row finishedRow
	dec := json.NewDecoder(bytes.NewReader(raw.data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&row); err != nil {
		return fail(err)
	}
	if len(row.Messages) == 0 {
		return fail(errors.New("messages: empty"))
	}
	for i, m := range row.Messages {
		switch {
		case m.Role != sft.System && m.Role != sft.User && m.Role != sft.Assistant:
			return fail(fmt.Errorf("messages[%d].role: %q is none of system, user, assistant", i, m.Role))
		case m.Loss != nil && m.Role != sft.Assistant:
			return fail(fmt.Errorf("messages[%d].loss: on a %s message", i, m.Role))
		case i > 0 && (m.Role == sft.System || m.Role == row.Messages[i-1].Role):
			return fail(fmt.Errorf("messages[%d].role: %s after %s", i, m.Role, row.Messages[i-1].Role))
		case i == 0 && m.Role == sft.Assistant:
			return fail(errors.New("messages[0].role: assistant"))
		}
		r.Finished = append(r.Finished, sft.Message(m))
	}
	r.PromptID, r.DataSource, r.Licence = row.PromptID, row.DataSource, row.Licence
	if r.DataSource == "" {
		r.DataSource = row.Source
	}
	if r.Licence == "" {
		r.Licence = row.License
	}
	if r.DataSource == "" {
		r.DataSource = s.Name
	}
	if r.PromptID == "" {
		r.PromptID = fmt.Sprintf("q%x", sha256.Sum256([]byte(r.Question())))[:17]
	}
	return r, nil
}
