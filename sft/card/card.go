// Package card writes the data card of a corpus: Markdown, and one HTML page with plots that needs nothing
// from elsewhere.
//
// Invariant: everything on it comes from the manifest, so that the same build gives the same card.
package card

import (
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"

	"github.com/verigraph/verigraph/sft/build"
)

// Names of the files.
const (
	MarkdownName = "DATACARD.md"
	HTMLName     = "datacard.html"
)

// Write writes both forms below dir.
func Write(dir string, m *build.Manifest) error {
	sections := sectionsOf(m)
	page, err := htmlOf(sections)
	if err != nil {
		return fmt.Errorf("card: %w", err)
	}
	for name, text := range map[string]string{MarkdownName: markdownOf(sections), HTMLName: page} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("card: %w", err)
		}
	}
	return nil
}

// section is a heading with sentences, a table and a plot; any of them may be missing.
type section struct {
	Title string
	Text  []string
	Head  []string
	Rows  [][]string
	Plot  *plot
}

func markdownOf(sections []section) string {
	var b strings.Builder
	b.WriteString("# Data card of an SFT corpus\n")
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n", s.Title)
		for _, t := range s.Text {
			fmt.Fprintf(&b, "\n%s\n", cell(t))
		}
		if len(s.Rows) == 0 {
			continue
		}
		b.WriteString("\n| " + strings.Join(s.Head, " | ") + " |\n|" + strings.Repeat(" --- |", len(s.Head)) + "\n")
		for _, r := range s.Rows {
			cells := make([]string, len(r))
			for i, c := range r {
				cells[i] = cell(c)
			}
			b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		}
	}
	return b.String()
}

// cell keeps names from inputs from becoming markup.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "[", `\[`).Replace(s)
}

var page = template.Must(template.New("card").Funcs(template.FuncMap{"svg": func(p *plot) template.HTML { return p.svg() }}).Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Data card of an SFT corpus</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
table{border-collapse:collapse;margin:.6rem 0}th,td{padding:.2rem .7rem;border-bottom:1px solid #ddd;text-align:left}
td:not(:first-child){font-variant-numeric:tabular-nums}h2{margin-top:2rem;font-size:1.15rem}svg{max-width:100%}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}th,td{border-color:#444}svg text{fill:#ddd}}
</style>
<h1>Data card of an SFT corpus</h1>
{{range .}}<h2>{{.Title}}</h2>
{{range .Text}}<p>{{.}}</p>
{{end}}{{with .Plot}}{{svg .}}
{{end}}{{if .Rows}}<table><tr>{{range .Head}}<th>{{.}}</th>{{end}}</tr>
{{range .Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</table>
{{end}}{{end}}</html>
`))

func htmlOf(sections []section) (string, error) {
	var b strings.Builder
	if err := page.Execute(&b, sections); err != nil {
		return "", err
	}
	return b.String(), nil
}
