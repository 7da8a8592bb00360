package jetstream_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/jetstream"
)

// BenchmarkReadLog is what a new leader does first: one entry of 200 bytes.
func BenchmarkReadLog(b *testing.B) {
	const entries = 20_000
	f := open(b, jetstream.Defaults())
	log, _, err := jetstream.OpenLog[item](b.Context(), f.bus, jetstream.Ledger, "r1")
	require.NoError(b, err)
	for n := range entries {
		require.NoError(b, log.Append(b.Context(), item{N: n, Text: "text of the length that an event of the ledger has; it names a dispatch, its prompt, its reason and its time, which is about 200 bytes"}))
	}
	for b.Loop() {
		_, got, err := jetstream.OpenLog[item](b.Context(), f.bus, jetstream.Ledger, "r1")
		require.NoError(b, err)
		require.Len(b, got, entries)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/entries, "us/entry")
}
