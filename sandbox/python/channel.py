"""Frames on the control descriptor: a big-endian u32 length and one JSON object with the nonce of the
request it belongs to.

Invariant: frames never mix, whatever interrupts: a frame that is asked for while another is being
written (by a finalizer or a signal handler) leaves after it.
"""
import json
import threading
# Bound here: what a cell does to these modules must not reach the session's own words.
from os import _exit, read as _read, write as _write

CONTROL = 3


# The parts of json that are in C: its Python parts use the builtins that a cell can replace. ASCII keeps
# lone surrogates out of the bytes; the last argument keeps bare NaN out of the JSON.
_encode = json.encoder.c_make_encoder({}, None, json.encoder.c_encode_basestring_ascii, None, ":", ",", False, False, False)
_decode = json.scanner.c_make_scanner(json.JSONDecoder())


class TooLong(Exception):
    """The frame would be longer than the supervisor reads."""


def _read_exactly(n, patient):
    parts = []
    while n:
        try:
            part = _read(CONTROL, min(n, 1 << 16))
        except OSError:
            raise
        except BaseException:
            # A signal handler of the model's, come too late: between cells nobody is there to see.
            if not patient:
                raise
            continue
        if not part:
            _exit(0)
        parts.append(part)
        n -= len(part)
    return b"".join(parts)


def read(patient=False):
    return _decode(str(_read_exactly(int.from_bytes(_read_exactly(4, patient), "big"), patient), "utf-8"), 0)[0]


class Channel:
    def __init__(self):
        self.nonce = ""
        self.limit = 1 << 20
        self.lock = threading.RLock()
        self.writing = False
        self.asking = False
        self.waiting = []

    def _encode(self, body):
        body["nonce"] = self.nonce
        data = "".join(_encode(body, 0)).encode("ascii")
        if len(data) > self.limit:
            raise TooLong
        return len(data).to_bytes(4, "big") + data

    def busy(self):
        """Whether a frame is on its way: an exception now would cut it in two."""
        return self.asking or self.writing

    def mine(self):
        """Whether this thread is at a frame."""
        return self.lock._is_owned()

    def say(self, **body):
        """Sends a frame that has no answer."""
        with self.lock:
            self._send(self._encode(body))

    def _send(self, data):
        self.waiting.append(data)
        if self.writing:
            return
        self.writing = True
        try:
            while self.waiting:
                data = self.waiting[0]
                while data:
                    data = data[_write(CONTROL, data):]
                self.waiting.pop(0)
        finally:
            self.writing = False

    def ask(self, **body):
        """Sends a frame and returns the answer."""
        with self.lock:
            if self.asking or self.writing:
                raise RuntimeError("one claim is being made already")
            self.asking = True
            try:
                self._send(self._encode(body))
                return read()
            finally:
                self.asking = False
