package main

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"
)

// Colours of series, in their order; far enough from each other on a dark ground.
var colours = []string{"#73bf69", "#f2cc0c", "#5794f2", "#ff780a", "#b877d9", "#f2495c", "#8ab8ff", "#ffa6b0", "#37872d", "#e0b400", "#1f60c4", "#c4162a"}

const (
	unitWidth, unitHeight, gap = 64, 30, 8 // of Grafana's grid of 24 columns, in pixels
	left, bottom               = 70, 18    // of a graph's axes
)

const style = `body{background:#111217;color:#ccccdc;font:12px "DejaVu Sans",sans-serif;margin:8px;position:relative}
.p{position:absolute;background:#181b1f;border:1px solid #2c3235;border-radius:2px;overflow:hidden}
h2{font-size:13px;font-weight:500;margin:6px 8px}.v{font-size:38px;color:#73bf69;text-align:center}
.l{margin:0 8px;line-height:16px;font-size:11px}.l i{display:inline-block;width:12px;height:3px;margin:0 4px 3px 0}.l span{margin-right:12px;white-space:nowrap}
text{fill:#8e8e9c;font-size:10px}`

// page draws the panels at their places.
func page(b board) string {
	var out strings.Builder
	fmt.Fprintf(&out, "<!doctype html><meta charset=utf-8><title>%s</title><style>%s</style>", html.EscapeString(b.Title), style)
	height := 0
	for _, p := range b.Panels {
		g := p.GridPos
		w, h := g.W*unitWidth-gap, g.H*unitHeight-gap
		height = max(height, (g.Y+g.H)*unitHeight)
		fmt.Fprintf(&out, `<div class=p style="left:%dpx;top:%dpx;width:%dpx;height:%dpx"><h2>%s</h2>`,
			g.X*unitWidth, g.Y*unitHeight, w, h, html.EscapeString(p.Title))
		if p.Type == "stat" {
			last := p.series[0].points
			fmt.Fprintf(&out, `<div class=v style="line-height:%dpx">%s</div>`, h-40, number(last[len(last)-1].v, p.FieldConfig.Defaults.Unit))
		} else {
			rows := 1 + len(p.series)/5
			out.WriteString(p.graph(w, h-30-16*rows-6))
			out.WriteString(p.legend())
		}
		out.WriteString("</div>")
	}
	fmt.Fprintf(&out, `<div style="height:%dpx;width:%dpx"></div>`, height, 24*unitWidth)
	return out.String()
}

func (p panel) legend() string {
	out := "<div class=l>"
	for i, s := range p.series {
		out += fmt.Sprintf(`<span><i style="background:%s"></i>%s %s</span>`, colours[i%len(colours)], html.EscapeString(s.name),
			number(s.points[len(s.points)-1].v, p.FieldConfig.Defaults.Unit))
	}
	return out + "</div>"
}

// bounds are the ranges of the axes.
func (p panel) bounds() (from, to time.Time, low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, s := range p.series {
		for _, x := range s.points {
			if from.IsZero() || x.at.Before(from) {
				from = x.at
			}
			if x.at.After(to) {
				to = x.at
			}
			low, high = min(low, x.v), max(high, x.v)
		}
	}
	if m := p.FieldConfig.Defaults.Min; m != nil {
		low = *m
	}
	if high <= low {
		high = low + 1
	}
	return from, to, low, high
}

func (p panel) graph(w, h int) string {
	from, to, low, high := p.bounds()
	width, height := float64(w-left-10), float64(h-bottom-6)
	x := func(at time.Time) float64 {
		return left + width*float64(at.Sub(from))/float64(max(to.Sub(from), 1))
	}
	y := func(v float64) float64 { return 6 + height*(1-(v-low)/(high-low)) }
	var out strings.Builder
	fmt.Fprintf(&out, `<svg width=%d height=%d>`, w, h)
	for i := range 4 {
		v := low + (high-low)*float64(i)/3
		fmt.Fprintf(&out, `<path d="M%d %.1fH%d" stroke="#2c3235"/><text x=%d y=%.1f text-anchor=end>%s</text>`,
			left, y(v), w-10, left-4, y(v)+3, number(v, p.FieldConfig.Defaults.Unit))
		at := from.Add(to.Sub(from) * time.Duration(i) / 3)
		fmt.Fprintf(&out, `<text x=%.1f y=%d text-anchor=middle>%s</text>`, min(x(at), float64(w-28)), h-4, at.UTC().Format(time.TimeOnly))
	}
	for i, s := range p.series {
		path := ""
		for j, pt := range s.points {
			verb := "L"
			if j == 0 || pt.at.Sub(s.points[j-1].at) > 3*interval { // a hole in the data is one in the line
				verb = "M"
			}
			path += fmt.Sprintf("%s%.1f %.1f", verb, x(pt.at), y(pt.v))
		}
		fmt.Fprintf(&out, `<path d="%s" fill=none stroke="%s" stroke-width=1.4 />`, path, colours[i%len(colours)])
	}
	return out.String() + "</svg>"
}
