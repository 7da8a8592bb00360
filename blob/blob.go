// Package blob stores immutable objects by name: batches, data files by content hash, message
// parts too large for the broker. An object appears whole or not at all.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	gcblob "gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/s3blob" // s3://
	"gocloud.dev/gcerrors"
)

// Store is a bucket. Safe for concurrent use.
type Store struct {
	bucket *gcblob.Bucket
	dir    string // of a directory store
}

// ErrNotFound is wrapped when an object does not exist.
var ErrNotFound = errors.New("object not found")

// OpenDir opens a directory as a store and creates it if needed.
func OpenDir(dir string) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("blob: %s: %w", dir, err)
	}
	if err := os.MkdirAll(abs, 0o755); err != nil {
		return nil, fmt.Errorf("blob: %w", err)
	}
	// no_tmp_dir: temporary files stay on the store's file system, so that the rename is atomic.
	bucket, err := fileblob.OpenBucket(abs, &fileblob.Options{NoTempDir: true, Metadata: fileblob.MetadataDontWrite})
	if err != nil {
		return nil, fmt.Errorf("blob: %s: %w", dir, err)
	}
	return &Store{bucket: bucket, dir: abs}, nil
}

// Open opens a store by URL: file:///DIR or a plain directory, s3://BUCKET (with endpoint=, region=,
// use_path_style=true for S3-compatible servers; credentials from the usual AWS variables and files),
// gs://BUCKET in binaries built with the tag gcs.
func Open(ctx context.Context, rawURL string) (*Store, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("blob: not a URL or directory") // never quoted: it may hold a secret
	}
	switch {
	case u.Scheme == "", u.Scheme == "file":
		return OpenDir(u.Path)
	case gcblob.DefaultURLMux().ValidBucketScheme(u.Scheme):
		bucket, err := gcblob.OpenBucket(ctx, rawURL)
		if err != nil {
			return nil, fmt.Errorf("blob: %s://%s: %w", u.Scheme, u.Host, err)
		}
		return &Store{bucket: bucket}, nil
	}
	return nil, fmt.Errorf("blob: scheme %q is not supported; use a directory, file:///DIR or s3://BUCKET", u.Scheme)
}

// Put writes an object durably. Writing the same name again replaces it.
func (s *Store) Put(ctx context.Context, name string, data []byte) error {
	err := s.bucket.WriteAll(ctx, name, data, nil)
	for range 20 { // DeleteAll, of any process, may take the directory away before the file stands in it
		if s.dir == "" || !errors.Is(err, fs.ErrNotExist) {
			break
		}
		err = s.bucket.WriteAll(ctx, name, data, nil)
	}
	if err != nil {
		return fmt.Errorf("blob: put %s: %w", name, err)
	}
	return s.sync(name)
}

// sync makes an object of a directory survive a loss of power; other stores do so by themselves.
func (s *Store) sync(name string) error {
	if s.dir == "" {
		return nil
	}
	path := filepath.Join(s.dir, filepath.FromSlash(name))
	for _, p := range []string{path, filepath.Dir(path)} {
		f, err := os.Open(p)
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				return nil // the driver escaped the name, or it was deleted meanwhile
			}
			return fmt.Errorf("blob: put %s: %w", name, err)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return fmt.Errorf("blob: put %s: %w", name, err)
		}
	}
	return nil
}

// Delete removes an object; one that is not there is no error.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := s.bucket.Delete(ctx, name); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fmt.Errorf("blob: delete %s: %w", name, err)
	}
	return nil
}

// DeleteAll removes every object whose name starts with prefix, and of a directory store the directories below it.
func (s *Store) DeleteAll(ctx context.Context, prefix string) error {
	names, err := s.Names(ctx, prefix)
	for _, name := range names {
		err = errors.Join(err, s.Delete(ctx, name))
	}
	if s.dir == "" {
		return err
	}
	for _, name := range append(names, prefix) {
		// What is not empty stays: an object may have been put there meanwhile.
		for dir := path.Dir(name); dir != "." && strings.HasPrefix(dir+"/", prefix) && os.Remove(filepath.Join(s.dir, dir)) == nil; {
			dir = path.Dir(dir)
		}
	}
	return err
}

// Names lists the objects whose name starts with prefix, in order.
func (s *Store) Names(ctx context.Context, prefix string) (names []string, err error) {
	names, err = s.names(ctx, prefix)
	for range 20 { // files of a directory come and go while it is read
		if s.dir == "" || gcerrors.Code(err) != gcerrors.NotFound {
			break
		}
		names, err = s.names(ctx, prefix)
	}
	if err != nil {
		return nil, fmt.Errorf("blob: list %s: %w", prefix, err)
	}
	return names, nil
}

func (s *Store) names(ctx context.Context, prefix string) (names []string, err error) {
	for list := s.bucket.List(&gcblob.ListOptions{Prefix: prefix}); ; {
		o, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		names = append(names, o.Key)
	}
}

// PutFile copies a file under data/SHA256 unless it is there already.
func (s *Store) PutFile(ctx context.Context, digest, path string) error {
	name := DataName(digest)
	if ok, err := s.bucket.Exists(ctx, name); err != nil {
		return fmt.Errorf("blob: %s: %w", name, err)
	} else if ok {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("blob: %w", err)
	}
	defer f.Close()
	return s.copyIn(ctx, name, f)
}

func (s *Store) copyIn(ctx context.Context, name string, r io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := s.bucket.NewWriter(ctx, name, nil)
	if err != nil {
		return fmt.Errorf("blob: put %s: %w", name, err)
	}
	if _, err := io.Copy(w, r); err != nil {
		cancel() // an aborted writer leaves no object behind
		_ = w.Close()
		return fmt.Errorf("blob: put %s: %w", name, err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("blob: put %s: %w", name, err)
	}
	return nil
}

// Get reads a whole object.
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	data, err := s.bucket.ReadAll(ctx, name)
	if err != nil {
		return nil, classify("get", name, err)
	}
	return data, nil
}

// ReadRange opens length bytes of an object from offset (length -1: to the end).
func (s *Store) ReadRange(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	r, err := s.bucket.NewRangeReader(ctx, name, offset, length, nil)
	if err != nil {
		return nil, classify("read", name, err)
	}
	return r, nil
}

// Fetch copies data/SHA256 into dir/SHA256 unless it is there, checks the digest and returns the path.
func (s *Store) Fetch(ctx context.Context, digest, dir string) (string, error) {
	path := filepath.Join(dir, digest)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	tmp, err := s.download(ctx, digest, dir)
	if err != nil {
		return "", err
	}
	if err := os.Rename(tmp, path); err != nil {
		_ = os.Remove(tmp)
		return "", fmt.Errorf("blob: fetch %s: %w", digest, err)
	}
	return path, nil
}

// Close frees the store.
func (s *Store) Close() error { return s.bucket.Close() }

// DataName is the object name of a data file.
func DataName(digest string) string { return "data/" + digest }

func classify(op, name string, err error) error {
	if gcerrors.Code(err) == gcerrors.NotFound {
		return fmt.Errorf("blob: %s %s: %w", op, name, ErrNotFound)
	}
	return fmt.Errorf("blob: %s %s: %w", op, name, err)
}
