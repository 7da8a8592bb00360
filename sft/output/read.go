package output

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	pq "github.com/parquet-go/parquet-go"
)

// ReadVerl reads a file for verl row by row.
func ReadVerl(path string) iter.Seq2[VerlRow, error] { return readParquet[VerlRow](path) }

// ReadTokenized reads a file of ids row by row.
func ReadTokenized(path string) iter.Seq2[TokenizedRow, error] {
	return readParquet[TokenizedRow](path)
}

func readParquet[T any](path string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		f, err := os.Open(path)
		if err != nil {
			yield(zero, err)
			return
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			yield(zero, err)
			return
		}
		file, err := pq.OpenFile(f, info.Size())
		if err != nil {
			yield(zero, fmt.Errorf("%s: %w", path, err))
			return
		}
		if !pq.EqualNodes(file.Schema(), pq.SchemaOf(zero)) {
			yield(zero, fmt.Errorf("%s: the columns are not those of this version", path))
			return
		}
		in := pq.NewGenericReader[T](file)
		defer in.Close()
		buf := make([]T, 64)
		for {
			clear(buf)
			n, err := in.Read(buf)
			for _, row := range buf[:n] {
				if !yield(row, nil) {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(zero, fmt.Errorf("%s: %w", path, err))
				return
			}
		}
	}
}
