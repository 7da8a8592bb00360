package openai

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/template"

	judgeprompts "github.com/verigraph/verigraph/configs/prompts/judge"
)

// prompt is one template file with the schema of its answer.
type prompt struct {
	template *template.Template
	hash     string
	name     string
	schema   json.RawMessage
}

// overlay reads a file from the first of its file systems that has it.
type overlay []fs.FS

func (o overlay) Open(name string) (fs.File, error) {
	for _, files := range o[:len(o)-1] {
		f, err := files.Open(name)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return o[len(o)-1].Open(name)
}

// templates are the shipped prompts, below those of a user's directory.
func templates(dir string) fs.FS {
	if dir == "" {
		return judgeprompts.FS
	}
	return overlay{os.DirFS(dir), judgeprompts.FS}
}

// loadPrompt parses NAME.txt. The hash covers the text and the schema: either changes verdicts.
func loadPrompt(files fs.FS, name string, schema json.RawMessage) (*prompt, error) {
	text, err := fs.ReadFile(files, name+".txt")
	if err != nil {
		return nil, fmt.Errorf("judge prompt: %w", err)
	}
	t, err := template.New(name).Option("missingkey=error").Funcs(template.FuncMap{"json": plainJSON}).Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("judge prompt %s: %w", name, err)
	}
	for _, part := range []string{"system", "user"} {
		if t.Lookup(part) == nil {
			return nil, fmt.Errorf("judge prompt %s: defines no template %q", name, part)
		}
	}
	sum := sha256.Sum256(append(text, schema...))
	p := &prompt{template: t, hash: hex.EncodeToString(sum[:]), name: name, schema: schema}
	return p, p.checkFence()
}

// checkFence refuses a template that puts the material anywhere but between two lines that hold the
// call's code: outside of them the policy's text would be instructions.
func (p *prompt) checkFence() error {
	const probe = "the material of this probe"
	system, user, err := p.render(map[string]string{"probe": probe})
	if err != nil {
		return err
	}
	lines := strings.Split(user, "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, probe) })
	if strings.Contains(system, probe) || at < 1 || at+1 >= len(lines) || strings.Count(user, probe) != 1 {
		return fmt.Errorf("judge prompt %s: the material must stand once, on a line of its own, in \"user\"", p.name)
	}
	code := fenceCode.FindString(lines[at-1])
	if code == "" || !strings.Contains(lines[at+1], code) || strings.Contains(lines[at], code) {
		return fmt.Errorf("judge prompt %s: the lines around the material must hold {{.Code}}", p.name)
	}
	return nil
}

var fenceCode = regexp.MustCompile(`[0-9a-f]{32}`)

// render fences the material with a code that is drawn anew for every call, so that no text written
// before it can hold the closing marker.
func (p *prompt) render(data any) (system, user string, err error) {
	var code [16]byte
	if _, err := rand.Read(code[:]); err != nil {
		return "", "", fmt.Errorf("judge prompt: %w", err)
	}
	in := struct {
		Code string
		Data any
	}{hex.EncodeToString(code[:]), data}
	var b bytes.Buffer
	if err := p.template.ExecuteTemplate(&b, "system", in); err != nil {
		return "", "", fmt.Errorf("judge prompt: %w", err)
	}
	system = b.String()
	b.Reset()
	if err := p.template.ExecuteTemplate(&b, "user", in); err != nil {
		return "", "", fmt.Errorf("judge prompt: %w", err)
	}
	return system, b.String(), nil
}

// lineBreaks are what some readers take for the end of a line and JSON leaves as it is.
var lineBreaks = strings.NewReplacer("\u0085", `\u0085`)

// plainJSON keeps the material on one line, so that no text in it can look like a marker line.
func plainJSON(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return lineBreaks.Replace(strings.TrimSuffix(b.String(), "\n")), nil
}
