"""The interpreter that sessions are forked from.

Invariant: it runs no model code, has one thread when it forks, and after the last line of prepare no
byte of its heap changes: it waits in C. What returns from the wait is a session.
"""
import ctypes
import gc
import json
import linecache
import mmap
import os
import sys
import threading
import types
import warnings

RANGES = 1 << 14
EXERCISE = 1


def _runner():
    space = {"__name__": "verigraph.runner", "parts": parts}  # parts comes from the bootstrap
    exec(parts["runner"], space)
    return types.SimpleNamespace(**space)


class _Nowhere:
    """A channel to nobody, for rehearsals."""

    nonce = ""

    def __init__(self):
        self.lock = threading.RLock()

    def say(self, **body):
        json.dumps(body, allow_nan=False, separators=(",", ":")).encode("ascii")


class Rehearsal:
    """Runs cells as a session does, and leaves nothing behind but warm code and written pages."""

    def __init__(self, runner, cells):
        self.runner, self.cells = runner, cells

    def run(self):
        kept = sys.stdout, sys.stderr, sys.modules["__main__"]
        session = self.runner.Session({"nonce": "", "frame_bytes": 1 << 20, "head_bytes": 1 << 14, "files": [], "data_dirs": []})
        session.channel = _Nowhere()
        session.out._out = lambda data: None
        sys.stdout, sys.stderr = self.runner.output.make_streams(session.out)
        try:
            for i, code in enumerate(self.cells, 1):
                session.begin({"nonce": "", "cell": i})
                result = session.run(code)
                if result["status"] != "ok":
                    raise RuntimeError(f"rehearsal: cell {i}: {result['traceback'] or result['status']}")
                session.end(result)
                linecache.cache.pop(session.filename, None)
        finally:
            sys.stdout, sys.stderr, sys.modules["__main__"] = kept


def preload(names):
    """Imports what is there; an environment without a package serves sessions without it."""
    missing = []
    for name in names:
        try:
            __import__(name)
        except ImportError:
            missing.append(name)
    return missing


def train(helper, rehearsal):
    """The ranges of pages that a session writes before its first result, measured in a child."""
    shared = mmap.mmap(-1, 8 + RANGES * 16)
    numbers = (ctypes.c_uint64 * (1 + 2 * RANGES)).from_buffer(shared)
    pid = helper.vg_fork()
    if pid == 0:
        try:
            rehearsal.run()
            at = ctypes.cast(ctypes.addressof(numbers) + 8, ctypes.POINTER(ctypes.c_uint64))
            numbers[0] = helper.vg_private_pages(at, RANGES)
        finally:
            os._exit(0)
    if pid > 0:
        os.waitpid(pid, 0)
    count = numbers[0]
    # A copy: what the child could write, and every session would inherit, must not stay mapped.
    ranges = (ctypes.c_uint64 * max(1, 2 * count))(*numbers[1:1 + 2 * count])
    del numbers
    shared.close()
    return ranges, count


def prepare(config):
    sys.path[:] = config["sys_path"]
    sys.argv = ["-c"]
    runner = _runner()
    rehearsal = Rehearsal(runner, config["rehearse"])
    # A warning that was given here would not be given again where the model causes it.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        missing = preload(config["preload"])
        if not missing:
            Rehearsal(runner, config["warm"]).run()
        rehearsal.run()
    helper = ctypes.PyDLL(config["helper"])  # PyDLL: the interpreter's lock is held across the fork
    helper.vg_private_pages.restype = helper.vg_collapse.restype = ctypes.c_size_t
    linecache.clearcache()
    gc.collect()
    gc.freeze()
    huge = helper.vg_collapse() if config["collapse"] else 0
    ranges, count = train(helper, rehearsal) if config["prefault"] else (None, 0)
    if count:
        helper.vg_prefault(ranges, ctypes.c_size_t(count))
    threads = helper.vg_threads()
    if threads != 1:
        raise RuntimeError(f"{threads} threads after the imports; a fork would copy one of them only")
    return runner, rehearsal, helper, ranges, {
        "version": sys.version.split()[0], "missing": missing, "huge_pages": huge,
        "pages": sum(ranges[1:2 * count:2]) // 4096 if count else 0}


def _say(body):
    data = json.dumps(body).encode("ascii")
    os.write(3, len(data).to_bytes(4, "big") + data)


def main():
    config = json.loads(read(int.from_bytes(read(4), "big")))
    try:
        runner, rehearsal, helper, _ranges, about = prepare(config)
    except BaseException as exc:
        _say({"failed": {"error": f"{type(exc).__name__}: {str(exc)[:2000]}"}})
        os._exit(1)
    _say({"zygote": about})
    flags = helper.vg_serve(*map(ctypes.c_uint32, config["ids"]))
    # From here on this is a session.
    threading.main_thread()._set_native_id()
    if flags & EXERCISE:
        rehearsal.run()
        _say({"ready": {"version": about["version"]}})
    helper.vg_claim()
    runner.main()
