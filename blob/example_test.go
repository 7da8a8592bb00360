package blob_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/verigraph/verigraph/blob"
)

// Data files are addressed by their content; whoever fetches one gets what was put there, or an error.
func ExampleStore() {
	dir, err := os.MkdirTemp("", "blob")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	store, err := blob.Open(ctx, filepath.Join(dir, "store"))
	if err != nil {
		panic(err)
	}
	defer store.Close()
	file := filepath.Join(dir, "fares.csv")
	content := []byte("name,fare\nA,34.0\n")
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	fmt.Println(os.WriteFile(file, content, 0o600), store.PutFile(ctx, digest, file))
	back, err := store.Get(ctx, blob.DataName(digest))
	fmt.Printf("%q %v\n", back, err)
	_, err = store.Get(ctx, "batches/none.parquet")
	fmt.Println(errors.Is(err, blob.ErrNotFound))
	// Output:
	// <nil> <nil>
	// "name,fare\nA,34.0\n" <nil>
	// true
}
