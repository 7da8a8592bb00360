package card

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/build"
)

func sectionsOf(m *build.Manifest) []section {
	return []section{
		overview(m), sources(m), rejections(m), kinds(m), training(m),
		histogram("Turns", "assistant turns of a taken record", m.Shape.Turns, func(k int) string { return strconv.Itoa(k) }),
		histogram("Lengths", "characters of a taken record, up to", m.Shape.Characters, power),
		histogram("Tokens", "tokens of a sample, up to", m.Shape.Tokens, power),
		primitives(m), duplicates(m), contamination(m), findings(m), files(m),
	}
}

func power(k int) string { return strconv.Itoa(1 << k) }

func percent(n, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

func overview(m *build.Manifest) section {
	samples, validation := 0, 0
	for _, k := range m.Kinds {
		samples += k.Samples
		validation += k.Validation
	}
	s := section{Title: "Overview", Text: []string{
		fmt.Sprintf("%d of %d records were taken (%s) and gave %d samples, %d of them for validation.",
			m.Taken, m.Read, percent(m.Taken, m.Read), samples, validation),
		"The split goes by prompt and by data file: records that share one of them are on one side.",
		fmt.Sprintf("Seed %d, build %.12s.", m.Config.Seed, m.Build),
	}}
	s.Head = []string{"input", "records", "SHA-256"}
	for _, in := range m.Inputs {
		s.Rows = append(s.Rows, []string{in.Name, strconv.Itoa(in.Records), in.SHA256[:16]})
	}
	return s
}

func sources(m *build.Manifest) section {
	s := section{Title: "Sources and acceptance", Head: []string{"data source", "licence", "read", "taken", "acceptance", "prompts", "with a taken record"}}
	p := &plot{Title: "records read and taken by data source"}
	for _, name := range slices.Sorted(maps.Keys(m.Sources)) {
		c := m.Sources[name]
		var licences []string
		for _, l := range slices.Sorted(maps.Keys(c.Licences)) {
			if l == "" {
				l = "not stated"
			}
			licences = append(licences, l)
		}
		s.Rows = append(s.Rows, []string{
			name, strings.Join(licences, ", "), strconv.Itoa(c.Read), strconv.Itoa(c.Taken), percent(c.Taken, c.Read),
			strconv.Itoa(c.Prompts), strconv.Itoa(c.TakenPrompts),
		})
		p.Bars = append(p.Bars, bar{name + ", read", c.Read}, bar{"taken", c.Taken})
	}
	s.Plot = p
	return s
}

func rejections(m *build.Manifest) section {
	s := section{
		Title: "Rejections", Text: []string{"Each rejected record counts once, by the first reason that holds, in this order."},
		Head: []string{"reason", "records", "of all"},
	}
	p := &plot{Title: "rejected records by first reason"}
	for _, r := range sft.Reasons {
		if n := m.Rejected[r]; n > 0 {
			s.Rows = append(s.Rows, []string{string(r), strconv.Itoa(n), percent(n, m.Read)})
			p.Bars = append(p.Bars, bar{string(r), n})
		}
	}
	if len(p.Bars) > 0 {
		s.Plot = p
	}
	return s
}

func kinds(m *build.Manifest) section {
	s := section{Title: "Samples", Head: []string{"kind", "samples", "candidates", "validation", "trained turns", "context turns", "cut to fit", "too long", "characters", "tokens", "trained tokens"}}
	p := &plot{Title: "samples by kind"}
	for _, kind := range sft.Kinds {
		k := m.Kinds[kind]
		if k == nil {
			continue
		}
		row := []string{string(kind)}
		for _, n := range []int{k.Samples, k.Candidates, k.Validation, k.TrainedTurns, k.ContextTurns, k.Cut, k.TooLong, k.Characters, k.Tokens, k.TrainedTokens} {
			row = append(row, strconv.Itoa(n))
		}
		s.Rows = append(s.Rows, row)
		p.Bars = append(p.Bars, bar{string(kind), k.Samples})
	}
	s.Plot = p
	return s
}

// training says what a person has to know who trains on it.
func training(m *build.Manifest) section {
	t := m.Config.Target
	end := "The end-of-turn token is trained: the target run stops at it."
	if t.Stop == rollout.StopAtCodeTag {
		end = "The target run stops at the closing code tag; the end-of-turn token behind a turn is trained all the same."
		if !t.TrainEndOfTurn {
			end = "The target run stops at the closing code tag, and the end-of-turn token behind a turn is not trained. ms-swift trains it in any case."
		}
	}
	written := 0
	for kind, k := range m.Kinds {
		if kind == sft.Trajectory || kind == sft.SingleTurn {
			written += k.ThinkBlocks
		}
	}
	text := []string{
		end,
		fmt.Sprintf("Failed cells: %s. Observations, questions and system prompts are never trained.", m.Config.FailedCells),
		fmt.Sprintf("Blocks of reasoning: %d in the stored turns of taken records, %d in the whole trajectories written of them. "+
			"None is taken out of a turn; a trainer whose template drops them from earlier turns must be told not to.", m.Text.ThinkBlocks, written),
		fmt.Sprintf("Control text was broken with a zero-width space %d times in the message files. %d turns begin with a line end, which trainers of text may merge with the header.",
			m.Text.Escaped, m.Text.LeadingNewline),
		fmt.Sprintf("%d records had a compressed context and give one sample for each trained turn.", m.Text.Compressed),
	}
	if m.Tokenizer == "" {
		text = append(text, "No tokenizer was configured: nothing is counted in tokens.")
	} else {
		text = append(text, fmt.Sprintf("Tokens are those of tokenizer %.12s, rendered as %s; of %d records the stored ids are of another tokenizer or template, and their text was encoded.",
			m.Tokenizer, t.Rendering, m.Text.OtherTokenizer))
	}
	return section{Title: "What is trained", Text: text}
}

func histogram(title, what string, counts map[int]int, label func(int) string) section {
	s := section{Title: title, Head: []string{what, "count"}}
	if len(counts) == 0 {
		s.Text = []string{"Not counted."}
		return s
	}
	p := &plot{Title: what}
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		s.Rows = append(s.Rows, []string{label(k), strconv.Itoa(counts[k])})
		p.Bars = append(p.Bars, bar{label(k), counts[k]})
	}
	s.Plot = p
	return s
}

func primitives(m *build.Manifest) section {
	sh := m.Shape
	s := section{Title: "Primitives", Text: []string{"Accepted calls in taken records, and cells of theirs that failed."}, Head: []string{"what", "count"}}
	p := &plot{Title: "accepted calls in taken records"}
	for _, b := range []bar{{"bind", sh.Bind}, {"infer", sh.Infer}, {"submit_answer", sh.Submit}, {"failed cells", sh.Failed}} {
		s.Rows = append(s.Rows, []string{b.Label, strconv.Itoa(b.Value)})
		p.Bars = append(p.Bars, b)
	}
	s.Plot = p
	return s
}

func duplicates(m *build.Manifest) section {
	near := m.Rejected[sft.NearDuplicate]
	before := m.Taken + near + m.Rejected[sft.PerPrompt]
	s := section{Title: "Near-duplicates", Text: []string{"Near-duplicates were not looked for."}}
	if t := m.Config.NearDuplicates.Threshold; t > 0 {
		s.Text[0] = fmt.Sprintf("Assistant texts with an estimated similarity of %.2f or more (MinHash over shingles of %d words, LSH with 16 bands of 8): "+
			"%d of %d records left out, %s kept.", t, m.Config.NearDuplicates.Shingle, near, before, percent(before-near, before))
		s.Plot = &plot{Title: "records that all other predicates take", Bars: []bar{{"kept", before - near}, {"near-duplicates", near}}}
	}
	return s
}

func contamination(m *build.Manifest) section {
	s := section{Title: "Decontamination", Head: []string{"benchmark and what matched", "records left out"}}
	if len(m.Config.Decontaminate) == 0 {
		s.Text = []string{"No benchmark was configured: nothing was looked for."}
		return s
	}
	s.Plot = &plot{Title: "records left out by benchmark and what matched"}
	for _, b := range m.Config.Decontaminate {
		for _, match := range b.Match {
			key := b.Name + "/" + match
			s.Rows = append(s.Rows, []string{key, strconv.Itoa(m.Contaminated[key])})
			s.Plot.Bars = append(s.Plot.Bars, bar{key, m.Contaminated[key]})
		}
	}
	return s
}

func findings(m *build.Manifest) section {
	s := section{Title: "Secrets and personal data", Head: []string{"rule", "records"}, Text: []string{
		fmt.Sprintf("Records with a secret: %s. With personal data: %s.", m.Config.Scan.Secrets, m.Config.Scan.Personal),
	}}
	for _, rule := range slices.Sorted(maps.Keys(m.Findings)) {
		s.Rows = append(s.Rows, []string{rule, strconv.Itoa(m.Findings[rule])})
	}
	return s
}

func files(m *build.Manifest) section {
	s := section{Title: "Files", Text: []string{"Every file with its SHA-256 stands in manifest.json."}, Head: []string{"files", "count", "rows", "bytes"}}
	type key struct{ format, stage, split string }
	sums := map[key][3]int64{}
	var order []key
	for _, f := range m.Files {
		k := key{f.Format, "stage" + strconv.Itoa(f.Stage), f.Split}
		if _, ok := sums[k]; !ok {
			order = append(order, k)
		}
		sum := sums[k]
		sums[k] = [3]int64{sum[0] + 1, sum[1] + int64(f.Rows), sum[2] + f.Bytes}
	}
	for _, k := range order {
		n := sums[k]
		s.Rows = append(s.Rows, []string{k.format + "/" + k.stage + "-" + k.split, fmt.Sprint(n[0]), fmt.Sprint(n[1]), fmt.Sprint(n[2])})
	}
	return s
}
