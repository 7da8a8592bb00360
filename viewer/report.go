package viewer

import (
	"errors"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/verigraph/verigraph/rollout/compose"
	"github.com/verigraph/verigraph/trajectory"
)

// Sentence is a piece of a report and the claims that it rests on.
type Sentence struct {
	Text   string   `json:"text"`
	Claims []string `json:"claims"`
}

// Paragraph is a heading, a list item or a paragraph.
type Paragraph struct {
	Kind      string     `json:"kind"` // heading, item, text
	Sentences []Sentence `json:"sentences"`
}

// ReportView is a report for reading.
type ReportView struct {
	Composed bool   `json:"composed"`
	Problem  string `json:"problem"`
	Model    string `json:"model"`
	// Stored: a record of verigraph report was found; else this is the list of the claims.
	Stored     bool        `json:"stored"`
	Paragraphs []Paragraph `json:"paragraphs"`
}

var errNothingSubmitted = errors.New("nothing was submitted")

func (r *Run) report(s *trajectory.Scored) (ReportView, error) {
	t := &s.Trajectory
	if len(t.Graph.Submitted) == 0 {
		return ReportView{}, errNothingSubmitted
	}
	record := compose.Record{Report: compose.List(&t.Graph)}
	_, err := r.readJSON(path.Join("reports", t.ID.Dispatch, strconv.Itoa(t.ID.Sample)+".json"), &record)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ReportView{}, err
	}
	return ReportView{
		Composed: record.Composed, Problem: record.Problem, Model: record.Model, Stored: err == nil, Paragraphs: readReport(record.Report),
	}, nil
}

var (
	reportHeading  = regexp.MustCompile(`^#{1,4} +`)
	reportItem     = regexp.MustCompile(`^ {0,6}(?:[-*+]|[0-9]{1,3}[.)]) +`)
	reportCitation = regexp.MustCompile(`\s*\[(c[0-9]+)\]`)
	// A sentence ends at a full stop, question or exclamation mark, with the citations that follow it, before
	// a blank; "3.14" and "@x[1.5]" hold no end.
	reportEnd = regexp.MustCompile(`[.!?](?:\s*\[c[0-9]+\])*(?:\s+|$)`)
	entities  = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&", "**", "", "__", "")
)

func readReport(text string) []Paragraph {
	var out []Paragraph
	for _, p := range compose.Paragraphs(text) {
		switch {
		case reportHeading.MatchString(p):
			out = append(out, Paragraph{"heading", []Sentence{{Text: plainReport(reportHeading.ReplaceAllString(p, ""))}}})
		case reportItem.MatchString(p):
			out = append(out, Paragraph{"item", sentences(reportItem.ReplaceAllString(p, ""))})
		default:
			out = append(out, Paragraph{"text", sentences(p)})
		}
	}
	return out
}

// sentences splits a paragraph. One that cites nothing rests on the citations of the next sentence that
// does, else on all of the paragraph: the check of a report is by paragraph.
func sentences(p string) []Sentence {
	var out []Sentence
	for p != "" {
		end := len(p)
		if m := reportEnd.FindStringIndex(p); m != nil {
			end = m[1]
		}
		out = append(out, Sentence{plainReport(p[:end]), citations(p[:end])})
		p = p[end:]
	}
	var all []string
	for i := range out {
		all = append(all, out[i].Claims...)
	}
	next := all
	for i := len(out) - 1; i >= 0; i-- {
		if len(out[i].Claims) > 0 {
			next = out[i].Claims
		} else {
			out[i].Claims = next
		}
	}
	return out
}

func citations(s string) []string {
	var out []string
	for _, m := range reportCitation.FindAllStringSubmatch(s, -1) {
		out = append(out, m[1])
	}
	return out
}

func plainReport(s string) string {
	return entities.Replace(strings.TrimSpace(reportCitation.ReplaceAllString(s, "")))
}
