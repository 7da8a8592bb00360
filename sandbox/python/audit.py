"""What the interpreter's audit events tell: data files that are opened, and what is refused.

Refusals here are for the message; what enforces them is the kernel. Invariant: nothing that the hook
calls raises an audit event in turn.
"""
import os

MAX_OPENED = 200

PROGRAMS = frozenset((
    "subprocess.Popen", "os.system", "os.startfile", "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn"))
NETWORK = frozenset((
    "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr",
    "socket.getnameinfo", "socket.sendto"))
DENIED = {
    "gc.get_objects": "gc", "gc.get_referrers": "gc", "gc.get_referents": "gc",
    "sys._getframe": "frames", "sys._current_frames": "frames", "sys.settrace": "sys.settrace",
    "sys.setprofile": "sys.setprofile", "sys.addaudithook": "sys.addaudithook",
    "sys.monitoring.register_callback": "sys.monitoring", "sys._current_exceptions": "frames",
    "ctypes.dlopen": "ctypes", "ctypes.dlsym": "ctypes", "ctypes.addressof": "ctypes", "code.__new__": "code objects"}


def _stands_writable(path):
    """Whether the file is there and not on a read-only mount: an environment may lie below /tmp."""
    try:
        return not os.statvfs(path).f_flag & os.ST_RDONLY
    except OSError:
        return False


class _Here(Exception):
    pass


class Audit:
    """files maps real paths to names of data files; state has running; taint is told of constructs."""

    def __init__(self, state, taint):
        self.files, self.state, self.taint = {}, state, taint
        self.opened = []
        self.off = False         # a test shows what the hook is there for
        self.place()

    def place(self):
        """Learns where the session writes."""
        self.writable = tuple(os.path.realpath(d) + "/" for d in {os.environ.get("HOME", "/scratch"), os.environ.get("TMPDIR", "/tmp")})

    def take(self):
        """The data files opened since the last call."""
        opened, self.opened = self.opened, []
        return sorted(opened)

    def hook(self, event, args):
        if self.off:
            return
        if event == "open":
            if self.state.running:
                self._open(args[0], args[2])
        elif event == "os.chdir":
            if self.state.running:
                self._leave(args[0])
        elif event in PROGRAMS:
            raise PermissionError("this session can't start other programs or processes; do the work in Python, in this process")
        elif event in NETWORK or (event == "socket.__new__" and args[1] in (2, 10)):
            raise PermissionError("this session has no network; only the task's own files are there")
        elif event in DENIED:
            # Only what the cell itself does: libraries use frames and ctypes all the time.
            if self.state.running and self._caller().startswith("<cell "):
                self.taint(DENIED[event])
        elif event == "sqlite3.connect":
            if self.state.running:
                self._open(args[0], 0)

    @staticmethod
    def _caller():
        """The file of the frame that raised the event; sys._getframe would raise another one."""
        try:
            raise _Here
        except _Here as exc:
            frame = exc.__traceback__.tb_frame.f_back.f_back
            while frame is not None and frame.f_code.co_filename.endswith("/ctypes/__init__.py"):
                frame = frame.f_back
            return frame.f_code.co_filename if frame is not None else ""

    def _open(self, path, flags):
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str):
            return
        if path.endswith((".py", ".pyc", ".so")):
            if os.path.realpath(path).startswith(self.writable) and _stands_writable(path):
                # Code that the static pass does not see, perhaps under the name of a library.
                self.taint("module from the working directory")
            return
        if path.startswith(("/proc/", "/dev/fd/")) and ("/fd/" in path or path.endswith("/mem")):
            self.taint("raw descriptors" if "/fd/" in path else "process memory")
            return
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR) == os.O_WRONLY:
            return
        try:
            path = os.path.realpath(path)
        except (OSError, ValueError):
            return
        name = self.files.get(path)
        if name is None:
            if path.startswith(self.writable) and os.path.basename(path) in map(os.path.basename, self.files.values()):
                # The static pass knows files by their last names.
                self.taint("a data file's name elsewhere")
        elif name not in self.opened and len(self.opened) < MAX_OPENED:
            self.opened.append(name)

    def _leave(self, path):
        """Where a name of a data file means another file, readers that raise no events would open that one."""
        try:
            path = os.path.realpath("/proc/self/fd/%d" % path if isinstance(path, int) else os.fsdecode(path))
        except (OSError, ValueError, TypeError):
            return
        if path.startswith(self.writable):
            self.taint("os.chdir")
