"""Times one part of the pass on the cell that standard input holds: parts.py SOURCES COMPILED PART."""

import gc
import json
import marshal
import sys
import time

sys.path[:0] = [sys.argv[2], sys.argv[1]]

import symtable

import analyzer

cell = sys.stdin.read()
answer = analyzer.analyze(cell, {})
part = {
    "parse": lambda: analyzer.parse(cell),
    "symtable": lambda: symtable.symtable(cell, "<cell>", "exec"),
    "pass": lambda: analyzer.analyze(cell, {}),
    "encode": lambda: marshal.dumps(answer, 2),
}[sys.argv[3]]
gc.collect()
gc.freeze()
gc.disable()
times = []
for _ in range(1000):
    start = time.perf_counter()
    part()
    times.append((time.perf_counter() - start) * 1000)
times.sort()
print(json.dumps({"Min": times[0], "Median": times[500], "P99": times[990]}))
