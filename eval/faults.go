package eval

import (
	"math/big"
	"regexp"
	"strings"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/reward/outcome"
	"github.com/verigraph/verigraph/task"
)

// FaultCount is how many items of a benchmark a fault of its official rule touches.
type FaultCount struct {
	Benchmark, Fault string
	Count, Items     int
}

// fault states an answer that is plainly wrong, or plainly right, for one reference; "" where the fault
// cannot touch it. It counts where the official rule decides the other way than the fixed one.
type fault struct {
	benchmark, name string
	// right: the stated answer is right, and the official rule does not pay for it.
	right bool
	state func(want string, question string) string
}

var (
	plainDecimal = regexp.MustCompile(`^-?\d+\.\d+$`)
	plainNumber  = regexp.MustCompile(`^-?\d+(\.\d+)?$`)
	namedForm    = regexp.MustCompile(`@(\w+)\[`)
)

var faults = []fault{
	{TableBench, "the decimal point left out is right (10.6 and 106)", false, func(want, _ string) string {
		if plainDecimal.MatchString(want) {
			return strings.Replace(want, ".", "", 1)
		}
		return ""
	}},
	{TableBench, "the other sign is right", false, otherSign},
	{TableBench, "one more digit makes a right number wrong (0.5 and 0.52 as 5 and 52)", true, nil},
	{DABench, "thousands separators make a right number wrong", true, grouped},
	{DABench, "a trailing percent sign makes a right number wrong", true, func(want, _ string) string {
		if plainNumber.MatchString(want) {
			return want + "%"
		}
		return ""
	}},
	{DABench, "another case makes a right word wrong", true, func(want, _ string) string {
		if up := strings.ToUpper(want); up != want && !plainNumber.MatchString(want) {
			return up
		}
		return ""
	}},
	{DABStep, "the other sign is right", false, otherSign},
	{DABStep, "a second guess after the right number is right", false, func(want, _ string) string {
		if plainNumber.MatchString(want) {
			return want + " or " + want + "9"
		}
		return ""
	}},
	{DABStep, "a right word inside any sentence is right", false, func(want, _ string) string {
		if regexp.MustCompile(`^\w+$`).MatchString(want) && !plainNumber.MatchString(want) {
			return "certainly not " + want
		}
		return ""
	}},
}

func otherSign(want, _ string) string {
	if !plainNumber.MatchString(want) || strings.Trim(want, "-0.") == "" {
		return ""
	}
	if rest, ok := strings.CutPrefix(want, "-"); ok {
		return rest
	}
	return "-" + want
}

// grouped writes a number of four digits or more with separators.
func grouped(want, _ string) string {
	whole, rest, _ := strings.Cut(strings.TrimPrefix(want, "-"), ".")
	if !plainNumber.MatchString(want) || len(whole) < 4 {
		return ""
	}
	var b strings.Builder
	for i, c := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	text := b.String()
	if rest != "" {
		text += "." + rest
	}
	if strings.HasPrefix(want, "-") {
		text = "-" + text
	}
	return text
}

// CountFaults tries every fault on every reference answer, and adds the faults of labels.
func CountFaults(all map[string]dataset.Imported) []FaultCount {
	var out []FaultCount
	for _, f := range faults {
		in, ok := all[f.benchmark]
		if !ok {
			continue
		}
		c := FaultCount{Benchmark: f.benchmark, Fault: f.name, Items: len(in.References)}
		for _, ref := range in.References {
			if f.touches(ref) {
				c.Count++
			}
		}
		out = append(out, c)
	}
	if in, ok := all[DABench]; ok {
		out = append(out, labelFaults(in)...)
	}
	return out
}

// touches: for some name of the reference the official rule errs.
func (f fault) touches(ref task.Reference) bool {
	rule, want, ok, err := outcome.Select(ref)
	if err != nil || !ok {
		return false
	}
	for _, w := range want {
		if f.state == nil {
			if tolerance(rule, w.Value) {
				return true
			}
			continue
		}
		stated := f.state(w.Value, "")
		if stated != "" && (rule.Official(stated, w.Value) == 1) != f.right {
			return true
		}
	}
	return false
}

// tolerance: a difference within 10 % that the official rule, having deleted the point, takes for more.
func tolerance(rule outcome.Rule, want string) bool {
	v, ok := new(big.Rat).SetString(want)
	if !strings.HasSuffix(rule.Name, "EM_with_error_10") || !ok || !plainDecimal.MatchString(want) || v.Sign() == 0 {
		return false
	}
	stated := want + "1" // one digit more: never as much as 10 % off
	return rule.Fixed(stated, want) == 1 && rule.Official(stated, want) != 1
}

// labelFaults are DABench's: what its questions ask for and its labels do not hold.
func labelFaults(in dataset.Imported) []FaultCount {
	unlabelled, cut, repeated, empty := 0, 0, 0, 0
	asked := map[string]string{}
	for _, p := range in.Prompts {
		asked[p.ID] = p.Question
	}
	for _, ref := range in.References {
		names, twice, broken, blank := map[string]bool{}, false, false, false
		for _, a := range ref.Answers {
			twice = twice || names[a.Name]
			names[a.Name] = true
			broken = broken || strings.Count(a.Value, "[") != strings.Count(a.Value, "]")
			blank = blank || a.Value == ""
		}
		more := false
		for _, m := range namedForm.FindAllStringSubmatch(asked[ref.PromptID], -1) {
			more = more || !names[m[1]]
		}
		for flag, n := range map[*int]bool{&unlabelled: more, &repeated: twice, &cut: broken, &empty: blank} {
			if n {
				*flag++
			}
		}
	}
	n := len(in.References)
	return []FaultCount{
		{DABench, "the question asks for a name that the label does not hold: never checked", unlabelled, n},
		{DABench, "a name stands twice in the label: the last value counts", repeated, n},
		{DABench, "a bracket in the label is cut off", cut, n},
		{DABench, "the label is empty: saying nothing is right", empty, n},
	}
}
