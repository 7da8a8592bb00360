package eval

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Setup is what an evaluation was made with; it stands at the head of every report.
type Setup struct {
	Name     string  `json:"name"`
	Agent    string  `json:"agent"`
	Model    string  `json:"model"`
	API      string  `json:"api"`
	Samples  int     `json:"samples"`
	Seed     int64   `json:"seed"`
	Sampling string  `json:"sampling"`
	Judge    string  `json:"judge"`
	PriceIn  float64 `json:"price_in,omitempty"`
	PriceOut float64 `json:"price_out,omitempty"`
}

// Run is what generating one benchmark took.
type Run struct {
	Benchmark string `json:"benchmark"`
	// Items and Input say what was asked: their number, and the digest of prompts and references.
	Items int    `json:"items"`
	Input string `json:"input"`
	// Note says what the items were without, e.g. a context file.
	Note          string  `json:"note,omitempty"`
	Tier          string  `json:"sandbox_tier"`
	Replay        string  `json:"replay"`
	Complete      bool    `json:"complete"`
	WallSeconds   float64 `json:"wall_seconds"`
	PeakMemoryMiB float64 `json:"peak_memory_mib"`
	// Runs counts the starts: more than one for a resumed evaluation, whose seconds are added up.
	Runs int `json:"runs"`
}

// Report is all that is said of one evaluation.
type Report struct {
	Setup      Setup             `json:"setup"`
	Seed       uint64            `json:"bootstrap_seed"`
	Overall    *Overall          `json:"overall"`
	Benchmarks []BenchmarkReport `json:"benchmarks"`
}

// Overall is the papers' figure: the mean of DABench, DSBench, TableBench and 20 x mean(Content, Format).
type Overall struct {
	Score Interval `json:"score"`
	// Of are the benchmarks in it, Without those that are missing: then it is partial, and no figure of the papers.
	Of      []string `json:"of"`
	Without []string `json:"without,omitempty"`
}

// Name is what tables call it.
func (o Overall) Name() string {
	if len(o.Without) > 0 {
		return "Overall (partial, without " + strings.Join(o.Without, ", ") + ")"
	}
	return "Overall"
}

// BenchmarkReport is one benchmark's section.
type BenchmarkReport struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Metric string `json:"metric"`
	Run    Run    `json:"run"`
	Figures
	Types []TypeTable `json:"types,omitempty"`
	// Terminations counts rollouts by why they ended, Reasons what has no score by why.
	Terminations map[string]int `json:"terminations"`
	Reasons      map[string]int `json:"reasons,omitempty"`
	Cost         Cost           `json:"cost"`
}

// TypeTable breaks the figures down by one key of the items.
type TypeTable struct {
	Key  string    `json:"key"`
	Rows []TypeRow `json:"rows"`
}

// TypeRow is one value of the key.
type TypeRow struct {
	Value string `json:"value"`
	Figures
}

// Cost is per rollout; Money is null without prices.
type Cost struct {
	PromptTokens  float64  `json:"prompt_tokens"`
	SampledTokens float64  `json:"sampled_tokens"`
	Turns         float64  `json:"turns"`
	Estimated     bool     `json:"estimated,omitempty"`
	Money         *float64 `json:"money,omitempty"`
	PolicyS       float64  `json:"policy_s"`
	SandboxS      float64  `json:"sandbox_s"`
	QueueS        float64  `json:"queue_s"`
}

// inOverall are the papers' four.
var inOverall = []string{DABench, DSBench, TableBench, Research}

// Build makes the report of all records; runs name the benchmarks that were asked.
func Build(setup Setup, runs []Run, records []Record, seed uint64) Report {
	r := Report{Setup: setup, Seed: seed}
	for _, b := range Benchmarks {
		i := slices.IndexFunc(runs, func(run Run) bool { return run.Benchmark == b.Name })
		if i < 0 {
			continue
		}
		of := slices.DeleteFunc(slices.Clone(records), func(x Record) bool { return x.Benchmark != b.Name })
		r.Benchmarks = append(r.Benchmarks, section(b, runs[i], of, setup, seed))
	}
	r.Overall = overall(records, seed)
	return r
}

func section(b Benchmark, run Run, records []Record, setup Setup, seed uint64) BenchmarkReport {
	s := BenchmarkReport{
		Name: b.Name, Title: b.Title, Metric: b.Metric, Run: run, Figures: measure(records, seed, b.Name),
		Terminations: map[string]int{}, Reasons: map[string]int{},
	}
	s.Extra = extra(b, records)
	for _, r := range records {
		if r.Termination != "" {
			s.Terminations[string(r.Termination)]++
		}
		if r.State == Unscored || r.State == Lost || r.State == Missing {
			s.Reasons[string(r.State)+": "+firstLine(r.Reason)]++
		}
	}
	for _, key := range b.Types {
		if t := typeTable(b, key, records, seed); len(t.Rows) > 0 {
			s.Types = append(s.Types, t)
		}
	}
	s.Cost = cost(records, setup)
	return s
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}

func typeTable(b Benchmark, key string, records []Record, seed uint64) TypeTable {
	of := map[string][]Record{}
	for _, r := range records {
		for _, v := range r.Types[key] {
			of[v] = append(of[v], r)
		}
	}
	t := TypeTable{Key: key}
	for _, v := range slices.Sorted(maps.Keys(of)) {
		t.Rows = append(t.Rows, TypeRow{v, measure(of[v], seed, b.Name+"/"+key+"/"+v)})
	}
	slices.SortStableFunc(t.Rows, func(a, b TypeRow) int { return cmp.Compare(b.Items, a.Items) })
	return t
}

// cost averages over the rollouts that are stored.
func cost(records []Record, setup Setup) Cost {
	var c Cost
	n := 0.0
	for _, r := range records {
		if r.State == Missing {
			continue
		}
		n++
		c.PromptTokens += float64(r.PromptTokens)
		c.SampledTokens += float64(r.SampledTokens)
		c.Turns += float64(r.Turns)
		c.PolicyS, c.SandboxS, c.QueueS = c.PolicyS+r.PolicyS, c.SandboxS+r.SandboxS, c.QueueS+r.QueueS
		c.Estimated = c.Estimated || r.Estimated
	}
	if n == 0 {
		return c
	}
	for _, v := range []*float64{&c.PromptTokens, &c.SampledTokens, &c.Turns, &c.PolicyS, &c.SandboxS, &c.QueueS} {
		*v /= n
	}
	if setup.PriceIn > 0 || setup.PriceOut > 0 {
		m := (c.PromptTokens*setup.PriceIn + c.SampledTokens*setup.PriceOut) / 1e6
		c.Money = &m
	}
	return c
}

// overall draws the items of each benchmark anew for every replicate and averages the benchmarks' means.
func overall(records []Record, seed uint64) *Overall {
	o := Overall{}
	var value float64
	var replicated [][]float64
	for _, name := range inOverall {
		b, _ := Find(name)
		of := slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return r.Benchmark != name })
		values := means(byItem(of), valueOf)
		if len(values) == 0 {
			o.Without = append(o.Without, b.Title)
			continue
		}
		o.Of = append(o.Of, b.Title)
		value += mean(values)
		replicated = append(replicated, bootstrapMeans(values, newRand(seed, name+"/overall")))
	}
	if len(o.Of) == 0 {
		return nil
	}
	means := make([]float64, replicates)
	for _, m := range replicated {
		for i, v := range m {
			means[i] += v / float64(len(o.Of))
		}
	}
	o.Score = *percent(around(value/float64(len(o.Of)), means))
	return &o
}
