// Package table looks at a data file the way a careful person would before handing it to an agent:
// which encoding, which delimiter, which header, which columns.
//
// Invariants. The whole file is read, never a first chunk. Nothing is guessed in silence: what is not
// the plain case (UTF-8, comma, first line is the header) is either stated in a Finding or refused, and
// a refusal names what the user can declare. The file itself is never changed.
package table
