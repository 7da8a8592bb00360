package openai

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"text/template"
)

// prompt is one template file with the schema of its answer.
type prompt struct {
	template *template.Template
	hash     string
	name     string
	schema   json.RawMessage
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
	return &prompt{template: t, hash: hex.EncodeToString(sum[:]), name: name, schema: schema}, nil
}

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

// plainJSON keeps the material on one line, so that no text in it can look like a marker line.
func plainJSON(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}
