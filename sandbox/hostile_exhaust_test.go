package sandbox

import (
	"fmt"
	"testing"
	"time"

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
	{rule: "no fork bomb", off: "audit seccomp", probe: &probe{code: "import os\ntry:\n    pid = os.fork()\n    if pid == 0: os._exit(0)\n    print('ran')\nexcept PermissionError: print('refused')", says: `^refused`, ok: true}, code: "import os\nwhile True: os.fork()", status: trajectory.CellException, says: noPrograms},
	{rule: "no fork bomb by raw calls", off: "seccomp", code: "[sc('fork') if 'fork' in NR else 'EPERM', sc('vfork') if 'vfork' in NR else 'EPERM', sc('clone', 17, 0, 0, 0, 0)]", says: `^\['EPERM', 'EPERM', 'EPERM'\]`, own: true},
	{rule: "no thread bomb", off: "sizes", code: "import threading\ne = threading.Event()\nwhile True: threading.Thread(target=e.wait, daemon=True).start()", status: trajectory.CellException, says: "limit: a session may have 16 threads", small: true},
	{rule: "no memory bomb", off: "sizes", code: "l = []\nwhile True: l.append(bytearray(1 << 24))", status: trajectory.CellException, says: "limit: a session may use 384 MiB of memory", small: true},
	{rule: "no memory bomb in one piece", off: "sizes", probe: &probe{code: "x = bytearray(500 << 20)", says: `MemoryError`}, code: "x = bytearray(1 << 40)", status: trajectory.CellException, says: "MemoryError", small: true},
	{rule: "no memory bomb by mapping", off: "sizes", probe: &probe{code: "import mmap; mmap.mmap(-1, 500 << 20)", says: `Cannot allocate memory|MemoryError`}, code: "import mmap; mmap.mmap(-1, 1 << 40)", status: trajectory.CellException, says: "Cannot allocate memory|MemoryError", small: true},
	{rule: "no memory bomb in numpy", off: "sizes", probe: &probe{code: "import numpy as np; np.ones((8, 8 << 20))", says: `Unable to allocate`}, code: "import numpy as np; np.ones((1 << 20, 1 << 20))", status: trajectory.CellException, says: "Unable to allocate", small: true},
	{rule: "no memory bomb of text", off: "sizes", probe: &probe{code: "s = 'x' * (500 << 20)", says: `MemoryError`}, code: "s = 'x'\nwhile True: s += s", status: trajectory.CellException, says: "MemoryError", small: true},
	{rule: "no locked memory", off: "rlimits", code: "b = ctypes.create_string_buffer(1 << 20)\nsc('mlock', b, 1 << 20)", says: `^'E(PERM|NOMEM)'`},
	{rule: "descriptors end", off: "sizes", code: "l = []\nwhile True: l.append(open('/dev/null'))", status: trajectory.CellException, says: "limit: a session may hold 64 files open", small: true},
	{rule: "files end", off: "scratch", probe: &probe{code: "for i in range(17_000): open(f'/tmp/{i}', 'w').close()", says: `limit: the working directory and /tmp hold 8 MiB`}, code: "for i in range(1 << 20): open(f'/tmp/{i}', 'w').close()", status: trajectory.CellException, says: "limit: the working directory and /tmp hold 8 MiB", small: true},
	{rule: "directories end", off: "scratch", probe: &probe{code: "import os\nfor i in range(17_000): os.mkdir(f'/scratch/d{i}')", says: `No space left on device`}, code: "import os\nfor i in range(1 << 20): os.mkdir(f'/scratch/d{i}')", status: trajectory.CellException, says: "No space left on device", small: true},
	{rule: "a file ends", off: "rlimits", code: "open('big', 'wb').write(bytes(5 << 20))", status: trajectory.CellException, says: "limit: a file may have 4 MiB", small: true},
	{rule: "a sparse file ends", off: "rlimits", code: "import os; os.truncate(os.open('sparse', os.O_CREAT | os.O_RDWR), 1 << 40)", status: trajectory.CellException, says: "File too large"},
	{rule: "space ends", off: "sizes", code: "for i in range(9): open(f's{i}', 'wb').write(bytes(3 << 20))", status: trajectory.CellException, says: "limit: the working directory and /tmp hold 8 MiB", small: true},
	{rule: "output ends", off: "output", code: "for i in range(200_000): print('x' * 100)", says: `bytes left out`, host: bounded},
	{rule: "output on descriptor 1 ends", off: "output", code: "import os\nfor i in range(300): os.write(1, b'x' * 65536)\nNone", says: `of 19660800 bytes left out`, host: bounded},
	{rule: "output on descriptor 2 ends", off: "output", code: "import os\nfor i in range(300): os.write(2, b'x' * 65536)\nNone", says: `bytes left out`, host: bounded},
	{rule: "output without a line end ends", off: "output", code: "import sys\nfor i in range(300): sys.stderr.write('é' * 30000)\nNone", says: `bytes left out`, host: bounded},
	{rule: "output of control characters ends", twin: "print('31m' * 10**6 + 'end')", code: "print('\\x1b[31m' * 10**6 + '\\r' * 10**6 + 'end')", says: `^end\n$`},
	{rule: "nothing is written to descriptor 0", twin: "import os; os.write(1, b'x')", code: "import os; os.write(0, b'x')", status: trajectory.CellException, says: "Bad file descriptor"},
	{rule: "a loop ends", off: "time", code: "while True: pass", status: trajectory.CellTimeout, says: "CellTimeout", times: soft},
	{rule: "a loop in C ends", off: "time", code: "sum(range(10 ** 13))", status: trajectory.CellTimeout, says: "did not end when interrupted", times: hard, own: true},
	{rule: "a loop that swallows everything ends", off: "time", code: "import time\nwhile True:\n    try: time.sleep(1)\n    except BaseException: pass", status: trajectory.CellTimeout, says: "did not end when interrupted", times: hard, own: true},
	{rule: "a sleep ends", off: "time", code: "import time; time.sleep(10 ** 6)", status: trajectory.CellTimeout, says: "CellTimeout", times: soft},
	{rule: "a big number ends", off: "time", code: "x = 7 ** 10 ** 9", status: trajectory.CellTimeout, times: hard},
	{rule: "a big number is not printed", off: "digits", code: "x = 10 ** 100_000\nx", status: trajectory.CellException, says: "ValueError: Exceeds the limit"},
	{rule: "a regular expression ends", off: "time", code: "import re; re.match('(a+)+$', 'a' * 64 + 'b')", status: trajectory.CellTimeout, says: "CellTimeout", times: soft},
	{rule: "recursion ends", off: "recursion", code: "def f(): return f()\nf()", status: trajectory.CellException, says: "RecursionError"},
	{rule: "recursion without a limit ends", off: "time", code: "import sys; sys.setrecursionlimit(2 ** 31 - 1)\ndef f(n): return f(n + 1)\nf(0)", says: `limit`, status: trajectory.CellTimeout, times: hard, own: true},
	{rule: "a recursion limit below the runner's needs does not stay", off: "hooks", code: "import sys; sys.setrecursionlimit(60)\n# then\nsys.getrecursionlimit() >= 500", says: "True", own: true},
	{rule: "nested text ends", off: "recursion", code: "import json; json.loads('[' * 10 ** 6)", status: trajectory.CellException, says: "RecursionError"},
	{rule: "nested source ends", twin: "eval('-' * 10 + '1')", code: "eval('-' * 10 ** 6 + '1')", status: trajectory.CellException, says: "RecursionError|MemoryError|SyntaxError"},
	{rule: "a decompression bomb ends", off: "sizes", probe: &probe{code: "import zlib\nd = zlib.compressobj(1); b = b''.join(d.compress(bytes(1 << 24)) for _ in range(28)) + d.flush()\nlen(zlib.decompress(b))", says: `MemoryError`}, code: "import zlib\nd = zlib.compressobj(9); b = b''.join(d.compress(bytes(1 << 24)) for _ in range(64)) + d.flush()\nlen(zlib.decompress(b))", status: trajectory.CellException, says: "MemoryError", small: true},
	{rule: "an archive bomb ends", off: "sizes", probe: &probe{code: "import zipfile\nwith zipfile.ZipFile('z.zip', 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('a', bytes(10 << 20))\nzipfile.ZipFile('z.zip').extractall('/tmp')", says: `File too large|No space left`}, code: "import zipfile\nwith zipfile.ZipFile('z.zip', 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('a', bytes(64 << 20))\nzipfile.ZipFile('z.zip').extractall('/tmp')", status: trajectory.CellException, says: "File too large|No space left", small: true},
	{rule: "an image bomb ends", off: "sizes", probe: &probe{code: "from PIL import Image; Image.new('RGB', (16000, 12000))", says: `MemoryError`}, code: "from PIL import Image; Image.new('RGB', (60000, 60000))", status: trajectory.CellException, says: "MemoryError", small: true},
	{rule: "a pickle starts no program", off: "audit seccomp landlock", probe: &probe{code: "import pickle, os\nclass P:\n    def __reduce__(self): return os.system, ('echo > /tmp/x',)\ntry: pickle.loads(pickle.dumps(P()))\nexcept PermissionError: pass\nos.path.exists('/tmp/x')", says: `^False`, ok: true}, code: "import pickle, os\nclass P:\n    def __reduce__(self): return os.system, ('touch /tmp/x',)\npickle.loads(pickle.dumps(P()))", status: trajectory.CellException, says: noPrograms},
	{rule: "a pickle that claims a size ends", twin: "import pickle; pickle.loads(pickle.dumps(1))", code: "import pickle; pickle.loads(b'\\x80\\x04\\x8e' + (1 << 40).to_bytes(8, 'little') + b'x')", status: trajectory.CellException, says: "UnpicklingError|MemoryError"},
	{rule: "entities do not multiply", twin: "import xml.etree.ElementTree as E\nE.fromstring('<!DOCTYPE a [<!ENTITY a \"x\">]><a>&a;</a>'); None", code: "import xml.etree.ElementTree as E\nE.fromstring('<!DOCTYPE a [<!ENTITY a \"' + 'x' * 10000 + '\">' + ''.join(f'<!ENTITY {chr(98 + i)} \"' + f'&{chr(97 + i)};' * 10 + '\">' for i in range(9)) + ']><a>&j;</a>')", status: trajectory.CellException, says: "limit on input amplification|MemoryError"},
	{rule: "a storm of signals ends with its cell", off: "hooks", code: "import signal\nsignal.signal(signal.SIGALRM, lambda *a: None); signal.setitimer(signal.ITIMER_REAL, 1e-5, 1e-5)\n# then\nsum(range(1000)), signal.getitimer(signal.ITIMER_REAL)", says: `^\(499500, \(0\.0, 0\.0\)\)`},
	{rule: "names end", off: "names", code: "globals().update({f'v{i}': i for i in range(100_000)})", status: trajectory.CellException, says: "a statement may change up to 4000 names", own: true},
	{rule: "tables of epoll, timers and events end with descriptors", off: "sizes", code: "import select\nl = []\nwhile True: l.append(select.epoll())", status: trajectory.CellException, says: "limit: a session may hold 64 files open", small: true},
	{rule: "queued signals end", off: "rlimits", code: "b = ctypes.create_string_buffer(64); ctypes.c_int.from_buffer(b, 8).value = 10; ids = ctypes.create_string_buffer(8)\nn = 0\nwhile n < 5000 and sc('timer_create', 1, b, ids) == 'OK': n += 1\nn < 5000", says: "True", own: true},
}

func bounded(t *testing.T, _ *field, sess Session, _ *graph) string {
	t.Helper()
	if n := len(run(t, sess, "print('y' * 10 ** 6)").Output); n >= 20<<10 {
		return fmt.Sprintf("%d bytes of output", n)
	}
	return ""
}
