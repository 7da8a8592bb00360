package card

import (
	"fmt"
	"html"
	"html/template"
	"strings"
)

// bar is one bar of a plot.
type bar struct {
	Label string
	Value int
}

// plot is horizontal bars, drawn to the largest.
type plot struct {
	Title string
	Bars  []bar
}

// svg draws the bars; labels are escaped here.
func (p *plot) svg() template.HTML {
	const width, row, left, right = 680, 22, 190, 90
	most := 1
	for _, b := range p.Bars {
		most = max(most, b.Value)
	}
	var s strings.Builder
	height := row*len(p.Bars) + 30
	fmt.Fprintf(&s, `<svg role="img" aria-label="%s" width="%d" height="%d" viewBox="0 0 %d %d" font-size="13" font-family="system-ui,sans-serif">`,
		html.EscapeString(p.Title), width, height, width, height)
	fmt.Fprintf(&s, `<text x="0" y="15" font-weight="600">%s</text>`, html.EscapeString(p.Title))
	for i, b := range p.Bars {
		y := 24 + i*row
		w := float64(width-left-right) * float64(b.Value) / float64(most)
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s</text>`, left-8, y+14, html.EscapeString(b.Label))
		fmt.Fprintf(&s, `<rect x="%d" y="%d" width="%.1f" height="%d" rx="2" fill="#3b7dd8"/>`, left, y+2, w, row-6)
		fmt.Fprintf(&s, `<text x="%.1f" y="%d">%d</text>`, float64(left)+w+6, y+14, b.Value)
	}
	s.WriteString("</svg>")
	return template.HTML(s.String())
}
