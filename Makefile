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
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the binaries into bin/
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...

python: $(SANDBOX)/.ready $(SANDBOX)/lib/verigraph/zygote.so $(CLIENT)/.ready ## create the Python environments under .venv/

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
	go test -race -timeout 20m ./...
	$(CLIENT)/bin/python -m pytest -q clients/python

bench: python ## run the benchmarks
	go test -run '^$$' -bench . -benchmem ./...

lint: $(TOOLS)/.ready ## check style and common mistakes
	@test -z "$$($(GOTOOL) gofumpt -l $$(git ls-files '*.go' | grep -v '\.pb\.go$$'))" || { $(GOTOOL) gofumpt -l $$(git ls-files '*.go' | grep -v '\.pb\.go$$'); echo 'run make fmt'; exit 1; }
	go vet ./...
	$(GOTOOL) staticcheck ./...
	$(TOOLS)/bin/ruff check clients sandbox policy

fmt: $(TOOLS)/.ready ## format the code
	$(GOTOOL) gofumpt -w $$(git ls-files '*.go' | grep -v '\.pb\.go$$')
	$(TOOLS)/bin/ruff check --fix clients sandbox policy

proto: ## generate the wire code from proto/
	proto/generate.sh

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
	SANDBOX_TEST_ALL=1 go test -race -timeout 30m -run 'Hostile|Defence|Limit|Message|Ended|Interrupt' ./sandbox

fuzz-frames: python ## fuzz the frame protocol of sessions for ten minutes
	go test -run '^$$' -fuzz FuzzConversation -fuzztime 6m ./sandbox
	go test -run '^$$' -fuzz FuzzFrame -fuzztime 4m ./sandbox

.PHONY: hostile fuzz-frames

SEED ?= 1
KILLS ?= 20

kill: ## kill every part of the line KILLS times in the order of SEED, and compare what the trainer saw
	VERIGRAPH_KILLS=$(KILLS) VERIGRAPH_KILL_SEED=$(SEED) go test ./cmd/internal/line -run EveryPartIsKilled -v -timeout 40m

.PHONY: kill
