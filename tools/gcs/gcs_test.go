//go:build gcs

// Package gcs tries gs:// stores against a fake of Google Cloud Storage. It is a module of its own, since the fake
// brings a good part of Google Cloud's clients along.
package gcs

import (
	"strings"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/blob/blobtest"
)

func TestAGoogleCloudStoreKeepsThePromisesOfTheOthers(t *testing.T) {
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1", PublicHost: "127.0.0.1"})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: "batches"})
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(server.URL(), "http://"))
	s, err := blob.Open(t.Context(), "gs://batches")
	require.NoError(t, err)
	defer s.Close()
	blobtest.Promises(t, s)
}
