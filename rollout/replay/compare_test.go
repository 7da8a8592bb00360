package replay

import (
	"fmt"
	"testing"
	"time"

	"github.com/verigraph/verigraph/evidence"
)

func TestOnlyReadingsOfTheClockAddressesAndPathsMayDiffer(t *testing.T) {
	t.Parallel()
	began := time.Date(2030, 5, 6, 12, 0, 0, 0, time.UTC)
	ended := began.Add(10 * time.Second)
	for _, c := range []struct {
		name             string
		stored, replayed string
		same             bool
	}{
		{"equal texts", "mean 34.65", "mean 34.65", true},
		{"another number", "mean 34.65", "mean 34.66", false},
		{"another word", "mean", "median", false},
		{"an address", "<X at 0x7f0012345678>", "<X at 0x7f0087654321>", true},
		{"an address for a path", "<X at 0x7f0012345678>", "<X at /tmp/a>", false},
		{"a scratch path", "in /tmp/abc1", "in /tmp/xyz2/f", true},
		{"a path outside the session", "in /home/a", "in /home/b", false},
		{"a time that was read", "at 2030-05-05 08:00:00.123", "at 2030-05-06 12:00:05.9", true},
		{"a time with T", "at 2030-05-05T08:00:00", "at 2030-05-06T12:00:05", true},
		{"a day that was read", "on 2030-05-05", "on 2030-05-06", true},
		{"a clock without a day", "08:00:00", "12:00:05", true},
		{"seconds since 1970", "1904212805.5", "1904299205.25", true},
		{"a day of the data", "on 2015-03-07", "on 2015-03-08", false},
		{"a forged day", "on 2030-05-06", "on 2015-03-08", false},
		{"a clock of the data", "at 08:00:00", "at 09:30:00", false},
		{"a big number that is no time", "1500000001", "1500000002", false},
		{"one token more", "at 2030-05-06 12:00:05 and 2030-05-06", "at 2030-05-06 12:00:05", false},
		{"a number beside a clock", "3 rows at 2030-05-05 08:00:00", "4 rows at 2030-05-06 12:00:05", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := SameText(c.stored, c.replayed, began, ended); got != c.same {
				t.Errorf("SameText(%q, %q) = %v", c.stored, c.replayed, got)
			}
		})
	}
}

func TestEveryChangeAltersATableAndIsRepeatable(t *testing.T) {
	t.Parallel()
	text := "a;b;c\n"
	for range 30 {
		text += "1,5;x;$1,200.50\n2,5;y;30%\n"
	}
	table, ok := parseTable("t.csv", []byte(text))
	if !ok || table.comma != ';' || len(table.rows) != 60 || len(table.header) != 3 {
		t.Fatalf("parsed %+v", table)
	}
	table.spelt = spells([]evidence.CellInfo{{Code: "x = df[(df.a == 7) & (df['b'] == \"z\")]"}})
	if got := fmt.Sprint(table.spelt); got != "{[7] [b z]}" {
		t.Errorf("the code spells %s", got)
	}
	for _, kind := range changeKinds {
		once, twice := string(table.changed(kind)), string(table.changed(kind))
		if once != twice {
			t.Errorf("change %d gives two results", kind)
		}
		if once == text {
			t.Errorf("change %d alters nothing", kind)
		}
	}
	for name, data := range map[string]string{"t.xlsx": text, "t.csv": "\xff\xfea\x00b\x00", "one.csv": "a,b\n", "empty.csv": ""} {
		if _, ok := parseTable(name, []byte(data)); ok {
			t.Errorf("%s counts as a table", name)
		}
	}
}

func TestANumberHasMovedWhenAGraderWouldSeeIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"34.65", "34.65", true},
		{"34.65", "34.6500001", true},
		{"34.65", "34.66", false},
		{"1,234.5", "1,234.5000001", true},
		{"0.0", "0.0", true},
		{"0", "1e-9", false},
		{"[1, 2]", "[1, 2, 3]", false},
		{"[1, 2]", "[1, 3]", false},
		{"3 days", "3 hours", false},
		{"nan", "nan", true},
		{"1e-05", "0.00001", true},
	} {
		if got := unmoved(c.a, c.b); got != c.same {
			t.Errorf("unmoved(%q, %q) = %v", c.a, c.b, got)
		}
	}
}
