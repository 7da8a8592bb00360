package eval

import (
	"fmt"
	"html/template"
	"strings"
)

// bar is one row of a plot, in percent.
type bar struct {
	label, note string
	value       *Interval
	// second is a thin mark beside the bar, e.g. the fixed rule's score.
	second *Interval
}

// Sizes of plots in SVG units.
const (
	plotLabels = 210
	plotWidth  = 760
	plotNotes  = 130
	plotRow    = 26
	plotTop    = 8
)

// scale turns percent into a place on the axis.
func scale(v float64) float64 { return plotLabels + v/100*(plotWidth-plotLabels-plotNotes) }

// bars draws horizontal bars with whiskers on an axis of 0 to 100 %. Everything in it is escaped here.
func bars(title string, rows []bar) template.HTML {
	var b strings.Builder
	height := plotTop + plotRow*len(rows) + 24
	esc := template.HTMLEscapeString
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, plotWidth, height, esc(title))
	bottom := plotTop + plotRow*len(rows)
	for v := 0; v <= 100; v += 20 {
		x := scale(float64(v))
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/><text class="tick" x="%.1f" y="%d">%d</text>`, x, plotTop, x, bottom, x, bottom+16, v)
	}
	for i, r := range rows {
		y := float64(plotTop + plotRow*i)
		mid := y + plotRow/2
		fmt.Fprintf(&b, `<text class="label" x="%d" y="%.1f">%s</text>`, plotLabels-10, mid+4, esc(shorten(r.label, 28)))
		note := r.note
		if r.value != nil {
			fmt.Fprintf(&b, `<rect class="bar" x="%d" y="%.1f" width="%.1f" height="14" rx="2"><title>%s: %s</title></rect>`,
				plotLabels, mid-7, max(scale(r.value.Value)-plotLabels, 0.5), esc(r.label), r.value)
			if r.value.Low < r.value.High {
				fmt.Fprintf(&b, `<path class="whisker" d="M%.1f %.1fH%.1fM%.1f %.1fv8M%.1f %.1fv8"/>`,
					scale(r.value.Low), mid, scale(r.value.High), scale(r.value.Low), mid-4, scale(r.value.High), mid-4)
			}
			note = r.value.value() + note
		}
		if r.second != nil {
			fmt.Fprintf(&b, `<line class="second" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"><title>fixed rule: %s</title></line>`,
				scale(r.second.Value), mid-10, scale(r.second.Value), mid+10, r.second)
		}
		fmt.Fprintf(&b, `<text class="note" x="%d" y="%.1f">%s</text>`, plotWidth-plotNotes+10, mid+4, esc(note))
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint: the parts are escaped above
}

func shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// part is a piece of a whole.
type part struct {
	Class, Name string
	Count       int
}

// stack draws what became of all rollouts as one divided bar.
func stack(title string, parts []part) template.HTML {
	total := 0
	for _, p := range parts {
		total += p.Count
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d 22" role="img" aria-label="%s" preserveAspectRatio="none">`, plotWidth, template.HTMLEscapeString(title))
	at := 0.0
	for _, p := range parts {
		w := float64(p.Count) / float64(max(total, 1)) * plotWidth
		if p.Count > 0 {
			fmt.Fprintf(&b, `<rect class="%s" x="%.1f" y="0" width="%.1f" height="22"><title>%s: %d</title></rect>`, p.Class, at, max(w-1, 0.5), p.Name, p.Count)
		}
		at += w
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}
