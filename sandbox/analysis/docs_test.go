package analysis_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var docsWrite = flag.Bool("docs.write", false, "write the tables of the docs instead of checking them")

const provenanceDocs = "../../docs/provenance.md"

// checkDocs compares a table with the one between its two marks in the docs.
func checkDocs(t testing.TB, name, table string) {
	t.Helper()
	if t.Failed() {
		return
	}
	data, err := os.ReadFile(provenanceDocs)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), "<!-- table: "+name+" -->\n")
	old, after, end := strings.Cut(rest, "<!-- end: "+name+" -->\n")
	if !ok || !end {
		t.Fatalf("%s has no marks of the table %s", provenanceDocs, name)
	}
	switch {
	case old == table:
	case *docsWrite:
		text := before + "<!-- table: " + name + " -->\n" + table + "<!-- end: " + name + " -->\n" + after
		if err := os.WriteFile(provenanceDocs, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table %s of %s is out of date; run the test with -args -docs.write. It should be:\n%s", name, provenanceDocs, table)
	}
}

func TestTheOraclesLastFullRunMetTheBar(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(oracleResults)
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| (\w+) \| \d+ \| \d+ \| \d+ \| (\d+) \| (\d+) \| (\d+) \| (\d+) \(`)
	rows := row.FindAllStringSubmatch(string(data), -1)
	if len(rows) != 3 {
		t.Fatalf("%s has %d rows, want corpus, dabench and dabstep", oracleResults, len(rows))
	}
	for _, r := range rows {
		var n [4]int
		for i := range n {
			if n[i], err = strconv.Atoi(r[i+2]); err != nil {
				t.Fatal(err)
			}
		}
		due, missed, paths, spurious := n[0], n[1], n[2], n[3]
		if due == 0 || missed != 0 || 20*spurious > paths {
			t.Errorf("%s: %d due, %d missed, %d of %d paths spurious", r[1], due, missed, spurious, paths)
		}
	}
}

// Each construct that the pass may call untracked, by its own source, stands in the docs' table.
func TestEveryUntrackedConstructStandsInTheDocs(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile(provenanceDocs)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("python/*.py")
	if err != nil {
		t.Fatal(err)
	}
	reason := regexp.MustCompile(`(?:untracked\.add\(|trouble = )"([^":]+)"`)
	paths := regexp.MustCompile(`(?s)UNTRACKED_PATHS = \((.*?)\)`)
	found := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, m := range reason.FindAllStringSubmatch(string(source), -1) {
			want = append(want, m[1])
		}
		if m := paths.FindStringSubmatch(string(source)); m != nil {
			for _, p := range strings.Split(m[1], ",") {
				want = append(want, strings.Trim(p, " .\"\n"))
			}
		}
		for _, construct := range want {
			found++
			if !strings.Contains(string(docs), "`"+construct+"`") {
				t.Errorf("%s: %s has no row for %q", file, provenanceDocs, construct)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d constructs found in the sources", found)
	}
}
