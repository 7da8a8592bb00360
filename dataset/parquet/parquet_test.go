package parquet

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	pq "github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset"
)

func testMeta() dataset.Meta {
	return dataset.Meta{
		Run: "run", Model: "model", TokenizerSHA256: "aa", ChatTemplateSHA256: "bb", PadTokenID: 7,
		RewardPreset: "default", RewardHash: "cc", PromptLength: 16, ResponseLength: 32, OverlongOwner: dataset.OverlongNone,
	}
}

// testRows has groups of two rows each, with awkward values.
func testRows(groups int) []dataset.Row {
	share := float32(0.5)
	experts := []byte{0, 255, 1}
	trace := "4bf92f3577b34da6a3ce929d0e0e4736"
	var rows []dataset.Row
	for g := range groups {
		for s := range 2 {
			r := dataset.Row{
				RowIdx: int32(len(rows)), UID: string(rune('a'+g)) + "-0", SessionID: int32(s), RolloutID: "run/x/0",
				DataSource: "dabench", PromptID: "日本 \"q\"", PromptIDs: []int32{0, math.MaxInt32, 5},
				ResponseIDs: []int32{math.MinInt32, 2, 3}, ResponseMask: []int8{1, 0, 1},
				RolloutLogProbs: []float32{-math.SmallestNonzeroFloat32, 0, -17.125},
				Spans: []dataset.Span{
					{Start: 0, End: 1, Kind: "sampled", PolicyVersion: 1 << 40, PolicyVersionEnd: 1<<40 + 1},
					{Start: 1, End: 2, Kind: "template"},
					{Start: 2, End: 3, Kind: "sampled", Turn: 1},
				},
				Reward: -0.3, Score: 1.25, TurnRewards: []float32{0.5, -0.25}, RewardStatus: "ok", LossValid: true,
				PolicyVersionMax: math.MaxInt64, TerminationReason: "submitted", MessagesJSON: "[]", GraphJSON: "{}",
			}
			if s == 1 {
				r.TurnRewards, r.TraceID = []float32{}, &trace
				r.GroundingStructural, r.RoutedExperts = &share, &experts
			}
			rows = append(rows, r)
		}
	}
	return rows
}

func TestABatchReadsBackBitForBit(t *testing.T) {
	t.Parallel()
	rows := testRows(3)
	var b bytes.Buffer
	require.NoError(t, Write(&b, testMeta(), rows))
	meta, back, err := Read(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.NoError(t, err)
	assert.Equal(t, testMeta(), meta)
	assert.Empty(t, cmp.Diff(rows, back))
}

func TestTheSchemaIsTheDocumentedOne(t *testing.T) {
	t.Parallel()
	want := `message Row {
	required int32 row_idx (INT(32,true));
	required binary uid (STRING);
	required int32 session_id (INT(32,true));
	required int32 output_idx (INT(32,true));
	required binary rollout_id (STRING);
	required int32 attempt (INT(32,true));
	optional binary trace_id (STRING);
	required binary data_source (STRING);
	required binary prompt_id (STRING);
	required boolean validate;
	required group prompt_ids (LIST) {
		repeated group list {
			required int32 element (INT(32,true));
		}
	}
	required group response_ids (LIST) {
		repeated group list {
			required int32 element (INT(32,true));
		}
	}
	required group response_mask (LIST) {
		repeated group list {
			required int32 element (INT(8,true));
		}
	}
	required group rollout_log_probs (LIST) {
		repeated group list {
			required float element;
		}
	}
	required group spans (LIST) {
		repeated group list {
			required group element {
				required int32 start (INT(32,true));
				required int32 end (INT(32,true));
				required binary kind (STRING);
				required int32 turn (INT(32,true));
				required int64 policy_version (INT(64,true));
				required int64 policy_version_end (INT(64,true));
			}
		}
	}
	required float reward;
	required float score;
	required float acc;
	required float seq_reward;
	required float seq_final_reward;
	required float overlong_reward;
	required float r_process;
	required float r_infer;
	required float r_outcome;
	required float r_penalty;
	required group turn_rewards (LIST) {
		repeated group list {
			required float element;
		}
	}
	optional float grounding_structural;
	optional float grounding_replayed;
	optional float grounding_lexical;
	optional float grounding_supported;
	required binary reward_status (STRING);
	required boolean loss_valid;
	optional binary routed_experts;
	required int32 num_turns (INT(32,true));
	required int32 tool_calls (INT(32,true));
	required int32 tool_errors (INT(32,true));
	required int32 num_preempted (INT(32,true));
	required int64 policy_version_min (INT(64,true));
	required int64 policy_version_max (INT(64,true));
	required binary termination_reason (STRING);
	required float t_generate_s;
	required float t_tool_s;
	required float t_score_s;
	required binary messages_json (STRING);
	required binary graph_json (STRING);
}`
	assert.Equal(t, want, Schema().String())
}

func TestColumnsUseTheEncodingsThatSuitThem(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, Write(&b, testMeta(), testRows(1)))
	file, err := pq.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, chunk := range file.Metadata().RowGroups[0].Columns {
		name := chunk.MetaData.PathInSchema[0]
		assert.Equal(t, "ZSTD", chunk.MetaData.Codec.String(), name)
		for _, e := range chunk.MetaData.Encoding {
			seen[name+" "+e.String()] = true
		}
	}
	assert.True(t, seen["prompt_ids PLAIN"], seen)
	assert.True(t, seen["response_ids PLAIN"])
	assert.True(t, seen["rollout_log_probs BYTE_STREAM_SPLIT"])
}

// TestATextIsNotStoredAgainAsAStatistic: the least and the greatest conversation of each page cost a tenth of a batch.
func TestATextIsNotStoredAgainAsAStatistic(t *testing.T) {
	t.Parallel()
	rows := testRows(1)
	rows[0].MessagesJSON, rows[0].GraphJSON = `["marker-of-messages"]`, `["marker-of-graph"]`
	rows[1].MessagesJSON, rows[1].GraphJSON = rows[0].MessagesJSON, rows[0].GraphJSON
	var b bytes.Buffer
	require.NoError(t, Write(&b, testMeta(), rows))
	assert.LessOrEqual(t, bytes.Count(b.Bytes(), []byte("marker-of-messages")), 1)
	assert.LessOrEqual(t, bytes.Count(b.Bytes(), []byte("marker-of-graph")), 1)
}

func TestARowGroupHoldsWholeGroupsOnly(t *testing.T) {
	t.Parallel()
	rows := testRows(5)
	var b bytes.Buffer
	require.NoError(t, write(&b, testMeta(), rows, 13)) // a group has 12 ids, so two groups fill one
	file, err := pq.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.NoError(t, err)
	var counts []int64
	for _, rg := range file.RowGroups() {
		counts = append(counts, rg.NumRows())
	}
	assert.Equal(t, []int64{4, 4, 2}, counts)
}

// TestAFileThatAnotherWriterMadeOfTheSameColumnsIsRead: dictionaries, a row over several pages, empty lists.
func TestAFileThatAnotherWriterMadeOfTheSameColumnsIsRead(t *testing.T) {
	t.Parallel()
	rows := testRows(4)
	rows[2].PromptIDs, rows[2].ResponseIDs, rows[2].ResponseMask, rows[2].RolloutLogProbs = []int32{}, []int32{}, []int8{}, []float32{}
	rows[5].ResponseIDs = make([]int32, 3000)
	for i := range rows[5].ResponseIDs {
		rows[5].ResponseIDs[i] = int32(i % 7)
	}
	var b bytes.Buffer
	options := []pq.WriterOption{pq.DefaultEncodingFor(pq.Int32, &pq.RLEDictionary), pq.PageBufferSize(64), pq.DataPageVersion(1)}
	for _, kv := range testMeta().KeyValues() {
		options = append(options, pq.KeyValueMetadata(kv.Key, kv.Value))
	}
	w := pq.NewGenericWriter[dataset.Row](&b, options...)
	for _, r := range rows {
		_, err := w.Write([]dataset.Row{r})
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	file, err := pq.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.NoError(t, err)
	leaf, _ := file.Schema().Lookup("response_ids", "list", "element")
	assert.Contains(t, fmt.Sprint(file.Metadata().RowGroups[0].Columns[leaf.ColumnIndex].MetaData.Encoding), "DICTIONARY")
	_, back, err := Read(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff(rows, back))
}

// TestALongBatchOfManyRowGroupsReadsBackBitForBit: lists of a real length, over many pages.
func TestALongBatchOfManyRowGroupsReadsBackBitForBit(t *testing.T) {
	t.Parallel()
	rows := testRows(6)
	for i := range rows {
		n := 40_000 + i
		rows[i].ResponseIDs, rows[i].ResponseMask, rows[i].RolloutLogProbs = make([]int32, n), make([]int8, n), make([]float32, n)
		for k := range n {
			rows[i].ResponseIDs[k], rows[i].ResponseMask[k], rows[i].RolloutLogProbs[k] = int32(k*i), int8(k%2), -float32(k)
		}
	}
	var b bytes.Buffer
	require.NoError(t, write(&b, testMeta(), rows, 100_000))
	_, back, err := Read(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.NoError(t, err)
	assert.True(t, cmp.Equal(rows, back))
}

func TestBrokenBatchesAreRefused(t *testing.T) {
	t.Parallel()
	torn := testRows(2)
	torn[1].UID, torn[2].UID = torn[2].UID, torn[1].UID
	misnumbered := testRows(1)
	misnumbered[1].RowIdx = 0
	noOwner := testMeta()
	noOwner.OverlongOwner = ""
	for _, c := range []struct {
		name string
		meta dataset.Meta
		rows []dataset.Row
		want string
	}{
		{"no rows", testMeta(), nil, "no rows"},
		{"a group torn apart", testMeta(), torn, "torn apart"},
		{"wrong numbers", testMeta(), misnumbered, "row 1: row_idx 0 after 0"},
		{"no owner of overlong shaping", noOwner, testRows(1), "overlong_owner"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			require.ErrorContains(t, Write(&b, c.meta, c.rows), c.want)
			assert.Zero(t, b.Len())
		})
	}
}

func TestAFileOfAnotherSchemaIsRefused(t *testing.T) {
	t.Parallel()
	type other struct {
		UID string `parquet:"uid"`
	}
	var b bytes.Buffer
	options := []pq.WriterOption{}
	for _, kv := range testMeta().KeyValues() {
		options = append(options, pq.KeyValueMetadata(kv.Key, kv.Value))
	}
	w := pq.NewGenericWriter[other](&b, options...)
	_, err := w.Write([]other{{"a-0"}})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	_, _, err = Read(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.ErrorContains(t, err, "columns are not those of schema version 1")
	_, _, err = Read(bytes.NewReader(b.Bytes()[:b.Len()-1]), int64(b.Len()-1))
	require.Error(t, err, "a truncated file")
}
