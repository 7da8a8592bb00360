package sandbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/trajectory"
)

func small(l *Limits) {
	l.MemoryBytes, l.ScratchBytes, l.FileBytes, l.Processes, l.OpenFiles = 384<<20, 8<<20, 4<<20, 16, 64
}

func hard(l *Limits) { l.CellWall, l.Grace = 300*time.Millisecond, 100*time.Millisecond }

// soft leaves a cell that was interrupted all the time that a busy machine may need.
func soft(l *Limits) { l.CellWall, l.Grace = 300*time.Millisecond, time.Minute }

const noPrograms = "this session can't start other programs or processes"

// exhaustion uses up what the host has.
var exhaustion = []hostile{
	{rule: "no fork bomb", code: "import os\nwhile True: os.fork()", status: trajectory.CellException, says: noPrograms},
	{rule: "no fork bomb by raw calls", code: "[sc('fork') if 'fork' in NR else 'EPERM', sc('vfork') if 'vfork' in NR else 'EPERM', sc('clone', 17, 0, 0, 0, 0)]", says: `^\['EPERM', 'EPERM', 'EPERM'\]`, off: "seccomp", own: true},
	{rule: "no thread bomb", code: "import threading\ne = threading.Event()\nwhile True: threading.Thread(target=e.wait, daemon=True).start()", status: trajectory.CellException, says: "limit: a session may have 16 threads", small: true},
	{rule: "no memory bomb", code: "l = []\nwhile True: l.append(bytearray(1 << 24))", status: trajectory.CellException, says: "limit: a session may use 384 MiB of memory", small: true},
	{rule: "no memory bomb in one piece", code: "x = bytearray(1 << 40)", status: trajectory.CellException, says: "MemoryError"},
	{rule: "no memory bomb by mapping", code: "import mmap; mmap.mmap(-1, 1 << 40)", status: trajectory.CellException, says: "Cannot allocate memory|MemoryError"},
	{rule: "no memory bomb in numpy", code: "import numpy as np; np.ones((1 << 20, 1 << 20))", status: trajectory.CellException, says: "Unable to allocate"},
	{rule: "no memory bomb of text", code: "s = 'x'\nwhile True: s += s", status: trajectory.CellException, says: "MemoryError", small: true},
	{rule: "no locked memory", code: "b = ctypes.create_string_buffer(1 << 20)\nsc('mlock', b, 1 << 20)", says: `^'E(PERM|NOMEM)'`, off: "rlimits"},
	{rule: "descriptors end", code: "l = []\nwhile True: l.append(open('/dev/null'))", status: trajectory.CellException, says: "limit: a session may hold 64 files open", small: true},
	{rule: "files end", code: "for i in range(1 << 20): open(f'/tmp/{i}', 'w').close()", status: trajectory.CellException, says: "limit: the working directory and /tmp hold 8 MiB", small: true},
	{rule: "directories end", code: "import os\nfor i in range(1 << 20): os.mkdir(f'/scratch/d{i}')", status: trajectory.CellException, says: "No space left on device", small: true},
	{rule: "a file ends", code: "open('big', 'wb').write(bytes(5 << 20))", status: trajectory.CellException, says: "limit: a file may have 4 MiB", small: true, off: "rlimits"},
	{rule: "a sparse file ends", code: "import os; os.truncate(os.open('sparse', os.O_CREAT | os.O_RDWR), 1 << 40)", status: trajectory.CellException, says: "File too large"},
	{rule: "space ends", code: "for i in range(9): open(f's{i}', 'wb').write(bytes(3 << 20))", status: trajectory.CellException, says: "limit: the working directory and /tmp hold 8 MiB", small: true},
	{rule: "output ends", code: "for i in range(200_000): print('x' * 100)", says: `bytes left out`, host: bounded},
	{rule: "output on descriptor 1 ends", code: "import os\nfor i in range(300): os.write(1, b'x' * 65536)\nNone", says: `of 19660800 bytes left out`, host: bounded},
	{rule: "output on descriptor 2 ends", code: "import os\nfor i in range(300): os.write(2, b'x' * 65536)\nNone", says: `bytes left out`, host: bounded},
	{rule: "output without a line end ends", code: "import sys\nfor i in range(300): sys.stderr.write('é' * 30000)\nNone", says: `bytes left out`, host: bounded},
	{rule: "output of control characters ends", code: "print('\\x1b[31m' * 10**6 + '\\r' * 10**6 + 'end')", says: `^end\n$`},
	{rule: "nothing is written to descriptor 0", code: "import os; os.write(0, b'x')", status: trajectory.CellException, says: "Bad file descriptor"},
	{rule: "a loop ends", code: "while True: pass", status: trajectory.CellTimeout, says: "CellTimeout", times: soft},
	{rule: "a loop in C ends", code: "sum(range(10 ** 13))", status: trajectory.CellTimeout, says: "did not end when interrupted", times: hard, own: true},
	{rule: "a loop that swallows everything ends", code: "import time\nwhile True:\n    try: time.sleep(1)\n    except BaseException: pass", status: trajectory.CellTimeout, says: "did not end when interrupted", times: hard, own: true},
	{rule: "a sleep ends", code: "import time; time.sleep(10 ** 6)", status: trajectory.CellTimeout, says: "CellTimeout", times: soft},
	{rule: "a big number ends", code: "x = 7 ** 10 ** 9", status: trajectory.CellTimeout, times: hard},
	{rule: "a big number is not printed", code: "x = 10 ** 100_000\nx", status: trajectory.CellException, says: "ValueError: Exceeds the limit"},
	{rule: "a regular expression ends", code: "import re; re.match('(a+)+$', 'a' * 64 + 'b')", status: trajectory.CellTimeout, says: "CellTimeout", times: soft},
	{rule: "recursion ends", code: "def f(): return f()\nf()", status: trajectory.CellException, says: "RecursionError"},
	{rule: "recursion without a limit ends", code: "import sys; sys.setrecursionlimit(2 ** 31 - 1)\ndef f(n): return f(n + 1)\nf(0)", says: `limit`, status: trajectory.CellTimeout, times: hard, own: true},
	{rule: "a recursion limit below the runner's needs does not stay", code: "import sys; sys.setrecursionlimit(60)\n# then\nsys.getrecursionlimit() >= 500", says: "True", own: true},
	{rule: "nested text ends", code: "import json; json.loads('[' * 10 ** 6)", status: trajectory.CellException, says: "RecursionError"},
	{rule: "nested source ends", code: "eval('-' * 10 ** 6 + '1')", status: trajectory.CellException, says: "RecursionError|MemoryError|SyntaxError"},
	{rule: "a decompression bomb ends", code: "import zlib\nd = zlib.compressobj(9); b = b''.join(d.compress(bytes(1 << 24)) for _ in range(64)) + d.flush()\nlen(zlib.decompress(b))", status: trajectory.CellException, says: "MemoryError", small: true},
	{rule: "an archive bomb ends", code: "import zipfile\nwith zipfile.ZipFile('z.zip', 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('a', bytes(64 << 20))\nzipfile.ZipFile('z.zip').extractall('/tmp')", status: trajectory.CellException, says: "File too large|No space left", small: true},
	{rule: "an image bomb ends", code: "from PIL import Image; Image.new('RGB', (60000, 60000))", status: trajectory.CellException, says: "MemoryError", small: true},
	{rule: "a pickle starts no program", code: "import pickle, os\nclass P:\n    def __reduce__(self): return os.system, ('touch /tmp/x',)\npickle.loads(pickle.dumps(P()))", status: trajectory.CellException, says: noPrograms},
	{rule: "a pickle that claims a size ends", code: "import pickle; pickle.loads(b'\\x80\\x04\\x8e' + (1 << 40).to_bytes(8, 'little') + b'x')", status: trajectory.CellException, says: "UnpicklingError|MemoryError"},
	{rule: "entities do not multiply", code: "import xml.etree.ElementTree as E\nE.fromstring('<!DOCTYPE a [<!ENTITY a \"' + 'x' * 10000 + '\">' + ''.join(f'<!ENTITY {chr(98 + i)} \"' + f'&{chr(97 + i)};' * 10 + '\">' for i in range(9)) + ']><a>&j;</a>')", status: trajectory.CellException, says: "limit on input amplification|MemoryError"},
	{rule: "a storm of signals ends with its cell", code: "import signal\nsignal.signal(signal.SIGALRM, lambda *a: None); signal.setitimer(signal.ITIMER_REAL, 1e-5, 1e-5)\n# then\nsum(range(1000)), signal.getitimer(signal.ITIMER_REAL)", says: `^\(499500, \(0\.0, 0\.0\)\)`},
	{rule: "names end", code: "globals().update({f'v{i}': i for i in range(100_000)})", status: trajectory.CellException, says: "a statement may change up to 4000 names", own: true},
	{rule: "tables of epoll, timers and events end with descriptors", code: "import select\nl = []\nwhile True: l.append(select.epoll())", status: trajectory.CellException, says: "limit: a session may hold 64 files open", small: true},
	{rule: "queued signals end", code: "b = ctypes.create_string_buffer(64); ctypes.c_int.from_buffer(b, 8).value = 10; ids = ctypes.create_string_buffer(8)\nn = 0\nwhile n < 5000 and sc('timer_create', 1, b, ids) == 'OK': n += 1\nn < 5000", says: "True", off: "rlimits", own: true},
}

func bounded(t *testing.T, f *field, sess Session, _ *graph) {
	t.Helper()
	require.Less(t, len(run(t, sess, "print('y' * 10 ** 6)").Output), 20<<10)
}
