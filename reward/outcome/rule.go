package outcome

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/task"
)

// Compare grades one stated value against its reference, in [0, 1].
type Compare func(got, want string) float64

// Rule is the outcome rule of one item.
type Rule struct {
	// Name is stored with every score, e.g. "tablebench/EM".
	Name string
	// Official is the benchmark's own comparison, Fixed the one that training uses.
	Official, Fixed Compare
	// Tagged rules read @name[value] only; the others also a final answer in words.
	Tagged bool
	// Graded rules give shares of text overlap, which are no verdict on the whole answer.
	Graded bool
	// Accept holds further right values by name.
	Accept map[string][]string
}

// Data sources with a rule of their own.
const (
	SourceDABench    = "dabench"
	SourceTableBench = "tablebench"
	SourceDABStep    = "dabstep"
	SourceQRData     = "qrdata"
)

// Benchmarks' and users' rules as meta.rule names them.
const (
	ruleMatch = "match"
)

// meta is what a reference may say about its scoring.
type meta struct {
	// Rule overrides the data source: dabench, tablebench, dabstep, qrdata or match.
	Rule       string              `json:"rule"`
	QuestionOf string              `json:"question_type"`
	QType      string              `json:"qtype"`
	QSubtype   string              `json:"qsubtype"`
	ChartType  string              `json:"chart_type"`
	Tolerance  *Tolerance          `json:"tolerance"`
	Accept     map[string][]string `json:"accept"`
	Unordered  bool                `json:"unordered"`
	AnswerName string              `json:"-"`
}

// plainName is the name of an answer that has none, as the importer writes it.
const plainName = "answer"

// Select returns the rule of a reference and the required sub-answers. A reference with named
// answers always has one: by meta.rule, else by data source, else the generic matcher. A free text
// has one only where its benchmark does.
func Select(ref task.Reference) (Rule, []task.NamedAnswer, bool, error) {
	var m meta
	if len(ref.Meta) > 0 {
		if err := json.Unmarshal(ref.Meta, &m); err != nil {
			return Rule{}, nil, false, fmt.Errorf("prompt %s: meta: %w", ref.PromptID, err)
		}
	}
	name := m.Rule
	if name == "" {
		name = ref.DataSource
	}
	want := ref.Answers
	ownText := name == SourceTableBench || name == SourceDABStep || name == SourceQRData || name == ruleMatch
	if len(want) == 0 {
		if !ownText || ref.Text == "" {
			return Rule{}, nil, false, nil
		}
		want = []task.NamedAnswer{{Name: plainName, Value: ref.Text}}
	}
	rule, err := m.rule(name)
	if err != nil {
		return Rule{}, nil, false, fmt.Errorf("prompt %s: %w", ref.PromptID, err)
	}
	rule.Accept = m.Accept
	return rule, want, true, nil
}

func (m meta) rule(name string) (Rule, error) {
	switch name {
	case "", SourceDABench:
		return DABench(), nil
	case SourceTableBench:
		return TableBench(m.QType, m.QSubtype, m.ChartType)
	case SourceDABStep:
		return Rule{Name: SourceDABStep, Official: DABStepOfficial, Fixed: DABStepFixed}, nil
	case SourceQRData:
		return QRData(m.QuestionOf)
	case ruleMatch:
	default:
		if m.Rule != "" {
			return Rule{}, fmt.Errorf("meta.rule: %q is none of dabench, tablebench, dabstep, qrdata, match", m.Rule)
		}
	}
	t := Tolerance{}
	if m.Tolerance != nil {
		t = *m.Tolerance
	}
	if err := t.Validate(); err != nil {
		return Rule{}, err
	}
	match := Match(t, m.Unordered)
	return Rule{Name: ruleMatch + "/" + t.String(), Official: match, Fixed: match}, nil
}

// DABench is the rule of InfiAgent-DABench; training compares unwrapped values.
func DABench() Rule {
	return Rule{
		Name: SourceDABench, Tagged: true,
		Official: func(got, want string) float64 { return truth(Equal(got, want)) },
		Fixed:    func(got, want string) float64 { return truth(lenientEqual(got, want)) },
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// best is the highest grade over a reference value and its accepted alternatives.
func (r Rule) best(compare Compare, name, got, want string) float64 {
	if r.tooLong(got, want) {
		return 0
	}
	grade := compare(got, want)
	for _, other := range r.Accept[name] {
		grade = max(grade, compare(got, other))
	}
	return grade
}

const (
	// maxAnswer and maxRatio bound a value: printing a whole result so that the right figure is
	// somewhere in it is no answer.
	maxAnswer = 4000
	maxRatio  = 20
)

func (r Rule) tooLong(got, want string) bool {
	return len(got) > maxAnswer && len(got) > maxRatio*len(want)
}

// Score grades the text of a whole answer by the benchmark's own comparison.
func (r Rule) Score(answer string, want []task.NamedAnswer) []SubAnswer {
	given := map[string]string{}
	tags := named(answer)
	for _, n := range tags {
		given[n.Name] = n.Value
	}
	want = required(want)
	if !r.Tagged && len(want) == 1 && answer != "" {
		if _, ok := given[want[0].Name]; !ok {
			given[want[0].Name] = finalAnswer(answer)
		}
	}
	subs := make([]SubAnswer, 0, len(want))
	for _, w := range want {
		s := SubAnswer{Name: w.Name, Want: w.Value}
		s.Got, s.Answered = given[w.Name]
		if s.Answered {
			s.Score = r.best(r.Official, w.Name, s.Got, w.Value)
		}
		s.settle(r.tooLong(s.Got, w.Value))
		subs = append(subs, s)
	}
	return subs
}

func (s *SubAnswer) settle(long bool) {
	s.Right = s.Score == 1
	switch {
	case !s.Answered:
		s.Reason = "not answered"
	case long:
		s.Reason = "too long to be an answer"
	case s.Score == 0:
		s.Reason = "wrong value"
	case !s.Right:
		s.Reason = "partly right"
	}
}

const finalMark = "Final Answer: "

// finalAnswer is what stands after the first "Final Answer: ", to the line's end, else the whole text.
func finalAnswer(s string) string {
	if _, after, ok := strings.Cut(s, finalMark); ok && after != "" && after[0] != '\n' {
		line, _, _ := strings.Cut(after, "\n")
		return line
	}
	return strings.TrimSpace(s)
}

// Tolerance of the generic matcher. The zero value takes it from the reference's digits: an answer
// is right if it is within half a unit of the reference's last place.
type Tolerance struct {
	Abs float64 `json:"abs"`
	Rel float64 `json:"rel"`
}

// Validate refuses tolerances that would accept anything.
func (t Tolerance) Validate() error {
	if !(t.Abs >= 0) || !(t.Rel >= 0) || t.Rel >= 1 || t.Abs > 1e300 {
		return fmt.Errorf("meta.tolerance: abs %g and rel %g, want abs >= 0 and 0 <= rel < 1", t.Abs, t.Rel)
	}
	return nil
}

func (t Tolerance) String() string {
	if t == (Tolerance{}) {
		return "digits"
	}
	return fmt.Sprintf("abs=%g,rel=%g", t.Abs, t.Rel)
}

// limit is the largest difference that still counts as equal to want.
func (t Tolerance) limit(want quantity) *big.Rat {
	if t == (Tolerance{}) {
		unit := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(want.decimals)), nil))
		return new(big.Rat).Quo(big.NewRat(1, 2), unit)
	}
	limit := new(big.Rat).SetFloat64(t.Rel)
	limit.Mul(limit, new(big.Rat).Abs(want.value))
	if abs := new(big.Rat).SetFloat64(t.Abs); abs.Cmp(limit) > 0 {
		return abs
	}
	return limit
}

// Match compares numbers within a tolerance and everything else as folded text, item by item where
// both sides are lists of equal length. A number never equals a text.
func Match(t Tolerance, unordered bool) Compare {
	return func(got, want string) float64 {
		if matchOne(got, want, t) {
			return 1
		}
		a, b := items(got), items(want)
		if len(a) != len(b) || len(a) < 2 {
			return 0
		}
		if unordered {
			return truth(matchAnyOrder(a, b, t))
		}
		for i := range a {
			if !matchOne(a[i], b[i], t) {
				return 0
			}
		}
		return 1
	}
}

func matchAnyOrder(got, want []string, t Tolerance) bool {
	return pair(got, want, func(g, w string) bool { return matchOne(g, w, t) })
}

// maxUnequal bounds the items that are compared with each other; pairing them is quadratic.
const maxUnequal = 200

// pair reports whether every item of got has its own equal in want. Items of the same text go first, so
// that a long list of ids in another order costs one pass.
func pair(got, want []string, same func(got, want string) bool) bool {
	if len(got) != len(want) {
		return false
	}
	count := map[string]int{}
	for _, w := range want {
		count[w]++
	}
	var left, open []string
	for _, g := range got {
		if count[g] > 0 {
			count[g]--
		} else {
			left = append(left, g)
		}
	}
	for w, n := range count {
		for range n {
			open = append(open, w)
		}
	}
	if len(open) > maxUnequal {
		return false
	}
	slices.Sort(open) // the map's order must not decide which items are paired
	for _, w := range open {
		at := slices.IndexFunc(left, func(g string) bool { return same(g, w) })
		if at < 0 {
			return false
		}
		left = slices.Delete(left, at, at+1)
	}
	return true
}

func matchOne(got, want string, t Tolerance) bool {
	w, number := readQuantity(want)
	g, ok := readQuantity(got)
	if !number || !ok {
		return number == ok && fold(got) == fold(want)
	}
	limit := t.limit(w)
	for _, wv := range w.readings(g) {
		for _, gv := range g.readings(w) {
			bound := limit
			if w.percent && wv.Cmp(w.value) != 0 {
				bound = new(big.Rat).Quo(limit, hundred)
			}
			if within(gv, wv, bound) {
				return true
			}
		}
	}
	return false
}

// maxItems bounds the lists that are compared; matching in any order is quadratic in it.
const maxItems = 2000

// items splits a list at commas and semicolons, one pair of brackets around it removed.
func items(s string) []string {
	s = strings.TrimSpace(s)
	if n := len(s); n >= 2 && (s[0] == '[' && s[n-1] == ']' || s[0] == '(' && s[n-1] == ')' || s[0] == '{' && s[n-1] == '}') {
		s = s[1 : n-1]
	}
	if strings.Count(s, ",")+strings.Count(s, ";") >= maxItems {
		return nil
	}
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ';' })
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// fold brings a text to the form that the generic matcher compares: one case, single blanks, no
// outer quotes, no final full stop, ASCII minus.
func fold(s string) string {
	s = strings.ToLower(strings.Join(strings.Fields(unwrap(s)), " "))
	s = strings.TrimSuffix(s, ".")
	if n := len(s); n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		s = s[1 : n-1]
	}
	return s
}
