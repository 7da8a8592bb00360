package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"text/template"

	prompts "github.com/verigraph/verigraph/configs/prompts"
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Limits of what an observation lists; the newest are kept.
const (
	maxListedVariables = 40
	maxListedClaims    = 40
)

// PromptFiles names template files that replace the shipped ones; empty keeps ours.
type PromptFiles struct {
	// System is the system message.
	System string `yaml:"system"`
	// User is the first user message, with the question and the files.
	User string `yaml:"user"`
	// Observation is what the model sees of a cell's result.
	Observation string `yaml:"observation"`
}

// Templates are the parsed prompt templates.
type Templates struct {
	system, user, observation *template.Template
	digest                    string
}

// Observation is the data of the observation template.
type Observation struct {
	Status           trajectory.CellStatus
	Note             string
	Output           string
	Traceback        string
	Environment      []sandbox.Variable
	OmittedVariables int
	Claims           []evidence.ClaimText
	OmittedClaims    int
}

// LoadTemplates reads the templates of VeriGraph's protocol.
func LoadTemplates(files PromptFiles) (*Templates, error) {
	return LoadAgentTemplates(AgentVeriGraph, files)
}

// LoadAgentTemplates reads an agent's templates.
func LoadAgentTemplates(agent Agent, files PromptFiles) (*Templates, error) {
	t := &Templates{}
	system, user := prompts.System, prompts.User
	switch agent {
	case AgentCodeAct:
		system = prompts.CodeAct
	case AgentDirect:
		system, user = prompts.Direct, prompts.DirectUser
	case AgentVeriGraph:
	}
	h := sha256.New()
	for _, e := range []struct {
		name, path, shipped string
		into                **template.Template
	}{
		{"system", files.System, system, &t.system},
		{"user", files.User, user, &t.user},
		{"observation", files.Observation, prompts.Observation, &t.observation},
	} {
		text := e.shipped
		if e.path != "" {
			data, err := os.ReadFile(e.path)
			if err != nil {
				return nil, fmt.Errorf("prompts.%s: %w", e.name, err)
			}
			text = string(data)
		}
		parsed, err := template.New(e.name).Option("missingkey=error").Parse(text)
		if err != nil {
			return nil, fmt.Errorf("prompts.%s: %w", e.name, err)
		}
		*e.into = parsed
		fmt.Fprintf(h, "%d:%s", len(text), text)
	}
	t.digest = hex.EncodeToString(h.Sum(nil))
	return t, nil
}

// SHA256 identifies the three templates together.
func (t *Templates) SHA256() string { return t.digest }

// Messages renders the system and user messages of a prompt.
func (t *Templates) Messages(p task.Prompt) (system, user string, err error) {
	return t.messages(p, nil)
}

// messages also shows what the files hold, to an agent that cannot open them.
func (t *Templates) messages(p task.Prompt, shown []Shown) (system, user string, err error) {
	if system, err = render(t.system, nil); err != nil {
		return "", "", err
	}
	names := make([]string, len(p.Files))
	for i, f := range p.Files {
		names[i] = f.Name
	}
	user, err = render(t.user, struct {
		Question string
		Files    []string
		Shown    []Shown
	}{p.Question, names, shown})
	return system, user, err
}

// Observe renders the observation of a cell.
func (t *Templates) Observe(res sandbox.Result, claims []evidence.ClaimText) (string, error) {
	o := Observation{
		Status: res.Status, Note: note(res), Output: strings.TrimRight(res.Output, "\n"),
		Traceback: strings.TrimRight(res.Traceback, "\n"), Environment: res.Environment, Claims: claims,
	}
	if n := len(o.Environment) - maxListedVariables; n > 0 {
		o.Environment, o.OmittedVariables = o.Environment[:maxListedVariables], n
	}
	if n := len(o.Claims) - maxListedClaims; n > 0 {
		o.Claims, o.OmittedClaims = o.Claims[n:], n
	}
	return render(t.observation, o)
}

// note tells the model what a status means for its session.
func note(res sandbox.Result) string {
	switch {
	case res.NamespaceLost && res.Status == trajectory.CellTimeout:
		return "the time limit was reached; all variables are lost"
	case res.NamespaceLost && res.Status == trajectory.CellMemory:
		return "the memory limit was reached; all variables are lost"
	case res.NamespaceLost:
		return "the interpreter ended; all variables are lost"
	case res.Completed < res.Statements && res.Completed > 0:
		return fmt.Sprintf("%d of %d statements completed", res.Completed, res.Statements)
	}
	return ""
}

func render(t *template.Template, data any) (string, error) {
	var b strings.Builder
	if err := t.Execute(&b, data); err != nil {
		return "", fmt.Errorf("prompts.%s: %w", t.Name(), err)
	}
	return strings.TrimRight(b.String(), "\n"), nil
}
