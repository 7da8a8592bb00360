package parquet

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	pq "github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset"
)

var update = flag.Bool("update", false, "write the batch that the Python client's tests read")

// goldenDir holds a batch written by this package and the same rows as JSON. The Python client's tests
// compare the two, so that both languages are known to read the same values.
const goldenDir = "../../clients/python/tests/data"

// goldenRows adds to the awkward rows of testRows a rollout of two segments and one without a reward.
func goldenRows() []dataset.Row {
	rows := testRows(2)
	for i := range rows {
		rows[i].TraceID = nil // batch-delta.parquet is older than the column
	}
	rows[1].ResponseMask, rows[1].LossValid = []int8{0, 0, 0}, false
	rows[1].RolloutLogProbs, rows[1].RewardStatus = []float32{0, 0, 0}, "lost"
	rows[1].Spans = []dataset.Span{{Start: 0, End: 3, Kind: "template"}}
	segment := rows[3]
	segment.OutputIdx, segment.RowIdx = 1, 4
	segment.PromptIDs = []int32{9}
	segment.ResponseIDs = []int32{1, 2, 3, 4, 5, 6}
	segment.ResponseMask = []int8{0, 1, 1, 0, 0, 1}
	segment.RolloutLogProbs = []float32{0, -1e-30, -0.1, 0, 0, -3.25}
	segment.Spans = []dataset.Span{
		{Start: 0, End: 1, Kind: "observation"},
		{Start: 1, End: 3, Kind: "sampled", Turn: 1},
		{Start: 3, End: 5, Kind: "template"},
		{Start: 5, End: 6, Kind: "sampled", Turn: 2},
	}
	return append(rows, segment)
}

// columns gives rows under their column names, as the Parquet file has them.
func columns(t *testing.T, rows []dataset.Row) []map[string]any {
	t.Helper()
	schema := Schema()
	out := make([]map[string]any, len(rows))
	for i, row := range rows {
		out[i] = map[string]any{}
		value := reflectFields(row)
		for _, field := range schema.Fields() {
			out[i][field.Name()] = value[field.Name()]
		}
	}
	return out
}

func TestTheBatchThatThePythonTestsReadIsWhatThisPackageWrites(t *testing.T) {
	t.Parallel()
	rows := goldenRows()
	asJSON, err := json.MarshalIndent(columns(t, rows), "", " ")
	require.NoError(t, err)
	batchFile, jsonFile := filepath.Join(goldenDir, "batch.parquet"), filepath.Join(goldenDir, "batch.json")
	if *update {
		var b bytes.Buffer
		require.NoError(t, Write(&b, testMeta(), rows))
		require.NoError(t, os.WriteFile(batchFile, b.Bytes(), 0o644))
		require.NoError(t, os.WriteFile(jsonFile, append(asJSON, '\n'), 0o644))
	}
	stored, err := os.ReadFile(jsonFile)
	require.NoError(t, err)
	require.JSONEq(t, string(asJSON), string(stored))
	data, err := os.ReadFile(batchFile)
	require.NoError(t, err)
	meta, back, err := Read(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, testMeta(), meta)
	require.Empty(t, cmp.Diff(rows, back))
	var now bytes.Buffer
	require.NoError(t, Write(&now, testMeta(), rows))
	require.Equal(t, encodings(t, now.Bytes()), encodings(t, data), "run go test ./dataset/parquet -update")
}

func TestAFileFromBeforeAChangeOfEncodingsStillReads(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(goldenDir, "batch-delta.parquet"))
	require.NoError(t, err)
	require.Contains(t, encodings(t, data)["response_ids"], "DELTA_BINARY_PACKED")
	meta, back, err := Read(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, testMeta(), meta)
	require.Empty(t, cmp.Diff(goldenRows(), back))
}

// encodings of each column of a file.
func encodings(t *testing.T, data []byte) map[string]string {
	t.Helper()
	file, err := pq.OpenFile(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	of := map[string]string{}
	for _, chunk := range file.Metadata().RowGroups[0].Columns {
		of[chunk.MetaData.PathInSchema[0]] = fmt.Sprint(chunk.MetaData.Codec, chunk.MetaData.Encoding)
	}
	return of
}
