package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/verigraph/verigraph/task"
)

// resolveFiles fills in the data files of every item and returns digest to path. Names are opened
// through os.Root, so that neither ".." nor a symbolic link leads out of the data directory.
func resolveFiles(ctx context.Context, c ImportConfig, items []item, p *problems) map[string]string {
	r := resolver{ctx: ctx, dir: c.DataDir, known: map[string]found{}, paths: map[string]string{}}
	defer r.close()
	for i := range items {
		it := &items[i]
		taken := map[string]string{}
		for _, name := range it.files {
			if ctx.Err() != nil {
				return nil
			}
			f, err := r.lookup(name)
			if err == nil {
				if other, ok := taken[f.Name]; ok {
					err = errors.New("has the same name as " + other + " in the policy's data directory")
				}
			}
			if err != nil {
				p.addf(c.Prompts, it.line, it.filesKey, "%q: %w", name, err)
				continue
			}
			taken[f.Name] = name
			it.prompt.Files = append(it.prompt.Files, f)
		}
	}
	return r.paths
}

type found struct {
	file task.File
	err  error
}

// resolver looks each name up once, since many prompts share a file.
type resolver struct {
	ctx   context.Context
	dir   string
	root  *os.Root
	known map[string]found
	paths map[string]string
}

func (r *resolver) close() {
	if r.root != nil {
		r.root.Close()
	}
}

func (r *resolver) lookup(name string) (task.File, error) {
	if f, ok := r.known[name]; ok {
		return f.file, f.err
	}
	file, err := r.open(name)
	r.known[name] = found{file, err}
	if err == nil {
		r.paths[file.SHA256] = filepath.Join(r.dir, filepath.FromSlash(name))
	}
	return file, err
}

func (r *resolver) open(name string) (task.File, error) {
	if name == "" {
		return task.File{}, errors.New("empty name")
	}
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return task.File{}, errors.New("leads out of the data directory " + r.dir)
	}
	if r.root == nil {
		root, err := os.OpenRoot(r.dir)
		if err != nil {
			return task.File{}, errors.New("data directory " + r.dir + ": " + plain(err).Error())
		}
		r.root = root
	}
	file, err := r.root.Open(filepath.FromSlash(name))
	if err != nil {
		return task.File{}, r.openError(err)
	}
	defer file.Close()
	return r.hash(name, file)
}

func (r *resolver) openError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("no such file in the data directory " + r.dir)
	}
	if strings.Contains(err.Error(), "path escapes") {
		return errors.New("leads out of the data directory " + r.dir)
	}
	return plain(err)
}

func (r *resolver) hash(name string, file *os.File) (task.File, error) {
	info, err := file.Stat()
	if err != nil {
		return task.File{}, plain(err)
	}
	if !info.Mode().IsRegular() {
		return task.File{}, errors.New("not a regular file")
	}
	h := sha256.New()
	size, err := io.Copy(h, contextReader{r.ctx, file})
	if err != nil {
		return task.File{}, plain(err)
	}
	if size == 0 {
		return task.File{}, errors.New("the file is empty")
	}
	return task.File{Name: baseName(name), SHA256: hex.EncodeToString(h.Sum(nil)), Size: size}, nil
}

// baseName is the name that the policy sees.
func baseName(name string) string { return filepath.Base(filepath.FromSlash(name)) }

// contextReader stops a long copy when the context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
