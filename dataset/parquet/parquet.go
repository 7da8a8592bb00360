// Package parquet writes and reads batches: one file of dataset.Row with a fixed schema. A group is
// never split over row groups, so that a reader of one row group holds complete groups only.
package parquet

import (
	"errors"
	"fmt"
	"io"
	"runtime"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/dataset"
)

// rowGroupTokens is the number of token ids after which the next group starts a new row group; with
// ids and log-probs this is about 32 MiB unpacked.
const rowGroupTokens = 4 << 20

// pageTokens is the number of response ids after which a page ends; pageBytes holds such a page of every list,
// levels included, so that the library does not end it earlier, by itself and one column at a time.
const (
	pageTokens = 512 << 10
	pageBytes  = 4 << 20
)

// codec keeps its encoders between files.
var codec = zstd.Codec{Level: zstd.SpeedFastest}

// Schema is the schema of every file.
func Schema() *pq.Schema { return pq.SchemaOf(dataset.Row{}) }

// Write writes one batch. Rows of a group must stand together and be numbered without gaps.
func Write(w io.Writer, meta dataset.Meta, rows []dataset.Row) error {
	return write(w, meta, rows, rowGroupTokens)
}

func write(w io.Writer, meta dataset.Meta, rows []dataset.Row, groupTokens int) error {
	if err := meta.Validate(); err != nil {
		return fmt.Errorf("parquet: write: %w", err)
	}
	ends, err := groupEnds(rows, groupTokens)
	if err != nil {
		return fmt.Errorf("parquet: write: %w", err)
	}
	options := []pq.WriterOption{
		pq.Compression(&codec), pq.PageBufferSize(pageBytes),
		// The least and the greatest text of a page are two whole conversations, several times over.
		pq.DataPageStatistics(false),
		pq.CreatedBy("verigraph", fmt.Sprint(dataset.SchemaVersion), ""),
	}
	for _, path := range unordered {
		options = append(options, pq.SkipPageBounds(path...))
	}
	for _, kv := range meta.KeyValues() {
		options = append(options, pq.KeyValueMetadata(kv.Key, kv.Value))
	}
	out := pq.NewGenericWriter[dataset.Row](w, options...)
	start := 0
	for _, end := range ends {
		if err := writeRowGroup(out, rows[start:end]); err != nil {
			return fmt.Errorf("parquet: write: %w", err)
		}
		start = end
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("parquet: write: %w", err)
	}
	return nil
}

// unordered are the columns of which nobody asks for a range.
var unordered = [][]string{
	{"prompt_ids", "list", "element"},
	{"response_ids", "list", "element"},
	{"response_mask", "list", "element"},
	{"rollout_log_probs", "list", "element"},
	{"messages_json"},
	{"graph_json"},
}

func writeRowGroup(out *pq.GenericWriter[dataset.Row], rows []dataset.Row) error {
	for len(rows) > 0 {
		n, tokens := 0, 0
		for ; n < len(rows) && tokens < pageTokens; n++ {
			tokens += len(rows[n].ResponseIDs)
		}
		if _, err := out.Write(rows[:n]); err != nil {
			return err
		}
		if err := flushColumns(out.ColumnWriters()); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return out.Flush()
}

// flushColumns encodes and compresses the pages of all columns, each by itself, on all cores.
func flushColumns(columns []*pq.ColumnWriter) error {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, c := range columns {
		g.Go(c.Flush)
	}
	return g.Wait()
}

// groupEnds returns where row groups end, always at the end of a uid.
func groupEnds(rows []dataset.Row, groupTokens int) ([]int, error) {
	if len(rows) == 0 {
		return nil, errors.New("no rows")
	}
	var ends []int
	seen := map[string]bool{}
	tokens := 0
	for i, r := range rows {
		if i == 0 || r.UID != rows[i-1].UID {
			if seen[r.UID] {
				return nil, fmt.Errorf("row %d: group %s is torn apart", i, r.UID)
			}
			seen[r.UID] = true
			if tokens >= groupTokens {
				ends, tokens = append(ends, i), 0
			}
		} else if r.RowIdx != rows[i-1].RowIdx+1 {
			return nil, fmt.Errorf("row %d: row_idx %d after %d", i, r.RowIdx, rows[i-1].RowIdx)
		}
		tokens += len(r.PromptIDs) + len(r.ResponseIDs)
	}
	return append(ends, len(rows)), nil
}
