package synth

import (
	"fmt"
	"strings"
)

// Templates have the slots %[1]s and %[2]s for columns or cells, %[3]s for the table and %[4]d for a number.
var questions = []string{
	"What is the distribution of %[1]s across %[2]s in %[3]s, looking at the first %[4]d groups?",
	"Does %[1]s differ by %[2]s in %[3]s when the %[4]d largest values are left out?",
	"Summarise %[1]s in %[3]s and say how it goes with %[2]s for at least %[4]d rows.",
	"Which rows of %[3]s are outliers in %[1]s with a threshold of %[4]d percent, and what is their %[2]s?",
	"Compare the spread of %[1]s with that of %[2]s in %[3]s using %[4]d bins.",
}

var thoughts = []string{
	"The column %[1]s of %[3]s seems to hold values such as %[2]s, so about %[4]d of them should be enough to see its type.",
	"Before %[1]s can be used, rows where %[2]s is missing have to be found; %[3]s may have %[4]d of those.",
	"I expect %[2]s to matter for %[1]s, and %[4]d rows of %[3]s would show it.",
	"A look at %[3]s with %[4]d lines tells whether %[1]s is a number or text like %[2]s.",
	"Since %[1]s has the value %[2]s near row %[4]d, sorting %[3]s by it comes next.",
	"Grouping by %[2]s gives %[4]d cells at most, and %[1]s of %[3]s is then averaged in each.",
	"It would be wrong to drop %[2]s: in %[3]s row %[4]d of %[1]s depends on it.",
	"Row %[4]d says %[2]s, which is not what %[1]s in %[3]s suggested, so I check again.",
	"For %[1]s the limits are taken from %[3]s itself and not from %[2]s; %[4]d is the smallest group.",
	"Next: the share of %[2]s among the first %[4]d entries of %[1]s, from %[3]s as loaded.",
	"Both %[1]s and %[2]s come from %[3]s, and after row %[4]d they no longer move together.",
	"If %[2]s were constant, %[1]s would need %[4]d more rows of %[3]s to say anything.",
	"The unit of %[1]s is not stated in %[3]s, though %[2]s at position %[4]d hints at it.",
	"Counting %[2]s first avoids a mistake with %[1]s, as %[3]s has %[4]d repeated keys.",
	"A claim about %[1]s needs its value from %[3]s and not %[2]s typed by hand; %[4]d digits are plenty.",
	"What remains open is whether %[2]s explains %[1]s beyond the %[4]d rows that %[3]s shows.",
}

var conclusions = []string{
	"Values of %[1]s in %[2]s lie close together.", "The spread of %[1]s in %[2]s is large against its centre.",
	"In %[2]s a few rows decide the mean of %[1]s.", "Nothing in %[2]s speaks against using %[1]s as it stands.",
}

// cell is a random cell or column name.
func (k *maker) cell() string {
	t := k.table
	if k.IntN(3) == 0 {
		return t.Columns[k.IntN(len(t.Columns))]
	}
	if c := t.Rows[k.IntN(len(t.Rows))][k.IntN(len(t.Columns))]; c != "" {
		return c
	}
	return "an empty cell"
}

// think is some sentences about the table.
func (k *maker) think(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, k.pick(thoughts), k.cell(), k.cell(), k.table.Name, k.IntN(500)+2)
	}
	return b.String()
}

// look is a cell that looks at the table.
func (k *maker) look(n int) string {
	t := k.table
	c, d := t.Columns[t.numeric[k.IntN(len(t.numeric))]], t.Columns[k.IntN(len(t.Columns))]
	code := ""
	if n == 0 {
		code = fmt.Sprintf("import pandas as pd\ndf = pd.read_csv(%q)\n", t.Name)
	}
	steps := []string{
		fmt.Sprintf("print(df[[%q, %q]].head(%d))", c, d, k.IntN(40)+5),
		fmt.Sprintf("part_%d = df[df[%q] != %q]\nprint(part_%d.describe())", k.IntN(900), d, k.cell(), k.IntN(900)),
		fmt.Sprintf("print(df.sort_values(%q).iloc[%d:%d])", c, k.IntN(20), k.IntN(60)+30),
		fmt.Sprintf("print(df.groupby(%q)[%q].agg(['mean', 'count']).tail(%d))  # %s", d, c, k.IntN(30)+3, k.cell()),
	}
	for range 1 + k.IntN(3) {
		code += k.pick(steps) + "\n"
	}
	return strings.TrimSpace(code)
}

// show prints real rows, as pandas would.
func (k *maker) show() string {
	t := k.table
	var b strings.Builder
	b.WriteString("     " + strings.Join(t.Columns, "  "))
	rows, start := 15+k.IntN(60), k.IntN(len(t.Rows))
	for i := range rows {
		at := (start + i) % len(t.Rows)
		fmt.Fprintf(&b, "\n%-4d %s", at, strings.Join(t.Rows[at], "  "))
		if b.Len() > 7000 {
			break
		}
	}
	return b.String()
}
