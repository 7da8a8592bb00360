package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryOfThisProcessIsBetweenItsHeapAndItsResidentSize(t *testing.T) {
	t.Parallel()
	block := make([]byte, 64<<20)
	for i := range block {
		block[i] = byte(i)
	}
	got := treeMemory(os.Getpid())
	require.Greater(t, got, int64(len(block)))
	require.Less(t, got, int64(64<<30))
	require.NotZero(t, block[1])
}
