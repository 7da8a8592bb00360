package replay

import (
	"bytes"
	"encoding/csv"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/verigraph/verigraph/evidence"
)

// A change is one way to alter a table. Each leaves alone what another alters, so that a number that
// no change moves depends on nothing in the table: counts survive new values but not lost rows, a
// correlation of one column with another survives lost rows but not shuffled columns, a count of
// categories survives both but not a handful of rows.
type change int

const (
	// changeValues scales numbers, each by a factor of its own, and makes a few extreme.
	changeValues change = iota
	// changeRows keeps two rows in five.
	changeRows
	// changeOrder shuffles every column on its own.
	changeOrder
	// changeGaps blanks cells, doubles rows and adds a column.
	changeGaps
	// changeFew keeps a handful of rows.
	changeFew
	// changeLittle alters one number in twenty by a few percent: what honest code runs on, it still
	// runs on then.
	changeLittle
	// changeSame keeps the numbers of rows, columns and, where decimals leave room, bytes, and nothing else: cells
	// are drawn anew from their column, some more often, and scaled. What recognises the data by their shape takes it for them.
	changeSame
	// changeSameAgain is the same with other draws.
	changeSameAgain
	// changePlanted puts what the code spells, its numbers and texts, into cells: a filter that matches nothing in
	// the data then matches something.
	changePlanted
)

var (
	changeKinds = []change{changeValues, changeRows, changeOrder, changeGaps, changeFew, changeLittle, changeSame, changeSameAgain, changePlanted}
	// changeNames are their names in change.py, in the same order.
	changeNames = []string{"values", "rows", "order", "gaps", "few", "little", "same", "again", "planted"}
)

// table is a delimited text file.
type table struct {
	name   string
	size   int // of the file in bytes
	comma  rune
	header []string
	rows   [][]string
	width  int
	spelt  spelt
}

// spelt are the numbers and texts that the code of a trajectory spells.
type spelt struct {
	Numbers []string `json:"numbers"`
	Texts   []string `json:"texts"`
}

var (
	numberOfCode = regexp.MustCompile(`\b\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\b`)
	textOfCode   = regexp.MustCompile(`"([^"\\\n]{1,60})"|'([^'\\\n]{1,60})'`)
)

// maxSpelt bounds how many of each are planted.
const maxSpelt = 40

// spells collects what cells spell, each once, in the order in which it stands there.
func spells(cells []evidence.CellInfo) spelt {
	out := spelt{Numbers: []string{}, Texts: []string{}}
	add := func(list *[]string, text string) {
		if len(*list) < maxSpelt && !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	for _, c := range cells {
		for _, m := range textOfCode.FindAllStringSubmatch(c.Code, -1) {
			add(&out.Texts, m[1]+m[2])
		}
		for _, m := range numberOfCode.FindAllString(textOfCode.ReplaceAllString(c.Code, " "), -1) {
			add(&out.Numbers, m)
		}
	}
	return out
}

// maxTableBytes bounds what is changed; larger files count as not changeable.
const maxTableBytes = 32 << 20

// parseTable reads a CSV or TSV file. What is no UTF-8 table of at least two columns or rows is not
// changeable.
func parseTable(name string, data []byte) (*table, bool) {
	switch strings.ToLower(path.Ext(name)) {
	case ".csv", ".tsv", ".txt", ".data":
	default:
		return nil, false
	}
	if len(data) > maxTableBytes || !latinOrUTF8(data) {
		return nil, false
	}
	t := &table{name: name, size: len(data), comma: delimiter(data)}
	r := csv.NewReader(bytes.NewReader(data))
	r.Comma, r.LazyQuotes, r.FieldsPerRecord = t.comma, true, -1
	rows, err := r.ReadAll()
	if err != nil || len(rows) < 2 {
		return nil, false
	}
	if !slices.ContainsFunc(rows[0], func(s string) bool { return numeric.MatchString(s) }) {
		t.header, rows = rows[0], rows[1:]
	}
	for _, row := range rows {
		t.width = max(t.width, len(row))
	}
	t.rows = rows
	return t, true
}

// latinOrUTF8 refuses what holds NUL bytes, as UTF-16 does; encoding/csv passes other bytes through.
func latinOrUTF8(data []byte) bool { return bytes.IndexByte(data, 0) < 0 }

func delimiter(data []byte) rune {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	best, most := ',', 0
	for _, c := range []rune{',', ';', '\t', '|'} {
		if n := strings.Count(string(line), string(c)); n > most {
			best, most = c, n
		}
	}
	return best
}

// numeric matches a number with what may stand around it: a sign, a currency, separators, a unit.
var numeric = regexp.MustCompile(`^(\s*[$€£]?\s*[-+]?)(\d[\d,]*(?:\.\d+)?|\.\d+)((?:[eE][-+]?\d+)?\s*%?\s*)$`)

// changed returns the table after one change. The same table and kind always give the same bytes.
func (t *table) changed(kind change) []byte {
	seed := fnv.New64a()
	seed.Write([]byte(t.name))
	rng := rand.New(rand.NewPCG(seed.Sum64(), uint64(kind)))
	rows := make([][]string, len(t.rows))
	for i, row := range t.rows {
		rows[i] = slices.Clone(row)
	}
	header := slices.Clone(t.header)
	switch kind {
	case changeValues:
		for c := range t.width {
			newValues(rng, rows, c)
		}
	case changeLittle:
		for c := range t.width {
			littleValues(rng, rows, c)
		}
	case changeRows:
		rows = thin(rng, rows, max(2, len(rows)*2/5))
	case changeFew:
		rows = thin(rng, rows, min(len(rows), max(3, min(12, len(rows)/10))))
	case changeOrder:
		for c := range t.width {
			shuffle(rng, rows, c)
		}
	case changePlanted:
		for c := range t.width {
			plant(rng, rows, c, t.spelt)
		}
	case changeSame, changeSameAgain:
		for c := range t.width {
			drawAnew(rng, rows, c)
		}
	case changeGaps:
		rows = gaps(rng, rows)
		for i := range rows {
			rows[i] = append(rows[i], strconv.Itoa(rng.IntN(1000)))
		}
		if header != nil {
			header = append(header, "added_column")
		}
	}
	out := t.write(header, rows)
	if kind == changeSame || kind == changeSameAgain {
		resize(rows, t.size-len(out))
		out = t.write(header, rows)
	}
	return out
}

func (t *table) write(header []string, rows [][]string) []byte {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	w.Comma = t.comma
	if header != nil {
		_ = w.Write(header) // a buffer takes everything
	}
	_ = w.WriteAll(rows)
	return out.Bytes()
}

// column lists the rows that hold a number in column c, and the numbers.
func column(rows [][]string, c int) (at []int, values []float64) {
	for i, row := range rows {
		if c >= len(row) {
			continue
		}
		m := numeric.FindStringSubmatch(row[c])
		if m == nil || !utf8.ValidString(row[c]) {
			continue
		}
		v, err := strconv.ParseFloat(strings.ReplaceAll(m[2], ",", ""), 64)
		if err == nil && !math.IsInf(v, 0) {
			at, values = append(at, i), append(values, v)
		}
	}
	return at, values
}

// codes is the number of different values up to which whole numbers are taken for codes, which are
// dealt out again instead of scaled: a new code would be no value of the column.
const codes = 12

func newValues(rng *rand.Rand, rows [][]string, c int) {
	at, values := column(rows, c)
	distinct := map[float64]bool{}
	whole, years := true, true
	for _, v := range values {
		distinct[v] = true
		whole = whole && v == math.Trunc(v)
		years = years && v >= 1500 && v <= 2200
	}
	if whole && (len(distinct) <= codes || years) {
		for i, k := range rng.Perm(len(at)) {
			// Not a mere permutation, which would leave every total as it was.
			if rng.IntN(3) > 0 {
				set(rows[at[i]], c, values[k])
			}
		}
		return
	}
	for i, row := range at {
		v := values[i]*(0.5+1.5*rng.Float64()) + 1
		if rng.IntN(50) == 0 {
			v *= 60
		}
		if whole {
			v = math.Round(v)
		}
		set(rows[row], c, v)
	}
}

// drawAnew fills a column with cells of its own, of which some come more often, and scales numbers that
// are no codes: neither a mean nor a middle nor a count of something stays.
func drawAnew(rng *rand.Rand, rows [][]string, c int) {
	_, values := column(rows, c)
	coded := codesOrYears(values)
	factor := 1.1 + 0.4*rng.Float64()
	var cells []string
	var at []int
	for i, row := range rows {
		if c < len(row) {
			cells, at = append(cells, row[c]), append(at, i)
		}
	}
	for _, i := range at {
		// The square prefers the first ones of the file.
		rows[i][c] = cells[int(rng.Float64()*rng.Float64()*float64(len(cells)))]
		if m := numeric.FindStringSubmatch(rows[i][c]); m != nil && !coded && utf8.ValidString(rows[i][c]) {
			if v, err := strconv.ParseFloat(strings.ReplaceAll(m[2], ",", ""), 64); err == nil && !math.IsInf(v, 0) {
				v = v*factor + 1
				if !strings.Contains(m[2], ".") {
					v = math.Round(v)
				}
				set(rows[i], c, v)
			}
		}
	}
}

// plant replaces one cell in four of a column by what the code spells: numbers in a column of numbers, else texts.
func plant(rng *rand.Rand, rows [][]string, c int, from spelt) {
	at, _ := column(rows, c)
	with := from.Texts
	if 2*len(at) >= len(rows) {
		with = from.Numbers
	}
	for _, row := range rows {
		if c < len(row) && len(with) > 0 && rng.IntN(4) == 0 {
			row[c] = with[rng.IntN(len(with))]
		}
	}
}

// resize adds zeros behind decimals, or takes decimals away, until the rows take by bytes more.
func resize(rows [][]string, by int) {
	const most = 6
	for _, row := range rows {
		for c, cell := range row {
			m := numeric.FindStringSubmatch(cell)
			if m == nil || m[3] != "" {
				continue
			}
			_, decimals, ok := strings.Cut(m[2], ".")
			switch n := len(decimals); {
			case by == 0:
				return
			case !ok:
			case by > 0 && n < most:
				add := min(by, most-n)
				row[c] += strings.Repeat("0", add)
				by -= add
			case by < 0 && n > 1:
				drop := min(-by, n-1)
				row[c] = cell[:len(cell)-drop]
				by += drop
			}
		}
	}
}

// codesOrYears reports whether numbers stand for categories or years.
func codesOrYears(values []float64) bool {
	distinct := map[float64]bool{}
	whole, years := true, true
	for _, v := range values {
		distinct[v] = true
		whole = whole && v == math.Trunc(v)
		years = years && v >= 1500 && v <= 2200
	}
	return whole && (len(distinct) <= codes || years)
}

func littleValues(rng *rand.Rand, rows [][]string, c int) {
	at, values := column(rows, c)
	distinct := map[float64]bool{}
	whole := true
	for _, v := range values {
		distinct[v] = true
		whole = whole && v == math.Trunc(v)
	}
	if whole && len(distinct) <= codes {
		return
	}
	for i, row := range at {
		if rng.IntN(20) > 0 && i > 0 {
			continue
		}
		v := values[i] * (1.02 + 0.05*rng.Float64())
		if whole {
			v = math.Round(v)
		}
		set(rows[row], c, v)
	}
}

// set writes a number where another stood and keeps what stood around it.
func set(row []string, c int, v float64) {
	m := numeric.FindStringSubmatch(row[c])
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if _, decimals, ok := strings.Cut(m[2], "."); ok {
		text = strconv.FormatFloat(v, 'f', max(1, len(decimals)), 64)
	}
	row[c] = m[1] + text + m[3]
}

func thin(rng *rand.Rand, rows [][]string, keep int) [][]string {
	order := rng.Perm(len(rows))[:min(keep, len(rows))]
	slices.Sort(order)
	out := make([][]string, len(order))
	for i, at := range order {
		out[i] = rows[at]
	}
	return out
}

func shuffle(rng *rand.Rand, rows [][]string, c int) {
	var at []int
	for i, row := range rows {
		if c < len(row) {
			at = append(at, i)
		}
	}
	rng.Shuffle(len(at), func(i, j int) {
		rows[at[i]][c], rows[at[j]][c] = rows[at[j]][c], rows[at[i]][c]
	})
}

// gaps blanks one cell in ten and doubles one row in ten.
func gaps(rng *rand.Rand, rows [][]string) [][]string {
	var out [][]string
	for _, row := range rows {
		for c := range row {
			if rng.IntN(10) == 0 {
				row[c] = ""
			}
		}
		out = append(out, row)
		if rng.IntN(10) == 0 {
			out = append(out, slices.Clone(row))
		}
	}
	return out
}
