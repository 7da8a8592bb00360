package verify

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

var (
	layerLine = regexp.MustCompile(`^\s*Step\s*(\d+)\s*\(Calculating Layer`)
	sumLine   = regexp.MustCompile(`^\s*(-?\d{1,18})\s*\+\s*(-?\d{1,18})\s*=\s*(-?\d{1,18})\s*$`)
	// numbersOf finds the given numbers of a problem's text.
	numbersOf = regexp.MustCompile(`layer 0:\s*([-\d, ]+)`)
)

var triangleHeader = []string{"id", "problem", "N", "number", "response", "final_answer", "label"}

// ReadTriangles reads Number Triangle Summation items (CSV: id, problem, N, number, response,
// final_answer, label).
func ReadTriangles(r io.Reader) ([]Item, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("nts: %w", err)
	}
	if len(rows) == 0 || strings.Join(rows[0], ",") != strings.Join(triangleHeader, ",") {
		return nil, fmt.Errorf("nts: the first line is not %s", strings.Join(triangleHeader, ","))
	}
	var items []Item
	for n, row := range rows[1:] {
		label, err := strconv.Atoi(row[6])
		if err != nil {
			return nil, fmt.Errorf("nts: record %d: label: %w", n+1, err)
		}
		it := Item{ID: row[0], Group: "N=" + row[2], Problem: row[1], Label: label}
		it.Units, err = triangleUnits(row[4])
		if err != nil {
			it.Unreadable = err.Error()
		}
		items = append(items, it)
	}
	return items, nil
}

// triangleUnits finds the sums of a response. A sum rests on the two neighbours of the layer before.
func triangleUnits(response string) ([]Unit, error) {
	var units []Unit
	layer := 0
	last, current := []int(nil), []int(nil) // units of the layer before and of this one
	for _, line := range strings.Split(response, "\n") {
		if m := layerLine.FindStringSubmatch(line); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil || n != layer+1 {
				return nil, fmt.Errorf("step %s follows step %d", m[1], layer)
			}
			layer, last, current = n, current, nil
			continue
		}
		m := sumLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if layer == 0 {
			return nil, fmt.Errorf("a sum stands before the first step")
		}
		u := Unit{Text: strings.TrimSpace(line), Place: layer}
		if layer > 1 {
			at := len(current)
			if at+1 >= len(last) {
				return nil, fmt.Errorf("step %d has more sums than pairs", layer)
			}
			u.Premises = []int{last[at], last[at+1]}
		}
		current = append(current, len(units))
		units = append(units, u)
	}
	if len(units) == 0 {
		return nil, fmt.Errorf("holds no sum")
	}
	return units, nil
}

// Adder is a judge without a model: a sum is right if it adds up and its operands are what the two
// sums that it rests on gave, or numbers of the problem.
type Adder struct{}

var (
	_ Checker = Adder{}
	_ Reader  = Adder{}
)

// Correct checks one sum.
func (a Adder) Correct(_ context.Context, problem string, earlier []string, unit string) (bool, error) {
	if strings.Contains(unit, "\n") || len(earlier) > 0 && strings.Contains(earlier[0], "\n") {
		return a.block(problem, earlier, unit)
	}
	sum, err := parseSum(unit)
	if err != nil {
		return false, err
	}
	if sum[0]+sum[1] != sum[2] {
		return false, nil
	}
	if len(earlier) != 2 {
		return given(problem, sum[0]) && given(problem, sum[1]), nil
	}
	for i, text := range earlier {
		before, err := parseSum(text)
		if err != nil {
			return false, err
		}
		if before[2] != sum[i] {
			return false, nil
		}
	}
	return true, nil
}

// FirstError adds up all sums.
func (a Adder) FirstError(_ context.Context, _ string, units []string) (int, error) {
	for i, u := range units {
		sum, err := parseSum(u)
		if err != nil {
			return 0, err
		}
		if sum[0]+sum[1] != sum[2] {
			return i, nil
		}
	}
	return -1, nil
}

func given(problem string, n int64) bool {
	m := numbersOf.FindStringSubmatch(problem)
	if m == nil {
		return true // the problem names no numbers to hold against it
	}
	for _, s := range strings.Split(m[1], ",") {
		if v, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64); err == nil && v == n {
			return true
		}
	}
	return false
}

func parseSum(s string) (v [3]int64, err error) {
	m := sumLine.FindStringSubmatch(s)
	if m == nil {
		return v, fmt.Errorf("nts: %.60q is no sum", s)
	}
	for i := range v {
		if v[i], err = strconv.ParseInt(m[i+1], 10, 64); err != nil {
			return v, fmt.Errorf("nts: %w", err)
		}
	}
	return v, nil
}

// WriteTriangles writes count right and count wrong items of every size, shuffled, a function of the
// seed. A wrong item has one sum with one digit replaced, in a layer and place drawn evenly; later
// sums use the wrong value, so exactly one is wrong.
func WriteTriangles(w io.Writer, seed uint64, sizes []int, count int) error {
	rng := rand.New(rand.NewPCG(seed, 0x7419))
	var rows [][]string
	for _, n := range sizes {
		if n < 2 || n > 64 {
			return fmt.Errorf("nts: size %d is not between 2 and 64", n)
		}
		for i := range 2 * count {
			rows = append(rows, triangle(rng, n, i, i%2 == 1))
		}
	}
	rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	out := csv.NewWriter(w)
	if err := out.Write(triangleHeader); err != nil {
		return err
	}
	return out.WriteAll(rows)
}

func triangle(rng *rand.Rand, n, index int, wrong bool) []string {
	layer := make([]int64, n)
	names := make([]string, n)
	for i := range layer {
		layer[i] = 1000 + rng.Int64N(9000)
		names[i] = strconv.FormatInt(layer[i], 10)
	}
	numbers := strings.Join(names, ", ")
	badLayer, badPlace := -1, -1
	if wrong {
		badLayer = 1 + rng.IntN(n-1)
		badPlace = rng.IntN(n - badLayer)
	}
	var steps []string
	for l := 1; l < n; l++ {
		next := make([]int64, n-l)
		text := fmt.Sprintf("Step %d (Calculating Layer %d from Layer %d):", l, l, l-1)
		for i := range next {
			next[i] = layer[i] + layer[i+1]
			if l == badLayer && i == badPlace {
				next[i] = otherDigit(rng, next[i])
			}
			text += fmt.Sprintf("\n  %d + %d = %d", layer[i], layer[i+1], next[i])
		}
		steps = append(steps, text)
		layer = next
	}
	steps = append(steps, fmt.Sprintf("Final Answer: The number at Layer %d is %d.", n-1, layer[0]))
	kind, final := "correct", "True"
	if wrong {
		kind, final = "wrong", "False"
	}
	problem := fmt.Sprintf("Given %d numbers at layer 0: %s. Calculate the sum of adjacent numbers to form the next layer, repeating this "+
		"process until only one number remains at layer %d. What is the final number?", n, numbers, n-1)
	return []string{
		fmt.Sprintf("N%d-%s-%d", n, kind, index), problem, strconv.Itoa(n), numbers, strings.Join(steps, "\n\n"), final, strconv.Itoa(badLayer),
	}
}

// otherDigit replaces one digit by another; the first one never by 0.
func otherDigit(rng *rand.Rand, v int64) int64 {
	digits := []byte(strconv.FormatInt(v, 10))
	for {
		at, d := rng.IntN(len(digits)), byte('0'+rng.IntN(10))
		if digits[at] == d || at == 0 && d == '0' {
			continue
		}
		digits[at] = d
		out, err := strconv.ParseInt(string(digits), 10, 64)
		if err != nil {
			panic(err) // digits of an int64 with one replaced
		}
		return out
	}
}
