package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
)

// board is what a dashboard's file says, as far as it is drawn.
type board struct {
	Title  string  `json:"title"`
	Panels []panel `json:"panels"`
}

type panel struct {
	Type        string `json:"type"`
	Title       string `json:"title"`
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct {
		Defaults struct {
			Unit string   `json:"unit"`
			Min  *float64 `json:"min"`
		} `json:"defaults"`
	}
	Targets []struct {
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	}
	series []series
}

type series struct {
	name   string
	points []point
}

type point struct {
	at time.Time
	v  float64
}

func read(file string) (board, error) {
	var b board
	data, err := os.ReadFile(file)
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal(data, &b); err != nil {
		return b, fmt.Errorf("%s: %w", file, err)
	}
	return b, nil
}

// ask fills in what the panel's queries answer over [start, end].
func (p *panel) ask(ctx context.Context, engine *promql.Engine, db storage.Queryable, start, end time.Time) error {
	for _, t := range p.Targets {
		expr := strings.ReplaceAll(t.Expr, "$__rate_interval", window)
		q, err := engine.NewRangeQuery(ctx, db, nil, expr, start, end, interval)
		if err != nil {
			return err
		}
		matrix, err := q.Exec(ctx).Matrix()
		if err != nil {
			return err
		}
		for _, found := range matrix {
			s := series{name: legend(t.LegendFormat, found.Metric)}
			for _, f := range found.Floats {
				if !math.IsNaN(f.F) && !math.IsInf(f.F, 0) {
					s.points = append(s.points, point{time.UnixMilli(f.T), f.F})
				}
			}
			if len(s.points) > 0 {
				p.series = append(p.series, s)
			}
		}
		q.Close()
	}
	return nil
}

var label = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// legend is a series' name as Grafana writes it.
func legend(format string, l labels.Labels) string {
	return label.ReplaceAllStringFunc(format, func(m string) string { return l.Get(label.FindStringSubmatch(m)[1]) })
}

// number is a value with its unit, as Grafana's units short, s, ops and percentunit write it.
func number(v float64, unit string) string {
	switch unit {
	case "percentunit":
		return trim(v*100) + " %"
	case "ops":
		return trim(v) + " ops/s"
	case "s":
		switch {
		case v != 0 && math.Abs(v) < 1e-3:
			return trim(v*1e6) + " µs"
		case v != 0 && math.Abs(v) < 1:
			return trim(v*1e3) + " ms"
		}
		return trim(v) + " s"
	}
	if math.Abs(v) >= 1000 {
		return trim(v/1000) + " K"
	}
	return trim(v)
}

func trim(v float64) string {
	text := fmt.Sprintf("%.2f", v)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
