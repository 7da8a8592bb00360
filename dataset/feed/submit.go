package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"

	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
	"github.com/verigraph/verigraph/task"
)

var digestPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// SubmitPrompts implements RolloutService. All prompts of a request are taken, or none.
func (s *service) SubmitPrompts(ctx context.Context, req *pb.SubmitPromptsRequest) (*pb.SubmitPromptsResponse, error) {
	if s.source.Submit == nil {
		return nil, fmt.Errorf("submit: %w", ErrClosed)
	}
	submissions := make([]Submission, len(req.GetPrompts()))
	seen := map[string]int{}
	var problems []error
	for i, p := range req.GetPrompts() {
		for _, err := range promptProblems(p) {
			problems = append(problems, fmt.Errorf("prompt %d (%q): %w", i, p.GetId(), err))
		}
		if first, ok := seen[p.GetId()]; ok {
			problems = append(problems, fmt.Errorf("prompt %d (%q): prompt %d has the same id", i, p.GetId(), first))
		}
		seen[p.GetId()] = i
		submissions[i] = submission(p)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, errors.Join(problems...))
	}
	accepted, err := s.source.Submit(ctx, submissions, req.GetFinal())
	if err != nil {
		return nil, fmt.Errorf("submit: %w", err)
	}
	return &pb.SubmitPromptsResponse{Accepted: int32(accepted)}, nil
}

func promptProblems(p *pb.Prompt) []error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if p.GetId() == "" {
		add("id: empty")
	}
	if p.GetQuestion() == "" {
		add("question: empty")
	}
	if raw := p.GetMetaJson(); len(raw) > 0 {
		var meta map[string]json.RawMessage
		if json.Unmarshal(raw, &meta) != nil || meta == nil {
			add("meta_json: not a JSON object")
		}
	}
	names := map[string]bool{}
	for _, f := range p.GetFiles() {
		switch name := f.GetName(); {
		case name == "." || !filepath.IsLocal(name) || filepath.Base(name) != name:
			add("files: %q is no plain file name", name)
		case names[name]:
			add("files: %q is there twice", name)
		case !digestPattern.MatchString(f.GetSha256()):
			add("files: %s: sha256 %q is no lower-case hex digest", name, f.GetSha256())
		case f.GetSize() <= 0:
			add("files: %s: size %d", name, f.GetSize())
		}
		names[f.GetName()] = true
	}
	for _, a := range p.GetAnswers() {
		if a.GetName() == "" {
			add("answers: a name is empty")
		}
	}
	return errs
}

func submission(p *pb.Prompt) Submission {
	sub := Submission{
		Prompt: task.Prompt{
			ID: p.GetId(), Question: p.GetQuestion(), DataSource: p.GetDataSource(), Meta: p.GetMetaJson(),
		},
		Validate: p.GetValidate(), Priority: int(p.GetPriority()),
	}
	for _, f := range p.GetFiles() {
		sub.Prompt.Files = append(sub.Prompt.Files, task.File{Name: f.GetName(), SHA256: f.GetSha256(), Size: f.GetSize()})
	}
	if len(p.GetAnswers()) == 0 && p.GetAnswerText() == "" {
		return sub
	}
	sub.Reference = &task.Reference{
		PromptID: p.GetId(), DataSource: p.GetDataSource(), Text: p.GetAnswerText(), Meta: p.GetMetaJson(),
	}
	for _, a := range p.GetAnswers() {
		sub.Reference.Answers = append(sub.Reference.Answers, task.NamedAnswer{Name: a.GetName(), Value: a.GetValue()})
	}
	return sub
}
