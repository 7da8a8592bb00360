#!/bin/bash
# The full build: 36,000 synthetic trajectories, built at one go, and killed twice and gone on with.
# Usage: corpus.sh SFT_BUILDER TABLES_DIR QUESTIONS OUT [TABLEBENCH] [LABELS]; N sets the number.
set -euo pipefail
builder=$1 tables=$2 questions=$3 out=$4 tablebench=${5:-} labels=${6:-}
n=${N:-36000}
mkdir -p "$out"
rm -rf "$out"/{whole,killed}

measured() { # NAME COMMAND...: wall and CPU seconds and peak memory
	local name=$1
	shift
	/usr/bin/time -f "$name: wall %e s, user+sys %U+%S s, peak %M KiB" -o "$out/$name.time" "$@" >"$out/$name.log" 2>&1
	cat "$out/$name.time"
}

echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
if [ "$(cat "$out/trajectories.n" 2>/dev/null)" != "$n" ]; then
	rm -rf "$out/trajectories"
	measured synthetic "$builder" synthetic --tables "$tables" --questions "$questions" ${tablebench:+--tablebench "$tablebench"} \
		--n "$n" --out "$out/trajectories"
	echo "$n" >"$out/trajectories.n"
fi
sed "s|^decontaminate: .*|decontaminate: [{name: dabench, prompts: $questions, format: dabench, ${labels:+labels: $labels, }data_dir: $tables, match: [questions, answers]}]|" \
	configs/sft/paper.yaml >"$out/config.yaml"
build() { echo "$builder" build --in "$out/trajectories" --config "$out/config.yaml" --out "$out/$1"; }

measured whole $(build whole)
cat "$out/whole.log" | grep -v records,

kill_when() { # PATTERN COUNT: kill -9 once so many files of the work directory are there
	$(build killed) >>"$out/killed.log" 2>&1 &
	local pid=$!
	until [ "$(find "$out/killed/.work" -name "$1" 2>/dev/null | wc -l)" -ge "$2" ]; do
		kill -0 $pid 2>/dev/null || { echo "the build ended before it was killed"; exit 1; }
		sleep 0.2
	done
	kill -9 $pid
	wait $pid 2>/dev/null || true
	echo "killed with $(find "$out/killed/.work" -name 'facts-*.gob' | wc -l) chunks scanned and $(find "$out/killed/.work" -name 'part-*.json' | wc -l) parts written"
}
chunks=$(((n + 499) / 500))
kill_when 'facts-*.gob' $((chunks / 2))
kill_when 'part-*.json' $((chunks / 3))
measured resumed $(build killed)

(cd "$out/whole" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$out/whole.sum"
(cd "$out/killed" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$out/killed.sum"
cmp "$out/whole.sum" "$out/killed.sum"
echo "byte-identical: $(wc -l <"$out/whole.sum") files, $(du -sb "$out/whole" | cut -f1) bytes"
measured verify "$builder" verify "$out/whole"
tail -1 "$out/verify.log"
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
