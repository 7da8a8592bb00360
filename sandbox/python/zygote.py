"""The interpreter that sessions are forked from.

Invariant: it runs no model code, has one thread when it forks, and after the last line of prepare no
byte of its heap changes: it waits in C. What returns from the wait is a session.
"""
import builtins
import ctypes
import gc
import io
import json
import linecache
import mmap
import os
import re
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


class _Over(BaseException):
    """The rehearsal is over."""


def rehearse(runner, session, start, cells):
    """Runs a whole session up to its last cell's result, with frames to and from nobody."""
    requests = iter([start] + [{"nonce": "", "cell": i, "code": code} for i, code in enumerate(cells, 1)])

    def read(patient=False):
        for request in requests:
            return request
        raise _Over

    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    runner.channel.CONTROL, runner.channel.read = nowhere, read
    try:
        runner.main(session)
    except _Over:
        pass


def exercise(cells):
    """Runs cells for what they import and cache, without a session; up to the first package that is not there."""
    kept = sys.stdout
    sys.stdout = io.StringIO()
    space = {"__name__": "exercise"}
    try:
        for code in cells:
            exec(compile(code, "<exercise>", "exec", dont_inherit=True), space)
    except ImportError:
        pass  # an environment without a package serves sessions without it
    finally:
        sys.stdout = kept
    space.clear()


def preload(names):
    """Imports what is there; an environment without a package serves sessions without it."""
    missing = []
    for name in names:
        try:
            __import__(name)
        except ImportError:
            missing.append(name)
    return missing


def close_files():
    """Sessions have no descriptor but 0 to 3: an object that holds another would read from a stranger."""
    fonts = sys.modules.get("matplotlib.font_manager")
    if hasattr(fonts, "_get_font"):
        fonts._get_font.cache_clear()
    gc.collect()
    left = []
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            if fd > 3:
                left.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:
            pass  # the listing's own
    if left:
        raise RuntimeError(f"the imports left files open: {', '.join(left)[:500]}")


def fill_pools():
    """Takes every free block of the allocator's half-used pools, so that what a session allocates
    lies together on new pages and not one block here and one there on pages of the zygote."""
    kept, reading = os.dup(2), os.memfd_create("statistics")
    os.dup2(reading, 2)
    sys._debugmallocstats()
    os.dup2(kept, 2)
    os.close(kept)
    os.lseek(reading, 0, os.SEEK_SET)
    with os.fdopen(reading) as f:
        rows = re.findall(r"^ *\d+ +(\d+) +\d+ +\d+ +(\d+)$", f.read(), re.M)
    return [[bytes(int(size) - 33) for _ in range(int(free))] for size, free in rows if int(size) > 33]


def watch_dicts(helper, watch):
    """Lets sessions ask what changed in sys.modules and in builtins without touching what did not."""
    modules, names = 0, 1
    helper.vg_keep.argtypes = [ctypes.c_int, ctypes.py_object]
    helper.vg_changes.argtypes = [ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_size_t]
    helper.vg_changes.restype = ctypes.c_size_t
    watch.BASE = dict(sys.modules)
    if helper.vg_keep(modules, sys.modules) < 0 or helper.vg_keep(names, builtins.__dict__) < 0:
        raise MemoryError
    ask, watch.rebound = helper.vg_changes, helper.vg_rebound

    def changed():
        keys = (ctypes.c_void_p * 4096)()
        found = [ctypes.cast(keys[i], ctypes.py_object).value for i in range(ask(modules, sys.modules, keys, len(keys)))]
        return {name: sys.modules[name] for name in found}
    watch.changed = changed


def train(helper, runner, session, config):
    """The ranges of pages that a session writes before its first result, measured in a child."""
    shared = mmap.mmap(-1, 8 + RANGES * 16)
    numbers = (ctypes.c_uint64 * (1 + 2 * RANGES)).from_buffer(shared)
    pid = helper.vg_fork()
    if pid == 0:
        try:
            rehearse(runner, session, config["start"], config["rehearse"])
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
    helper = ctypes.PyDLL(config["helper"])  # PyDLL: the interpreter's lock is held across the fork
    if not hasattr(helper, "vg_version") or helper.vg_version() != 2:
        raise RuntimeError(f"{config['helper']} is older than this program; run make python")
    helper.vg_private_pages.restype = helper.vg_collapse.restype = helper.vg_merge.restype = ctypes.c_size_t
    helper.vg_regions()
    environment = set(os.environ)
    # A warning that was given here would not be given again where the model causes it.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        missing = preload(config["preload"])
        if not missing:
            exercise(config["warm"])
        exercise(config["rehearse"])
    close_files()
    for name in set(os.environ) - environment:  # set by what was imported
        del os.environ[name]
    linecache.clearcache()
    gc.collect()
    filling = fill_pools()
    # What every session touches comes last, so that it lies together.
    runner = _runner()
    session = runner.prepare()
    watch_dicts(helper, runner.watch)
    gc.freeze()
    helper.vg_seal()
    helper.vg_merge()
    huge = helper.vg_collapse() if config["collapse"] else 0
    ranges, count = train(helper, runner, session, config) if config["prefault"] else (None, 0)
    if count:
        helper.vg_prefault(ranges, ctypes.c_size_t(count))
    threads = helper.vg_threads()
    if threads != 1:
        raise RuntimeError(f"{threads} threads after the imports; a fork would copy one of them only")
    return helper, runner, session, (ranges, filling), {
        "version": sys.version.split()[0], "missing": missing, "huge_pages": huge,
        "pages": sum(ranges[1:2 * count:2]) // 4096 if count else 0}


def _say(body):
    data = json.dumps(body).encode("ascii")
    os.write(3, len(data).to_bytes(4, "big") + data)


def main():
    config = _runner().channel.read()
    try:
        helper, runner, session, _kept, about = prepare(config)
    except BaseException as exc:
        _say({"failed": {"error": f"{type(exc).__name__}: {str(exc)[:2000]}"}})
        os._exit(1)
    _say({"zygote": about})
    flags = helper.vg_serve(*map(ctypes.c_uint32, config["ids"]))
    # From here on this is a session.
    threading.main_thread()._set_native_id()
    if flags & EXERCISE:
        exercise(config["rehearse"])
        _say({"ready": {"version": about["version"]}})
    helper.vg_claim()
    runner.main(session)
