package evidence

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Node names in both formats are n0, n1, ... and every label is escaped character by character, so
// that no text of a policy can end a label, add a node or start a comment.

// Mermaid renders the graph as a Mermaid flowchart.
func (e *Export) Mermaid() string {
	v := e.view()
	submitted := nameSet(e.Submitted)
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for i := range e.Nodes {
		n := &e.Nodes[i]
		shape := map[NodeKind][2]string{
			NodeSource: {"[(", ")]"}, NodeVariable: {"[", "]"}, NodeValue: {"(", ")"},
			NodeAtomic: {"([", "])"}, NodeDerived: {"{{", "}}"},
		}[n.Kind]
		if shape[0] == "" {
			shape = [2]string{"[", "]"}
		}
		fmt.Fprintf(&b, "  n%d%s\"%s\"%s\n", i, shape[0], mermaidText(n.label()), shape[1])
		if submitted[n.ID] {
			fmt.Fprintf(&b, "  style n%d stroke-width:3px\n", i)
		}
	}
	for to := range v.in {
		for _, in := range v.in[to] {
			arrow := "-->"
			if in.kind == EdgeControl {
				arrow = "-.->"
			}
			label := string(in.kind)
			if in.role != "" {
				label += " " + in.role
			}
			fmt.Fprintf(&b, "  n%d %s|\"%s\"| n%d\n", in.node, arrow, mermaidText(label), to)
		}
	}
	return b.String()
}

// DOT renders the graph for Graphviz.
func (e *Export) DOT() string {
	v := e.view()
	submitted := nameSet(e.Submitted)
	var b strings.Builder
	b.WriteString("digraph evidence {\n  rankdir=TB;\n")
	for i := range e.Nodes {
		n := &e.Nodes[i]
		shape := map[NodeKind]string{
			NodeSource: "cylinder", NodeVariable: "box", NodeValue: "ellipse",
			NodeAtomic: "note", NodeDerived: "hexagon",
		}[n.Kind]
		if shape == "" {
			shape = "box"
		}
		width := 1
		if submitted[n.ID] {
			width = 3
		}
		fmt.Fprintf(&b, "  n%d [shape=%s, penwidth=%d, label=\"%s\"];\n", i, shape, width, dotText(n.label()))
	}
	for to := range v.in {
		for _, in := range v.in[to] {
			style := "solid"
			if in.kind == EdgeControl {
				style = "dashed"
			}
			label := string(in.kind)
			if in.role != "" {
				label += " " + in.role
			}
			fmt.Fprintf(&b, "  n%d -> n%d [style=%s, label=\"%s\"];\n", in.node, to, style, dotText(label))
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// label is what a person reads on a node.
func (n *Node) label() string {
	parts := []string{n.ID}
	switch n.Kind {
	case NodeValue:
		parts = append(parts, n.Name+" = "+n.Repr, n.Expression)
	case NodeAtomic, NodeDerived:
		parts = append(parts, n.Text)
	}
	if n.Untracked != "" {
		parts = append(parts, "untracked: "+n.Untracked)
	}
	if n.Tainted {
		parts = append(parts, "tainted")
	}
	return short(strings.Join(parts, ": "))
}

// mermaidText keeps letters, digits and harmless punctuation and writes the rest as #code;
// (Mermaid's entity form).
func mermaidText(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == utf8.RuneError:
			b.WriteString("?")
		case unicode.IsLetter(r), unicode.IsDigit(r), strings.ContainsRune(" .,_@=+", r):
			b.WriteRune(r)
		case unicode.IsSpace(r), unicode.IsControl(r):
			b.WriteRune(' ')
		case unicode.IsPrint(r):
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}

// dotText escapes for a double-quoted DOT string, whose backslash sequences and HTML entities
// Graphviz would expand.
func dotText(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '"':
			b.WriteString(`\"`)
		case r == '\\':
			b.WriteString(`\\`)
		case r == '&':
			b.WriteString("&amp;")
		case unicode.IsSpace(r), unicode.IsControl(r):
			b.WriteRune(' ')
		case unicode.IsPrint(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}
