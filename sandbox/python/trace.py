"""Exceptions as the model sees them: the lines of its cells and the message, nothing of ours."""
import errno
import traceback

TRACEBACK_CHARS = 4000
MESSAGE_CHARS = 1500
CHAIN = 4


# The session's limits by name, set by the runner; for messages only.
limits = {}


def size(n):
    return f"{n / (1 << 30):.4g} GiB" if n >= 1 << 30 else f"{n / (1 << 20):.4g} MiB"


def hint(exc):
    """Which limit of the session an exception is about, as a line of its own."""
    if not limits:
        return ""
    if isinstance(exc, MemoryError):
        return f"\nlimit: a session may use {size(limits['memory'])} of memory; free what is not needed and work in parts"
    if isinstance(exc, RuntimeError) and "start new thread" in str(exc):
        return f"\nlimit: a session may have {limits['threads']} threads"
    code = exc.errno if isinstance(exc, OSError) else None
    if code == errno.EMFILE:
        return f"\nlimit: a session may hold {limits['descriptors']} files open; close them, or use with"
    if code == errno.EFBIG:
        return f"\nlimit: a file may have {size(limits['file'])}"
    if code == errno.ENOSPC:
        return f"\nlimit: the working directory and /tmp hold {size(limits['scratch'])} together; remove files"
    return ""


def exception_only(exc):
    try:
        return middle("".join(traceback.format_exception_only(type(exc), exc)).rstrip(), MESSAGE_CHARS) + hint(exc)
    except Exception:
        return type(exc).__name__[:60]


def render(exc):
    """The text of an exception, whatever the cell did to the modules that make it."""
    try:
        return _render(exc)
    except Exception:
        return type(exc).__name__[:60]


def _render(exc):
    """An exception that led to this one is shown if it passed through a line of a cell."""
    parts = []
    seen = set()
    while exc is not None and id(exc) not in seen and len(parts) < CHAIN:
        seen.add(id(exc))
        frames = [f for f in traceback.extract_tb(exc.__traceback__) if f.filename.startswith("<cell ")]
        if frames or not parts:
            lines = ["Traceback (most recent call last):\n"] if frames else []
            lines += traceback.StackSummary.from_list(frames).format()
            parts.append("".join(lines) + exception_only(exc))
        if exc.__cause__ is not None:
            exc = exc.__cause__
        else:
            exc = None if exc.__suppress_context__ else exc.__context__
    parts.reverse()
    return middle("\n\nand then:\n\n".join(parts), TRACEBACK_CHARS)


def forget(exc):
    """Drops the frames that an exception holds, and with them every object in them."""
    for _ in range(100):
        if exc is None:
            return
        exc.__traceback__ = None
        exc = exc.__cause__ or exc.__context__


def middle(text, limit):
    if len(text) <= limit:
        return text
    half = limit // 2
    return text[:half] + f"\n[... {len(text) - 2 * half} characters left out ...]\n" + text[-half:]
