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

// maxTemperature is that of the OpenAI API; servers refuse more.
const maxTemperature = 2

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
	return append(errs, samplingProblems(p)...)
}

func samplingProblems(p *pb.Prompt) []error {
	s := p.GetSampling()
	if s == nil {
		return nil
	}
	var errs []error
	check := func(bad bool, name string, value any, want string) {
		if bad {
			errs = append(errs, fmt.Errorf("sampling.%s: %v, want %s", name, value, want))
		}
	}
	// Written so that NaN is bad.
	check(s.Temperature != nil && !(s.GetTemperature() >= 0 && s.GetTemperature() <= maxTemperature), "temperature", s.GetTemperature(), "0 to 2")
	check(s.TopP != nil && !(s.GetTopP() > 0 && s.GetTopP() <= 1), "top_p", s.GetTopP(), "above 0, at most 1")
	check(s.TopK != nil && s.GetTopK() < -1, "top_k", s.GetTopK(), "-1 or more")
	check(s.N != nil && (s.GetN() < 1 || s.GetN() == 1 && !p.GetValidate()), "n", s.GetN(), "2 or more, or 1 for validation")
	check(s.MaxTokens != nil && s.GetMaxTokens() < 1, "max_tokens", s.GetMaxTokens(), "1 or more")
	return errs
}

func samplingOf(s *pb.Sampling) *task.Sampling {
	if s == nil {
		return nil
	}
	return &task.Sampling{
		Temperature: s.Temperature, TopP: s.TopP, TopK: whole(s.TopK), N: whole(s.N), MaxTokens: whole(s.MaxTokens),
	}
}

func whole(v *int32) *int {
	if v == nil {
		return nil
	}
	n := int(*v)
	return &n
}

func submission(p *pb.Prompt) Submission {
	sub := Submission{
		Prompt: task.Prompt{
			ID: p.GetId(), Question: p.GetQuestion(), DataSource: p.GetDataSource(), Meta: p.GetMetaJson(),
			Sampling: samplingOf(p.GetSampling()),
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
