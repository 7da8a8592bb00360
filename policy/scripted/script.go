package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/verigraph/verigraph/task"
)

// allSamples is the key of a line without a sample.
const allSamples = -1

// Script says what the policy writes. It is immutable after loading.
type Script struct {
	// prompts are keyed by task.Slug, which is what a dispatch id holds; then by sample.
	prompts map[string]map[int][]string
}

type scriptLine struct {
	PromptID *string  `json:"prompt_id"`
	Sample   *int     `json:"sample"`
	Turns    []string `json:"turns"`
}

// LoadScript reads a JSONL file of {"prompt_id":"0","sample":0,"turns":["text",…]}. Without sample
// a line is for all samples of its prompt that have no line of their own. All bad lines are
// reported, each as file:line.
func LoadScript(path string) (*Script, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	defer func() { _ = f.Close() }()
	return ReadScript(f, path)
}

// ReadScript is LoadScript on an open file; name stands in the errors.
func ReadScript(r io.Reader, name string) (*Script, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("script: %s: %w", name, err)
	}
	s := &Script{prompts: map[string]map[int][]string{}}
	var errs []error
	for i, line := range bytes.Split(data, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := s.add(line); err != nil {
			errs = append(errs, fmt.Errorf("script: %s:%d: %w", name, i+1, err))
		}
	}
	if len(errs) == 0 && len(s.prompts) == 0 {
		errs = append(errs, fmt.Errorf("script: %s: no line", name))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Script) add(line []byte) error {
	var l scriptLine
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one JSON value on the line")
	}
	if l.PromptID == nil || *l.PromptID == "" {
		return errors.New("prompt_id is missing or empty")
	}
	if len(l.Turns) == 0 {
		return errors.New("turns is missing or empty")
	}
	sample := allSamples
	if l.Sample != nil {
		if sample = *l.Sample; sample < 0 {
			return fmt.Errorf("sample is %d: must be 0 or more", sample)
		}
	}
	slug := task.Slug(*l.PromptID)
	if s.prompts[slug] == nil {
		s.prompts[slug] = map[int][]string{}
	}
	if _, dup := s.prompts[slug][sample]; dup {
		if l.Sample == nil {
			return fmt.Errorf("prompt_id %q without a sample was given before", *l.PromptID)
		}
		return fmt.Errorf("prompt_id %q with sample %d was given before", *l.PromptID, sample)
	}
	s.prompts[slug][sample] = l.Turns
	return nil
}

// Has reports whether the script holds turns for this sample of the prompt.
func (s *Script) Has(promptID string, sample int) bool {
	_, ok := s.turns(task.Slug(promptID), sample)
	return ok
}

func (s *Script) turns(slug string, sample int) ([]string, bool) {
	bySample := s.prompts[slug]
	if turns, ok := bySample[sample]; ok && sample >= 0 {
		return turns, true
	}
	turns, ok := bySample[allSamples]
	return turns, ok
}
