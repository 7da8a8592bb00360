package table

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"
)

const examples = "../../examples/dabench/tables/"

func file(t *testing.T, path string, o Options) Profile {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return Inspect(filepath.Base(path), data, o)
}

func inspect(text string, o Options) Profile { return Inspect("t.csv", []byte(text), o) }

// texts are the findings as a person reads them.
func texts(p Profile) []string {
	out := []string{}
	for _, f := range p.Findings {
		out = append(out, f.String())
	}
	return out
}

func names(p Profile) []string {
	out := []string{}
	for _, c := range p.Columns {
		out = append(out, c.Name)
	}
	return out
}

func column(t *testing.T, p Profile, name string) Column {
	t.Helper()
	for _, c := range p.Columns {
		if c.Name == name {
			return c
		}
	}
	require.Fail(t, "no column "+name)
	return Column{}
}

// TestEveryAwkwardFileIsReadRightOrReported goes through the collected files that trip default readers.
func TestEveryAwkwardFileIsReadRightOrReported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path          string
		o             Options
		columns, rows int
		findings      []string // each is part of one finding
		column        string
		kind          string
		notes         []string // each is part of one note on column
	}{
		{"Current_Logan.csv", Options{}, 9, 41, []string{"byte-order mark", "line 1: may be a title: line 2 fills 7 cells, this one 1", "columns without a name: 2, 3, 4, 5, 6, 7, 8, 9"}, "", "", nil},
		{"Current_Logan.csv", Options{Header: 2}, 9, 40, []string{"byte-order mark", "columns without a name: 5, 6"}, "NUM ROUNDS", "integer", nil},
		{"test_ave.csv", Options{}, 14, 715, []string{"columns without a name: 1"}, "Name", "text", []string{"text among numbers"}},
		{"bitconnect_price.csv", Options{}, 7, 241, nil, "Market Cap", "text", []string{"thousands separators"}},
		{"bitconnect_price.csv", Options{}, 7, 241, nil, "Volume", "text", []string{"240 of 241 cells have thousands separators"}},
		{"testdata/election2016.csv", Options{}, 10, 60, nil, "diff", "text", []string{"thousands separators"}},
		{"testdata/election2016.csv", Options{}, 10, 60, nil, "per_point_diff", "text", []string{"60 of 60 cells end with %"}},
		{"testdata/baro_2015.csv", Options{}, 8, 40, []string{`blanks around names: " WINDSPEED", " DIR"`}, "WINDSPEED", "decimal", nil},
		{"testdata/0020200722.csv", Options{}, 12, 59, nil, "SCOREMARGIN", "text", []string{"text among numbers"}},
		{"testdata/0020200722.csv", Options{}, 12, 59, nil, "GAME_ID", "text", []string{"59 of 59 cells have leading zeros: kept as text"}},
		{"testdata/0020200722.csv", Options{}, 12, 59, nil, "NEUTRALDESCRIPTION", "empty", nil},
		{"testdata/train_new_ocr_29.csv", Options{}, 14, 4, []string{"columns without a name: 1"}, "ocr_tokens", "text", nil},
		{"testdata/census.csv", Options{}, 15, 40, nil, "workclass", "text", []string{"40 of 40 cells have blanks around the value"}},
		{"testdata/tb_newline_in_header.csv", Options{}, 6, 30, []string{`line breaks in names: "Length\n[km]", "Drainage basin area\n[km2]"`}, "Mouth elevation\n[m above MSL]", "", nil},
		{"testdata/spanish_chars.csv", Options{Encoding: "latin-1"}, 8, 116, nil, "Gasto total 2011", "text", []string{"thousands separators"}},
		{"testdata/simple.ssv", Options{}, 3, 6, []string{"the delimiter is a semicolon, not a comma"}, "temperature", "integer", nil},
		{"beauty and the labor market.csv", Options{}, 19, 1260, []string{"byte-order mark", "lines end with CR alone"}, "wage", "decimal", nil},
		{"DES=+2006261.csv", Options{}, 6, 329, []string{"columns without a name: 6"}, "", "", nil},
		{"20170413_000000_group_statistics.csv", Options{}, 10, 96, []string{"blanks around names"}, "", "", nil},
		{"estimated_numbers.csv", Options{}, 11, 856, nil, "No. of cases", "text", []string{"text among numbers"}},
	} {
		t.Run(fmt.Sprintf("%s %v", filepath.Base(c.path), c.o), func(t *testing.T) {
			t.Parallel()
			path := c.path
			if !strings.HasPrefix(path, "testdata/") {
				path = examples + path
			}
			p := file(t, path, c.o)
			_, fatal := p.Fatal()
			require.False(t, fatal, texts(p))
			assert.Len(t, p.Columns, c.columns)
			assert.Equal(t, c.rows, p.Rows)
			assert.Len(t, p.Findings, len(c.findings), texts(p))
			for _, want := range c.findings {
				assert.Contains(t, strings.Join(texts(p), "\n"), want)
			}
			if c.column == "" {
				return
			}
			got := column(t, p, c.column)
			if c.kind != "" {
				assert.Equal(t, c.kind, got.Kind, got.Notes)
			}
			for _, want := range c.notes {
				assert.Contains(t, strings.Join(got.Notes, "\n"), want)
			}
		})
	}
}

func TestLatin1WithoutADeclarationIsRefusedWithTheOffsetOfItsFirstByte(t *testing.T) {
	t.Parallel()
	p := file(t, "testdata/spanish_chars.csv", Options{})
	f, fatal := p.Fatal()
	require.True(t, fatal)
	assert.Equal(t, int64(52), f.Offset)
	assert.Equal(t, "not utf-8 at byte 52 of the file (f3 6e 0d 0a); the whole file decodes as windows-1252, latin-1: declare the right one", f.Text)
}

func TestAnEmptyFileIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n\n", "\ufeff", " \r\n"} {
		p := inspect(text, Options{})
		f, fatal := p.Fatal()
		require.True(t, fatal, "%q", text)
		assert.Equal(t, "empty", f.Code)
	}
	f, fatal := file(t, "testdata/zero_bytes.csv", Options{}).Fatal()
	require.True(t, fatal)
	assert.Equal(t, "the file is empty", f.Text)
}

func TestAWorkbookIsListedSheetBySheet(t *testing.T) {
	t.Parallel()
	p := file(t, "testdata/interface_calls.xlsx", Options{})
	assert.Equal(t, []Sheet{{"接口调用", []string{"时间戳", "接口名称", "应用来源", "状态", "响应时间毫秒", "地区", "用户ID", "数据大小字节"}, 1000}}, p.Sheets)
	assert.Empty(t, p.Findings)
	broken := Inspect("x.xlsx", []byte("PK no archive"), Options{})
	_, fatal := broken.Fatal()
	assert.True(t, fatal)
}

func TestAByteOrderMarkIsNoPartOfTheFirstName(t *testing.T) {
	t.Parallel()
	utf16 := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	little, err := utf16.NewEncoder().String("\"id\",größe\n1,2\n")
	require.NoError(t, err)
	big, err := unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder().String("\"id\",größe\n1,2\n")
	require.NoError(t, err)
	for encoding, text := range map[string]string{"utf-8": "\ufeff\"id\",größe\n1,2\n", "utf-16le": little, "utf-16be": big} {
		p := inspect(text, Options{})
		assert.Equal(t, []string{"id", "größe"}, names(p), encoding)
		assert.Equal(t, encoding, p.Encoding)
		assert.True(t, p.BOM)
		cells, _, _ := Records("t.csv", []byte(text), Options{})
		assert.Equal(t, [][]string{{"id", "größe"}, {"1", "2"}}, cells)
	}
	bare := inspect(little[2:], Options{})
	f, fatal := bare.Fatal()
	require.True(t, fatal)
	assert.Equal(t, "looks like utf-16le without a byte-order mark: declare the encoding", f.Text)
	assert.Equal(t, []string{"id", "größe"}, names(inspect(little[2:], Options{Encoding: "utf-16le"})))
	odd := inspect(little+"\x00", Options{})
	f, fatal = odd.Fatal()
	require.True(t, fatal)
	assert.Equal(t, int64(len(little)), f.Offset)
}

func TestLeadingZerosStayText(t *testing.T) {
	t.Parallel()
	p := inspect("zip,day,id,plain\n02116,01022024,1234567890123456,0\n00501,31122024,1234567890123457,10\n", Options{})
	for name, note := range map[string]string{
		"zip": "2 of 2 cells have leading zeros: kept as text", "day": "1 of 2 cells have leading zeros: kept as text",
		"id": "2 of 2 cells have more than 15 digits: kept as text",
	} {
		c := column(t, p, name)
		assert.Equal(t, "text", c.Kind, name)
		assert.Contains(t, c.Notes, note)
	}
	assert.Equal(t, "integer", column(t, p, "plain").Kind)
	cells, _, _ := Records("t.csv", []byte("zip\n02116\n"), Options{})
	assert.Equal(t, "02116", cells[1][0])
}

func TestAColumnIsJudgedOverTheWholeFileWhateverItsSize(t *testing.T) {
	t.Parallel()
	for _, n := range []int{30, 3_000, 300_000} {
		var b strings.Builder
		b.WriteString("mixed,id\n")
		for i := range n {
			value := "1"
			if i >= n/3 && i < 2*n/3 {
				value = "X"
			}
			id := fmt.Sprint(i)
			if i == n-1 {
				id = "None"
			}
			fmt.Fprintf(&b, "%s,%s\n", value, id)
		}
		p := inspect(b.String(), Options{})
		assert.Equal(t, "text", column(t, p, "mixed").Kind)
		assert.Equal(t, 2, column(t, p, "mixed").Distinct, n)
		assert.Equal(t, "text", column(t, p, "id").Kind)
		assert.Equal(t, n, column(t, p, "id").Distinct)
		assert.Equal(t, n, p.Rows)
	}
}

func TestTheFirstByteOfAnotherEncodingIsFoundAfterManyPlainOnes(t *testing.T) {
	t.Parallel()
	plain := "name,n\n" + strings.Repeat("abc,1\n", 900)
	for encoding, tail := range map[string]string{
		"shift-jis": must(japanese.ShiftJIS.NewEncoder().String("東京,2\n")),
		"latin-1":   must(charmap.ISO8859_1.NewEncoder().String("añejo,2\n")),
	} {
		p := inspect(plain+tail, Options{})
		f, fatal := p.Fatal()
		require.True(t, fatal)
		assert.GreaterOrEqual(t, f.Offset, int64(len(plain)))
		assert.Contains(t, f.Text, encoding)
		declared := inspect(plain+tail, Options{Encoding: encoding})
		assert.Empty(t, declared.Findings)
		assert.Equal(t, 901, declared.Rows)
	}
	wrong := inspect(plain+"\x81\x20,1\n", Options{Encoding: "cp932"})
	f, fatal := wrong.Fatal()
	require.True(t, fatal)
	assert.Equal(t, int64(len(plain)), f.Offset)
	assert.Contains(t, f.Text, "not shift-jis at byte")
}

func must(s string, err error) string {
	if err != nil {
		panic(err)
	}
	return s
}

func TestADelimiterIsFoundOverTheWholeFileOrRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		o          Options
		columns    []string
		findings   []string
	}{
		{"semicolons with commas in text and a short header", "a;b\n1;x, y;z\n2;u;w\n3;p;q\n", Options{}, []string{"a", "b"}, []string{
			"the delimiter is a semicolon, not a comma: a reader with default settings sees other columns",
			"line 1: the header has 2 names, every row more (line 2 has 3 fields): readers shift the columns",
		}},
		{"pipes in labels of a comma file", "name,label\nx,a|b\ny,c\n", Options{}, []string{"name", "label"}, []string{}},
		{"a decimal comma", "a;b\n1,5;2\n2,5;3\n", Options{}, []string{"a", "b"}, []string{
			"the delimiter is a semicolon, not a comma: a reader with default settings sees other columns",
		}},
		{"a decimal comma also in the header", "a,1;b\n1,5;2\n2,5;3\n", Options{}, []string{}, []string{
			"several delimiters suit every line (a comma gives 2 columns, a semicolon gives 2 columns): declare the right one",
		}},
		{"the same, declared", "a,1;b\n1,5;2\n2,5;3\n", Options{Delimiter: ';'}, []string{"a,1", "b"}, []string{}},
		{"one wide column", "a;b\nx\ny\n", Options{}, []string{"a;b"}, []string{"line 1: one column only, though the header holds a semicolon"}},
		{"one plain column", "a\nx\ny\n", Options{}, []string{"a"}, []string{}},
		{"14 names and a trailing comma on every row", "a,b\n1,2,\n3,4,\n", Options{}, []string{"a", "b"}, []string{
			"line 1: the header has 2 names, every row more (line 2 has 3 fields): readers shift the columns",
		}},
		{"some ragged rows", "a,b\n1,2\n3\n4,5,6\n7,8\n", Options{}, []string{"a", "b"}, []string{"line 3: 2 of 4 rows do not have the header's 2 fields; this one has 1"}},
		{"a quote that never closes", "a,b\n1,\"2\n3,4\n", Options{}, []string{}, []string{"line 2: a quoted field starts here and never ends"}},
		{"duplicate names", "a,b, a\n1,2,3\n", Options{}, []string{"a", "b", "a"}, []string{`line 1: columns 1 and 3 are both called "a": readers rename or drop one`, `line 1: blanks around names: " a"`}},
		{"no header", "1,2\n3,4\n", Options{}, []string{"1", "2"}, []string{"line 1: every name is a number: the file may have no header"}},
		{"a header that is not there", "a,b\n1,2\n", Options{Header: 9}, []string{}, []string{"line 9: declared as the header, but no record starts there"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := inspect(c.text, c.o)
			assert.Equal(t, c.findings, texts(p))
			assert.Equal(t, c.columns, names(p))
		})
	}
}

func TestADecimalCommaIsNoNumber(t *testing.T) {
	t.Parallel()
	p := inspect("a;b\n1,5;2\n2,5;3\n", Options{})
	assert.Equal(t, Column{Name: "a", Kind: "text", Distinct: 2, Notes: []string{"2 of 2 cells have a decimal comma"}}, p.Columns[0])
}

func TestATableWiderThanAnyOfTheCollectedOnesIsRead(t *testing.T) {
	t.Parallel()
	var header, row []string
	for i := range 500 {
		header, row = append(header, fmt.Sprintf("c%d", i)), append(row, fmt.Sprint(i))
	}
	p := inspect(strings.Join(header, ",")+"\n"+strings.Join(row, ",")+"\n", Options{})
	assert.Len(t, p.Columns, 500)
	assert.Empty(t, p.Findings)
	assert.Equal(t, "c499", p.Columns[499].Name)
}

func TestAVeryLongCellIsMentioned(t *testing.T) {
	t.Parallel()
	notes := ""
	for _, c := range file(t, "testdata/train_new_ocr_29.csv", Options{}).Columns {
		notes += strings.Join(c.Notes, "\n")
	}
	assert.Contains(t, notes, "1 cells are longer than 32767 characters (longest 38480)")
	assert.Contains(t, notes, "have more than 15 digits: kept as text")
}

func TestWhatIsNoTableIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{"notes.md": "text", "fees.json": "text"} {
		p := Inspect(name, []byte(`{"a": null}`), Options{})
		assert.Equal(t, kind, p.Kind)
		assert.Empty(t, p.Findings)
	}
	assert.Equal(t, Profile{Kind: "binary"}, Inspect("x.npy", []byte("\x93NUMPY\x00"), Options{}))
	unknown := inspect("a,b\n", Options{Encoding: "klingon"})
	f, _ := unknown.Fatal()
	assert.Contains(t, f.Text, `encoding "klingon" is not one of gb18030, latin-1`)
}

func FuzzInspectNeverPanicsAndEveryRowIsCounted(f *testing.F) {
	for _, seed := range []string{"a,b\n1,2\n", "\ufeffa;b\r\n\"x\ny\";2", "\xff\xfea\x00", "\"", "a\rb\r", ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cells, lines, p := Records("t.csv", data, Options{})
		if _, fatal := p.Fatal(); fatal {
			return
		}
		require.Len(t, cells, p.Rows+1)
		require.Len(t, lines, len(cells))
	})
}

func TestCellsThatStandForAMissingValueAreCounted(t *testing.T) {
	t.Parallel()
	p := inspect("a,b\n1, ?\n-,Not Available\n3,x\n", Options{})
	assert.Equal(t, []string{"1 of 3 cells stand for a missing value"}, p.Columns[0].Notes)
	assert.Equal(t, []string{"2 of 3 cells stand for a missing value", "1 of 3 cells have blanks around the value"}, p.Columns[1].Notes)
}
