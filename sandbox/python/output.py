"""What a cell prints, and which thread prints it.

Invariant: a thread belongs to the cell that started it, directly or through other threads, and what
it prints later than that cell is dropped. Bytes written to descriptors 1 and 2 without sys.stdout
can't be told apart by thread: those that come between cells are dropped by the supervisor.
"""
import io
import os
import threading
import time
import _thread


class Threads:
    """Knows the cell of every thread; state has cell and running."""

    def __init__(self, state):
        self.state = state
        self.local = threading.local()

    def mine(self):
        """Whether the calling thread belongs to the cell that runs."""
        state = self.state
        return state.running and getattr(self.local, "cell", state.cell) == state.cell

    def adopt(self):
        """Makes the calling thread the present cell's."""
        self.local.cell = self.state.cell

    def _inherit(self, start):
        local, state = self.local, self.state

        def starting(function, *args, **kwargs):
            cell = getattr(local, "cell", state.cell)

            def run(*a, **k):
                local.cell = cell
                return function(*a, **k)
            return start(run, *args, **kwargs)
        return starting

    def install(self):
        _thread.start_new_thread = _thread.start_new = threading._start_new_thread = self._inherit(_thread.start_new_thread)
        joinable = getattr(_thread, "start_joinable_thread", None)
        if joinable is not None:
            _thread.start_joinable_thread = threading._start_joinable_thread = self._inherit(joinable)


class Output:
    """Writes to descriptor 1, at once while a cell has printed little and in blocks after that."""

    def __init__(self, head, threads):
        self.head = head
        self.mine = threads.mine
        # Reentrant: a finalizer or a signal handler may print in the middle of a print.
        self.lock = threading.RLock()
        self.reset()

    def reset(self):
        self.written = 0
        self.pending = bytearray()
        self.flushed_at = 0.0

    def write(self, data):
        if not self.mine():
            return
        with self.lock:
            self.written += len(data)
            if self.written <= self.head:
                self._out(data)
                return
            self.pending += data
            now = time.monotonic()
            if len(self.pending) >= 1 << 16 or now - self.flushed_at > 0.1:
                self._flush()
                self.flushed_at = now

    def flush(self):
        with self.lock:
            self._flush()

    def _flush(self):
        data, self.pending = bytes(self.pending), bytearray()
        self._out(data)

    @staticmethod
    def _out(data):
        view = memoryview(data)
        while view:
            view = view[os.write(1, view):]


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
