#!/usr/bin/env bash
# Runs the Go tests COUNT times in random order with the race detector, on 1, 2 and 8 threads in turn, beside a load of two busy
# loops for each CPU. Names the tests that failed; logs are in out/stress. Usage: stress.sh COUNT PACKAGE...
set -uo pipefail
count=$1
shift
mkdir -p out/stress
loops=()
trap 'kill "${loops[@]}" 2>/dev/null' EXIT
for _ in $(seq $((2 * $(nproc)))); do
  while :; do :; done &
  loops+=($!)
done
failed=0
for threads in 1 2 8; do
  log=out/stress/$threads.log
  echo "GOMAXPROCS=$threads"
  # As many tests side by side as elsewhere, and time for all rounds.
  GOMAXPROCS=$threads go test -race -count="$count" -shuffle=on -p 2 -parallel 4 -timeout $((20 * count))m "$@" >"$log" 2>&1 && continue
  failed=1
  # A failed test, a test that hung (its name follows "running tests:"), a race and a package that does not build.
  awk '/^ *--- FAIL|^FAIL\t|^panic:|WARNING: DATA RACE/ { sub(/ \([0-9.]+s\)/, ""); print; next }
       /^\trunning tests:/ { hung = 1; next } hung && /^\t\t/ { print "hung" $0; next } { hung = 0 }' "$log" | sort | uniq -c
done
exit $failed
