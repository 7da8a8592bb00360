package parquet

import (
	"bytes"
	"fmt"
	"go/build"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset"
)

// benchRows are 64 rows of 8,192 tokens in groups of eight, about as a run makes them: the ids are pieces of
// words of Go's own sources, numbered like a vocabulary of 151,936 (frequent ones low); about three of ten
// response ids are observations with log-prob 0; most sampled tokens are nearly certain.
func benchRows(tb testing.TB) []dataset.Row {
	tb.Helper()
	const prompt, response = 1024, 7168
	var text strings.Builder
	for _, dir := range []string{"net", "go", "encoding", "crypto", "compress", "debug"} {
		require.NoError(tb, filepath.WalkDir(filepath.Join(build.Default.GOROOT, "src", dir), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			data, err := os.ReadFile(path)
			text.Write(data)
			return err
		}))
	}
	r := rand.New(rand.NewPCG(1, 2))
	words := regexp.MustCompile(` ?[A-Za-z]{1,6}|[0-9]|\s+|.`).FindAllString(text.String(), -1)
	vocabulary := map[string]int32{}
	ids := make([]int32, len(words))
	for i, w := range words {
		if _, known := vocabulary[w]; !known {
			n := len(vocabulary)
			vocabulary[w] = min(151_935, int32(n*12+r.IntN(n*12+100)))
		}
		ids[i] = vocabulary[w]
	}
	used := 0
	cut := func(n int) []int32 { // no text twice
		used += n
		return ids[used-n : used]
	}
	rows := make([]dataset.Row, 64)
	for i := range rows {
		if i%8 == 0 {
			rows[i].PromptIDs = cut(prompt)
		} else {
			rows[i].PromptIDs = rows[i-1].PromptIDs
		}
		row := &rows[i]
		row.RowIdx, row.UID, row.SessionID = int32(i), fmt.Sprintf("%d-0", i/8), int32(i%8)
		row.RolloutID, row.DataSource, row.RewardStatus, row.LossValid = fmt.Sprintf("run/%d-0/%d", i/8, i%8), "dabench", "ok", true
		row.TerminationReason, row.TurnRewards, row.GraphJSON = "submitted", []float32{0.5, 0.5}, "{}"
		for at := 0; at < response; {
			sampled := min(response-at, 100+r.IntN(500))
			seen := min(response-at-sampled, 50+r.IntN(200))
			for range sampled {
				p := float32(-r.ExpFloat64())
				if r.IntN(10) < 7 {
					p *= 1e-3
				}
				row.ResponseMask, row.RolloutLogProbs = append(row.ResponseMask, 1), append(row.RolloutLogProbs, p)
			}
			row.ResponseMask = append(row.ResponseMask, make([]int8, seen)...)
			row.RolloutLogProbs = append(row.RolloutLogProbs, make([]float32, seen)...)
			row.Spans = append(row.Spans, dataset.Span{Start: int32(at), End: int32(at + sampled), Kind: "sampled", PolicyVersion: 3, PolicyVersionEnd: 3})
			if seen > 0 {
				row.Spans = append(row.Spans, dataset.Span{Start: int32(at + sampled), End: int32(at + sampled + seen), Kind: "observation"})
			}
			at += sampled + seen
		}
		row.ResponseIDs = cut(response)
		row.MessagesJSON = text.String()[i*24<<10 : (i+1)*24<<10]
	}
	return rows
}

// unpacked is what throughput is counted in: four bytes an id and a log-prob, one a mask, and the texts.
func unpacked(rows []dataset.Row) int64 {
	n := 0
	for _, r := range rows {
		n += 4*(len(r.PromptIDs)+len(r.ResponseIDs)+len(r.RolloutLogProbs)) + len(r.ResponseMask) + len(r.MessagesJSON)
	}
	return int64(n)
}

func BenchmarkWriteRowsOf8kTokens(b *testing.B) {
	rows := benchRows(b)
	b.SetBytes(unpacked(rows))
	var buf bytes.Buffer
	fastest(b, unpacked(rows), func() {
		buf.Reset()
		require.NoError(b, Write(&buf, testMeta(), rows))
	})
	b.ReportMetric(float64(buf.Len()), "file-bytes")
}

func BenchmarkReadRowsOf8kTokens(b *testing.B) {
	rows := benchRows(b)
	var buf bytes.Buffer
	require.NoError(b, Write(&buf, testMeta(), rows))
	b.SetBytes(unpacked(rows))
	fastest(b, unpacked(rows), func() {
		_, _, err := Read(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
		require.NoError(b, err)
	})
}

// fastest also reports the fastest round, as pyarrow's figures are.
func fastest(b *testing.B, bytes int64, round func()) {
	b.Helper()
	best := time.Hour
	for b.Loop() {
		start := time.Now()
		round()
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(bytes)/best.Seconds()/1e6, "best-MB/s")
}

// pyarrowScript reads the file and writes its table with the same encodings and compression.
const pyarrowScript = `
import io, sys, time
import pyarrow as pa, pyarrow.parquet as pq
data, size, rounds = open(sys.argv[1], "rb").read(), float(sys.argv[2]), int(sys.argv[3])
def best(f):
    times = []
    for _ in range(rounds):
        start = time.perf_counter(); f(); times.append(time.perf_counter() - start)
    return size / min(times) / 1e6
table = pq.read_table(io.BytesIO(data))
encodings = {"prompt_ids.list.element": "PLAIN", "response_ids.list.element": "PLAIN", "response_mask.list.element": "PLAIN",
             "rollout_log_probs.list.element": "BYTE_STREAM_SPLIT"}
def write(**how):
    out = io.BytesIO()
    pq.write_table(table, out, **how)
    return out
same = dict(compression="zstd", compression_level=1, use_dictionary=False, column_encoding=encodings)
plain = dict(compression="zstd", compression_level=1)
none = dict()
print(f"pyarrow {pa.__version__}: read {best(lambda: pq.read_table(io.BytesIO(data), use_threads=False)):.0f} MB/s on one thread,",
      f"{best(lambda: pq.read_table(io.BytesIO(data))):.0f} on all;",
      f"write {best(lambda: write(**same)):.0f} MB/s, {write(**same).tell()} bytes with our encodings,",
      f"{best(lambda: write(**plain)):.0f} MB/s, {write(**plain).tell()} bytes with its own and zstd,",
      f"{best(lambda: write(**none)):.0f} MB/s, {write(**none).tell()} bytes with all its defaults (Snappy); our file has {len(data)} bytes")
`

// BenchmarkPyarrowOnRowsOf8kTokens is pyarrow on the same rows, in the same run; its line has the figures.
func BenchmarkPyarrowOnRowsOf8kTokens(b *testing.B) {
	python, err := filepath.Abs("../../.venv/client/bin/python")
	require.NoError(b, err)
	rows := benchRows(b)
	var buf bytes.Buffer
	require.NoError(b, Write(&buf, testMeta(), rows))
	file := filepath.Join(b.TempDir(), "rows.parquet")
	require.NoError(b, os.WriteFile(file, buf.Bytes(), 0o600))
	for b.Loop() {
		out, err := exec.Command(python, "-c", pyarrowScript, file, fmt.Sprint(unpacked(rows)), "10").CombinedOutput()
		require.NoError(b, err, string(out))
		fmt.Print(string(out))
	}
}

// BenchmarkEncodings is what the choice of encodings rests on: each candidate on the ids, log-probs and masks
// of the same rows.
func BenchmarkEncodings(b *testing.B) {
	type plainInts struct {
		V []int32 `parquet:"v,list"`
	}
	type deltaInts struct {
		V []int32 `parquet:"v,list" parquet-element:",delta"`
	}
	type dictInts struct {
		V []int32 `parquet:"v,list" parquet-element:",dict"`
	}
	type splitInts struct {
		V []int32 `parquet:"v,list" parquet-element:",split"`
	}
	type plainFloats struct {
		V []float32 `parquet:"v,list"`
	}
	type dictFloats struct {
		V []float32 `parquet:"v,list" parquet-element:",dict"`
	}
	type splitFloats struct {
		V []float32 `parquet:"v,list" parquet-element:",split"`
	}
	type plainMask struct {
		V []int8 `parquet:"v,list"`
	}
	type deltaMask struct {
		V []int8 `parquet:"v,list" parquet-element:",delta"`
	}
	type dictMask struct {
		V []int8 `parquet:"v,list" parquet-element:",dict"`
	}
	rows := benchRows(b)
	ids := func(r dataset.Row) []int32 { return r.ResponseIDs }
	probs := func(r dataset.Row) []float32 { return r.RolloutLogProbs }
	mask := func(r dataset.Row) []int8 { return r.ResponseMask }
	encoding(b, "ids/plain", 4, rows, func(r dataset.Row) plainInts { return plainInts{ids(r)} })
	encoding(b, "ids/delta", 4, rows, func(r dataset.Row) deltaInts { return deltaInts{ids(r)} })
	encoding(b, "ids/dictionary", 4, rows, func(r dataset.Row) dictInts { return dictInts{ids(r)} })
	encoding(b, "ids/split", 4, rows, func(r dataset.Row) splitInts { return splitInts{ids(r)} })
	encoding(b, "logprobs/plain", 4, rows, func(r dataset.Row) plainFloats { return plainFloats{probs(r)} })
	encoding(b, "logprobs/dictionary", 4, rows, func(r dataset.Row) dictFloats { return dictFloats{probs(r)} })
	encoding(b, "logprobs/split", 4, rows, func(r dataset.Row) splitFloats { return splitFloats{probs(r)} })
	encoding(b, "mask/plain", 1, rows, func(r dataset.Row) plainMask { return plainMask{mask(r)} })
	encoding(b, "mask/delta", 1, rows, func(r dataset.Row) deltaMask { return deltaMask{mask(r)} })
	encoding(b, "mask/dictionary", 1, rows, func(r dataset.Row) dictMask { return dictMask{mask(r)} })
}

func encoding[T any](b *testing.B, name string, width int, from []dataset.Row, as func(dataset.Row) T) {
	rows, tokens := make([]T, len(from)), 0
	for i, r := range from {
		rows[i] = as(r)
		tokens += len(r.ResponseIDs)
	}
	write := func(b *testing.B, out io.Writer) {
		w := pq.NewGenericWriter[T](out, pq.Compression(&zstd.Codec{Level: zstd.SpeedFastest}))
		_, err := w.Write(rows)
		require.NoError(b, err)
		require.NoError(b, w.Close())
	}
	var file bytes.Buffer
	b.Run(name+"/write", func(b *testing.B) {
		b.SetBytes(int64(width * tokens))
		for b.Loop() {
			file.Reset()
			write(b, &file)
		}
		b.ReportMetric(float64(file.Len())/float64(tokens), "file-bytes/token")
	})
	b.Run(name+"/read", func(b *testing.B) {
		file.Reset()
		write(b, &file)
		back := make([]T, len(rows))
		b.SetBytes(int64(width * tokens))
		for b.Loop() {
			r := pq.NewGenericReader[T](bytes.NewReader(file.Bytes()))
			n, err := r.Read(back)
			if n != len(rows) {
				require.NoError(b, err)
			}
			require.NoError(b, r.Close())
		}
	})
}
