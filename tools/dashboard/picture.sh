#!/usr/bin/env bash
# Makes docs/images/dashboard.png: the dashboard's panels over a run of the real processes on a NATS server.
# Usage: tools/dashboard/picture.sh (make build python; a Chromium at CHROMIUM or in the path)
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$PWD/out/dashboard
rm -rf "$out" && mkdir -p "$out/blob"
browser=${CHROMIUM:-$(command -v chromium || command -v chromium-headless-shell)}
CGO_ENABLED=0 go build -o "$out/" ./policy/scripted/serve github.com/nats-io/nats-server/v2
(cd tools/dashboard && go build -o "$out/dashboard" .)

pids=()
trap 'kill "${pids[@]}" 2>/dev/null; wait' EXIT
start() { "$@" >"$out/$(basename "$1").log" 2>&1 & pids+=($!); }
until_true() { for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done; echo "$* never came true" >&2; exit 1; }

common() { printf 'run: picture\nblob: %s/blob\nnats: {url: "nats://127.0.0.1:14222"}\nadmin: {listen: "127.0.0.1:%s"}\n' "$out" "$1"; }
{ common 19091; cat tools/dashboard/reward-server.yaml; } >"$out/reward-server.yaml"
{ common 19090; cat tools/dashboard/rollout-worker.yaml; } >"$out/rollout-worker.yaml"
start "$out/nats-server" -js -a 127.0.0.1 -p 14222 -sd "$out/jetstream"
start "$out/serve" examples/dabench/script.jsonl 127.0.0.1:18000 scripted 300ms
until_true curl -sf http://127.0.0.1:18000/health
start bin/reward-server --config "$out/reward-server.yaml"
until_true curl -sf http://127.0.0.1:19091/readyz
start bin/rollout-worker --config "$out/rollout-worker.yaml"
until_true curl -sf http://127.0.0.1:19090/readyz
start "$out/dashboard" deploy/grafana/verigraph.json "$out/page.html" 127.0.0.1:19091 127.0.0.1:19090
scraper=$!
sleep 3
bin/verigraph submit --config "$out/reward-server.yaml" --final --format dabench --prompts examples/dabench/questions.jsonl \
  --labels examples/dabench/labels.jsonl --data-dir examples/dabench/tables
VERIGRAPH_FEED=127.0.0.1:15051 .venv/client/bin/python -m verigraph.trainer
sleep 5
kill -INT "$scraper"
wait "$scraper" || { cat "$out/dashboard.log"; exit 1; }
"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1552,2566 --screenshot="$out/dashboard.png" "file://$out/page.html" 2>"$out/browser.log"
.venv/sandbox/bin/python -c 'import sys; from PIL import Image; Image.open(sys.argv[1]).quantize(200).save(sys.argv[2], optimize=True)' \
  "$out/dashboard.png" docs/images/dashboard.png
ls -l docs/images/dashboard.png
