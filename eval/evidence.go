package eval

import (
	"fmt"
	"strings"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/trajectory"
)

// Limits of what a judge reads beside one claim; the newest is kept.
const (
	maxEvidenceLine = 4000
	maxEvidence     = 32000
)

// ClaimEvidence renders what a claim rests on: the cells, the bound values and the claims below it, premises
// first, and never the claim's own words. An atomic claim's words are its template filled with the values.
func ClaimEvidence(g *evidence.Export, claim string) []string {
	in := map[string]bool{claim: true}
	for again := true; again; { // edges may stand in any order
		again = false
		for _, e := range g.Edges {
			if e.Kind != evidence.EdgeControl && in[e.To] && !in[e.From] {
				in[e.From], again = true, true
			}
		}
	}
	from := map[string][]string{}
	for _, e := range g.Edges {
		if e.Kind != evidence.EdgeControl {
			from[e.To] = append(from[e.To], e.From)
		}
	}
	var lines []string
	cells := map[int]bool{}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if !in[n.ID] {
			continue
		}
		if n.Turn >= 0 && n.Kind != evidence.NodeDerived && !cells[n.Turn] {
			cells[n.Turn] = true
			for _, c := range g.Cells {
				if c.Turn == n.Turn {
					lines = append(lines, fmt.Sprintf("code of cell %d (%s):\n%s", c.Turn, c.Status, c.Code))
				}
			}
		}
		switch n.Kind {
		case evidence.NodeSource:
			lines = append(lines, "data file "+n.Name)
		case evidence.NodeAtomic:
			lines = append(lines, bound(n, from[n.ID], n.ID == claim))
		case evidence.NodeDerived:
			if n.ID != claim {
				lines = append(lines, fmt.Sprintf("claim %s, derived from %s: %s", n.ID, strings.Join(from[n.ID], ", "), n.Text))
			}
		case evidence.NodeVariable, evidence.NodeValue: // their statements stand in the cells
		}
	}
	return capped(lines)
}

// bound renders an atomic claim's values with where they come from.
func bound(n *evidence.Node, from []string, own bool) string {
	var values []string
	for _, v := range n.Values {
		values = append(values, fmt.Sprintf("%s = %s", v.Name, v.Repr))
	}
	text := fmt.Sprintf("computed values (%s), from %s", strings.Join(values, ", "), strings.Join(from, ", "))
	if own {
		return text
	}
	return fmt.Sprintf("claim %s: %s [%s]", n.ID, n.Text, text)
}

// ToolOutputs are what an agent's cells gave back.
func ToolOutputs(t *trajectory.Trajectory) []string {
	var out []string
	for i, turn := range t.Turns {
		if turn.HasCode {
			out = append(out, fmt.Sprintf("cell %d:\n%s\n%s", i, turn.Code, turn.Observation))
		}
	}
	return capped(out)
}

// capped cuts long lines in the middle and drops the oldest ones where all are too long together.
func capped(lines []string) []string {
	total, first := 0, 0
	for i := len(lines) - 1; i >= 0; i-- {
		if l := lines[i]; len(l) > maxEvidenceLine {
			half := maxEvidenceLine / 2
			lines[i] = strings.ToValidUTF8(l[:half], "") + "\n[…]\n" + strings.ToValidUTF8(l[len(l)-half:], "")
		}
		if total += len(lines[i]); total > maxEvidence {
			first = i + 1
			break
		}
	}
	return lines[first:]
}
