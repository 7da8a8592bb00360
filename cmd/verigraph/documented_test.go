package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// another is a test that runs a command, and how its source says so.
type another struct{ test, by string }

// Commands of the documents that run in another test, by how they begin.
var ranElsewhere = map[string]another{
	"reward-server --config":                    {"TestProcessesOnAnExternalNATSGiveTheSameRowsAsOneProcess", `"reward-server"), "--config"`},
	"rollout-worker --config":                   {"TestProcessesOnAnExternalNATSGiveTheSameRowsAsOneProcess", `"rollout-worker"), "--config"`},
	"verigraph submit":                          {"TestProcessesOnAnExternalNATSGiveTheSameRowsAsOneProcess", `"submit", "--config"`},
	"verigraph eval nts":                        {"TestSolutionsAreVerifiedInThreeSettingsWithThePapersFigures", `"eval", "nts"`},
	"verigraph eval processbench":               {"TestSolutionsAreVerifiedInThreeSettingsWithThePapersFigures", `"eval", "processbench"`},
	"verigraph verify":                          {"TestVerifyPrintsThePapersFigures", `"verify", "--format", "nts", "--generate"`},
	"verigraph import FILE":                     {"TestImportedDABenchPromptsRunAsJSONLAndTheirFilesAreInTheStore", `runImport(`}, // how it is called, not a call
	"verigraph view out/demo --l":               {"TestViewBeyondLoopbackMakesATokenAndAsksForIt", `"--listen", "0.0.0.0:0", "--host"`},
	"nats backup account":                       {"TestARunGoesOnFromABackupOfItsStore", `"backup", "account"`}, // with the tool: make test-backup
	"nats backup restore account":               {"TestARunGoesOnFromABackupOfItsStore", `"backup", "restore", "account"`},
	"curl --fail http://127.0.0.1:8222/healthz": {"TestARunGoesOnFromABackupOfItsStore", `nats.ready(t)`}, // asks the same page
	"sft-builder build":                         {"TestARealRunGivesSamplesOfExactlyItsMessagesAndIds", `built(`},
	"sft-builder verify":                        {"TestVerifyFailsOnADamagedCorpus", `"verify", out`},
	"sft-builder inspect":                       {"TestARealRunGivesSamplesOfExactlyItsMessagesAndIds", `"inspect", out`},
	"sft-builder generate":                      {"TestATextOnlyTeachersTrajectoriesBecomeSamples", `generateArgs(`},
}

// Commands that need what no machine of the tests has. The files that they name must exist.
var cannotRun = map[string]string{
	"helm install":                      "a Kubernetes cluster; make test-helm renders the chart with these values",
	"VLLM_SERVER_DEV_MODE=1 vllm serve": "vLLM and a model; make test-live starts one",
	"python -m sglang.launch_server":    "a GPU, SGLang and a model; the scripted policy speaks as it does",
	"swift sft":                         "ms-swift, a GPU and a model",
	"cp -r MODEL_DIR":                   "a model",
	"torchrun":                          "verl, GPUs and a model",
}

var (
	programs = regexp.MustCompile(`^([A-Z_]+=\S+|verigraph|sft-builder|reward-server|rollout-worker|make|helm|kubectl|docker|nats|curl|cp|git|go|npm|pip|python3?|swift|torchrun|vllm) `)
	fenced   = regexp.MustCompile("(?s)```[a-z]*\n(.*?)```")
	testBody = regexp.MustCompile(`(?ms)^func (Test\w+)\(.*?^}`)
)

// documented are the commands of a page, in fenced and in indented blocks, continued lines joined.
func documented(t *testing.T, page string) (out []string) {
	t.Helper()
	data, err := os.ReadFile(page)
	require.NoError(t, err)
	text := strings.ReplaceAll(string(data), "\\\n", " ")
	add := func(line string) {
		line = strings.TrimPrefix(strings.Join(strings.Fields(line), " "), "bin/")
		if programs.MatchString(line) {
			out = append(out, line)
		}
	}
	for _, block := range fenced.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			add(line)
		}
	}
	for line := range strings.Lines(fenced.ReplaceAllString(text, "")) {
		if strings.HasPrefix(line, "    ") {
			add(line)
		}
	}
	return out
}

// sourcesOfTests are the Go tests of the programs by name.
func sourcesOfTests(t *testing.T) map[string]string {
	t.Helper()
	sources := map[string]string{}
	require.NoError(t, filepath.WalkDir(root+"cmd", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, m := range testBody.FindAllStringSubmatch(string(data), -1) {
			sources[m[1]] = m[0]
		}
		return err
	}))
	return sources
}

// commandsThatRunHere are the documented commands by page, each once, without those of the two tables, which must be true.
func commandsThatRunHere(t *testing.T) map[string][]string {
	t.Helper()
	pages, err := filepath.Glob(root + "docs/*.md")
	require.NoError(t, err)
	makefile, err := os.ReadFile(root + "Makefile")
	require.NoError(t, err)
	used, here := map[string]bool{}, map[string][]string{}
	for _, page := range append([]string{root + "README.md"}, pages...) {
		if filepath.Base(page) == "commands.md" {
			continue // made from the commands; another test parses its examples
		}
		for _, line := range documented(t, page) {
			for _, word := range strings.Fields(line) {
				if strings.HasPrefix(word, "deploy/") || strings.HasPrefix(word, "configs/") {
					_, err := os.Stat(root + word)
					require.NoError(t, err, line)
				}
			}
			if target, ok := strings.CutPrefix(line, "make "); ok {
				require.Contains(t, string(makefile), "\n"+target+":", line)
			} else if key := entryOf(line); key != "" {
				used[key] = true
			} else if !used[line] {
				used[line] = true
				here[filepath.Base(page)] = append(here[filepath.Base(page)], line)
			}
		}
	}
	sources := sourcesOfTests(t)
	for key, in := range ranElsewhere {
		require.True(t, used[key], "no page has %q", key)
		require.Contains(t, sources[in.test], in.by, "%s is to run %q", in.test, key)
	}
	for key := range cannotRun {
		require.True(t, used[key], "no page has %q", key)
	}
	return here
}

// entryOf is the entry of the two tables that a command begins with.
func entryOf(line string) string {
	for key := range ranElsewhere {
		if strings.HasPrefix(line, key) {
			return key
		}
	}
	for key := range cannotRun {
		if strings.HasPrefix(line, key) {
			return key
		}
	}
	return ""
}
