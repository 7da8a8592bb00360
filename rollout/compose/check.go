package compose

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/verigraph/verigraph/evidence"
)

var (
	citation = regexp.MustCompile(`\[(c[0-9]+)\]`)
	heading  = regexp.MustCompile(`^#{1,4} +\S`)
	item     = regexp.MustCompile(`^ {0,6}(?:[-*+]|[0-9]{1,3}[.)]) +`)
	// markup is what a report may not hold: it could show what no check has read.
	markup = regexp.MustCompile("(?i)<[a-z!/|]|&[a-z#]|`|\\]\\(|\\]\\[?:|!\\[|https?:|\\|")
)

// Limits of a report: several times what its claims could need.
const (
	maxReportBytes = 48 << 10
	maxHeading     = 120
)

// Check returns why a report may not be used, "" if it may. claims are the submitted ones.
func Check(report string, claims []evidence.Node, question string) string {
	switch {
	case strings.TrimSpace(report) == "":
		return "the report is empty"
	case len(report) > maxReportBytes:
		return fmt.Sprintf("the report is longer than %d bytes", maxReportBytes)
	}
	if bad := evidence.UnfitText(report); bad != "" {
		return "the report holds " + bad
	}
	c := &checker{question: question, texts: map[string]string{}, cited: map[string]bool{}}
	for _, n := range claims {
		c.texts[n.ID] = n.Text
		c.all = append(c.all, n.Text)
	}
	for _, p := range Paragraphs(report) {
		if why := c.paragraph(p); why != "" {
			return why
		}
	}
	for _, n := range claims {
		if !c.cited[n.ID] {
			return fmt.Sprintf("claim %s is not cited", n.ID)
		}
	}
	return ""
}

type checker struct {
	question string
	texts    map[string]string
	all      []string
	cited    map[string]bool
}

func (c *checker) paragraph(p string) string {
	if m := markup.FindString(citation.ReplaceAllString(p, "")); m != "" {
		return fmt.Sprintf("%q holds markup (%s)", start(p), m)
	}
	if heading.MatchString(p) {
		return c.heading(p)
	}
	var held []string
	for _, m := range citation.FindAllStringSubmatch(p, -1) {
		text, ok := c.texts[m[1]]
		if !ok {
			return fmt.Sprintf("%q cites %s, which was not submitted", start(p), m[1])
		}
		c.cited[m[1]] = true
		held = append(held, text)
	}
	if len(held) == 0 {
		return fmt.Sprintf("%q cites no claim", start(p))
	}
	if news := evidence.NewNumbers(plain(p), held, c.question); len(news) > 0 {
		return fmt.Sprintf("%q states %s, which no claim that it cites holds", start(p), strings.Join(news, ", "))
	}
	return ""
}

func (c *checker) heading(p string) string {
	if len(p) > maxHeading || citation.MatchString(p) {
		return fmt.Sprintf("the heading %q is too long or cites a claim", start(p))
	}
	if news := evidence.NewNumbers(plain(strings.TrimLeft(p, "# ")), c.all, c.question); len(news) > 0 {
		return fmt.Sprintf("the heading %q states %s, which no claim holds", start(p), strings.Join(news, ", "))
	}
	return ""
}

// plain is a paragraph without list marker, citations and emphasis, whose numbers are not stated.
func plain(p string) string {
	p = citation.ReplaceAllString(p, "")
	p = item.ReplaceAllString(p, "")
	return strings.NewReplacer("*", "", "__", "").Replace(p)
}

// Paragraphs splits a report into headings, list items and paragraphs, each on one line.
func Paragraphs(report string) []string {
	var out []string
	open := false
	for _, line := range strings.Split(report, "\n") {
		switch {
		case strings.TrimSpace(line) == "":
			open = false
		case heading.MatchString(line), item.MatchString(line):
			out = append(out, line)
			open = !heading.MatchString(line)
		case open:
			out[len(out)-1] += " " + strings.TrimSpace(line)
		default:
			out = append(out, strings.TrimSpace(line))
			open = true
		}
	}
	return out
}

func start(p string) string {
	if runes := []rune(p); len(runes) > 60 {
		return string(runes[:60]) + "…"
	}
	return p
}
