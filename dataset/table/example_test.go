package table_test

import (
	"fmt"

	"github.com/verigraph/verigraph/dataset/table"
)

// A profile says what a reader would stumble over before a policy does.
func ExampleInspect() {
	p := table.Inspect("eu.csv", []byte("name;fare\r\nA;34,0\r\nB;35,3\r\n"), table.Options{})
	fmt.Printf("%s %s %q %s %d rows\n", p.Kind, p.Encoding, p.Delimiter, p.LineEnd, p.Rows)
	// Output:
	// table utf-8 ";" crlf 2 rows
}
