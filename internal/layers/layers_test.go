// Package layers asserts which way imports point.
package layers

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/verigraph/verigraph/"

type pkg struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...")
	out, err := cmd.Output()
	require.NoError(t, err)
	dec := json.NewDecoder(strings.NewReader(string(out)))
	var all []pkg
	for dec.More() {
		var p pkg
		require.NoError(t, dec.Decode(&p))
		all = append(all, p)
	}
	require.NotEmpty(t, all)
	return all
}

// adapters are the only packages that may import a technology, by the technology's import prefix.
var adapters = map[string][]string{
	"github.com/nats-io/":               {"jetstream"},
	"github.com/parquet-go/":            {"dataset/parquet", "dataset/promptfile", "sft/output"},
	"google.golang.org/grpc":            {"dataset/feed", "reward/rpc", "reward/scorehook", "proto/verigraph/v1", "internal/grpcserve", "cmd/"},
	"github.com/sashabaranov/":          {"reward/openai", "policy/openaichat"},
	"github.com/prometheus/":            {"cmd/"},
	"github.com/spf13/":                 {"cmd/"},
	"go.opentelemetry.io/":              {"cmd/"},
	"github.com/synadia-io/":            {"jetstream"},
	"gocloud.dev/":                      {"blob"},
	"github.com/landlock-lsm/":          {"sandbox"},
	"github.com/elastic/go-seccomp-bpf": {"sandbox"},
}

func TestEachTechnologyIsImportedByItsAdapterOnly(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		self := strings.TrimPrefix(p.ImportPath, module)
		for _, imported := range p.Imports {
			for prefix, allowed := range adapters {
				if strings.HasPrefix(imported, prefix) && !allows(allowed, self) {
					t.Errorf("%s imports %s, which only %v may", self, imported, allowed)
				}
			}
		}
	}
}

func allows(allowed []string, self string) bool {
	for _, a := range allowed {
		if self == a || strings.HasSuffix(a, "/") && strings.HasPrefix(self, a) {
			return true
		}
	}
	return false
}

// layers from the bottom up; a package may import packages of its own rank or below.
var ranks = map[string]int{
	"task": 0, "evidence": 0, "internal": 0, "configs": 0, "proto": 0, "blob": 0, "lease": 0,
	"trajectory": 1,
	"sandbox":    2, "policy": 2, "jetstream": 2,
	"rollout": 3, "reward": 3, "dataset": 3,
	"sft": 4, "viewer": 4, "eval": 4,
	"cmd": 5,
}

func TestImportsPointDownTheLayers(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		self := strings.TrimPrefix(p.ImportPath, module)
		rank, known := ranks[strings.SplitN(self, "/", 2)[0]]
		if !known {
			t.Errorf("%s has no layer", self)
		}
		for _, imported := range p.Imports {
			below, ok := strings.CutPrefix(imported, module)
			if !ok {
				continue
			}
			if r := ranks[strings.SplitN(below, "/", 2)[0]]; r > rank {
				t.Errorf("%s (layer %d) imports %s (layer %d)", self, rank, below, r)
			}
		}
	}
}
