package analysis_test

import (
	"flag"
	"os"
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
