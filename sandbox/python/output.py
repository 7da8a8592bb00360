"""What a cell prints, and which thread prints it.

Invariant: a thread belongs to the cell that started it, directly or through other threads, and what
it prints later than that cell is dropped. Bytes written to descriptors 1 and 2 without sys.stdout
can't be told apart by thread: those that come between cells are dropped by the supervisor, and while
a thread of an earlier cell lives none of them are shown.
"""
import fcntl
import io
import os
import threading
import _thread
# Bound here: what a cell does to the modules must not reach the session's own output.
from os import write
from time import monotonic


class Threads:
    """Knows the cell of every thread, task and handler; state has cell and running, watched is the
    context variable that holds the cell of a task or a handler."""

    def __init__(self, state, watched):
        self.state, self.watched = state, watched
        self.local = threading.local()
        # The cell of each thread that has not ended, by an object of its own.
        self.alive = {}

    def current(self):
        cell = self.watched.get()
        return getattr(self.local, "cell", self.state.cell) if cell is None else cell

    def mine(self):
        """Whether what calls belongs to the cell that runs."""
        state = self.state
        return state.running and getattr(self.local, "cell", state.cell) == state.cell \
            and self.watched.get() in (None, state.cell)

    def adopt(self):
        """Makes the calling thread the present cell's."""
        self.local.cell = self.state.cell
        self.watched.set(self.state.cell)

    def _inherit(self, start):
        local, current, alive = self.local, self.current, self.alive

        def starting(function, *args, **kwargs):
            cell, key = current(), object()

            def run(*a, **k):
                local.cell = cell
                try:
                    return function(*a, **k)
                finally:
                    alive.pop(key, None)
            alive[key] = cell
            try:
                return start(run, *args, **kwargs)
            except BaseException:
                alive.pop(key, None)
                raise
        return starting

    def install(self):
        _thread.start_new_thread = _thread.start_new = threading._start_new_thread = self._inherit(_thread.start_new_thread)
        joinable = getattr(_thread, "start_joinable_thread", None)
        if joinable is not None:
            _thread.start_joinable_thread = threading._start_joinable_thread = self._inherit(joinable)


class Output:
    """Writes to descriptor 1, at once while a cell has printed little and in blocks after that."""

    def __init__(self, threads):
        self.head = 0
        self.mine = threads.mine
        # Reentrant: a finalizer or a signal handler may print in the middle of a print.
        self.lock = threading.RLock()
        self.descriptor = 1
        self.reset()

    def reset(self):
        self.late = 0
        self.written = 0
        self.pending = bytearray()
        self.flushed_at = 0.0

    def write(self, data):
        if not self.mine():
            self.late += len(data)
            return
        with self.lock:
            self.written += len(data)
            if self.written <= self.head:
                self._out(data)
                return
            self.pending += data
            now = monotonic()
            if len(self.pending) >= 1 << 16 or now - self.flushed_at > 0.1:
                self._flush()
                self.flushed_at = now

    def flush(self):
        with self.lock:
            self._flush()

    def _flush(self):
        data, self.pending = bytes(self.pending), bytearray()
        self._out(data)

    def _out(self, data):
        view = memoryview(data)
        try:
            while view:
                view = view[write(self.descriptor, view):]
        except OSError:
            # The cell closed the descriptor: its output is lost, and nothing else.
            pass

    def divert(self, away):
        """While threads of earlier cells live, descriptors 1 and 2 lead nowhere and only what this
        cell prints through sys.stdout is shown: bytes can't be told apart by thread."""
        if away == (self.descriptor != 1):
            return
        try:
            self._divert(away)
        except OSError:
            # A cell that closes or exhausts descriptors loses what they would have shown.
            pass

    def _divert(self, away):
        if away:
            kept = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 10)
            nowhere = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            os.close(nowhere)
            self.descriptor = kept
        else:
            os.dup2(self.descriptor, 1)
            os.dup2(self.descriptor, 2)
            os.close(self.descriptor)
            self.descriptor = 1


def make_streams(out):
    class Raw(io.RawIOBase):
        def writable(self):
            return True

        def write(self, data):
            data = bytes(data)
            out.write(data)
            return len(data)

        def fileno(self):
            return 1

    class Text(io.TextIOBase):
        encoding = "utf-8"
        errors = "backslashreplace"
        newlines = None
        buffer = Raw()
        name = "<stdout>"
        mode = "w"

        def writable(self):
            return True

        def write(self, text):
            if not isinstance(text, str):
                raise TypeError(f"write() argument must be str, not {type(text).__name__}")
            out.write(text.encode("utf-8", "backslashreplace"))
            return len(text)

        def flush(self):
            out.flush()

        def close(self):
            pass

        def fileno(self):
            return 1

        def isatty(self):
            return False

        def reconfigure(self, **options):
            pass

    return Text(), Text()
