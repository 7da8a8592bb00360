"""Custom outcome scorers: one Python function behind HTTP or gRPC.

    import verigraph.scorer

    @verigraph.scorer
    def grade(item):
        return float(item.answer.strip() == item.reference.text)

    $ python -m verigraph.scorer my_scorers.py:grade --port 8099

Name it in the reward server's configuration (``reward.scorers``) and in the prompts' ``meta.scorer``.

A grade counts only if the function returned one. The function runs in worker processes that are killed when
they exceed the time limit, so a loop, a crash or an exception in it is never a score: the server says that it
has none, and the rollout leaves as unscored.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import http.server
import importlib
import importlib.util
import json
import math
import os
import queue
import select
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MAX_REQUEST = 32 << 20
"""Bytes of one request."""


class Refused(Exception):
    """Raised by a scorer for an answer that it can't grade. The rollout is then unscored or unjudgeable."""


class Unavailable(Exception):
    """No worker gave a grade: the function crashed or ran out of time. The caller may ask again."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """One submitted claim. kind: atomic or derived; structural: its numbers come from the data; lexical: it brings no new ones."""

    id: str
    kind: str
    text: str
    structural: bool = False
    lexical: bool = False


@dataclasses.dataclass(frozen=True)
class Reference:
    """The reference answer: named sub-answers as texts, or a free text; meta is the benchmark's own."""

    answers: dict[str, str]
    text: str
    meta: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Item:
    """What a scorer sees of a rollout.

    answer: the submitted claims' texts, joined by newlines
    evidence: the subgraph of the submitted claims, as text
    termination: why the trajectory ended, e.g. submitted
    """

    prompt_id: str
    question: str
    data_source: str
    answer: str
    evidence: str
    termination: str
    reference: Reference
    claims: tuple[Claim, ...]

    @classmethod
    def from_json(cls, request: dict[str, Any]) -> Item:
        """Of the body of an HTTP request; what is missing is empty. Raises KeyError or TypeError for another body."""
        prompt, ref = request.get("prompt") or {}, request.get("reference") or {}
        return cls(
            prompt_id=prompt.get("id", ""),
            question=prompt.get("question", ""),
            data_source=prompt.get("data_source", ""),
            answer=request.get("answer", ""),
            evidence=request.get("evidence", ""),
            termination=request.get("termination", ""),
            reference=Reference(
                answers={a["name"]: a["value"] for a in ref.get("answers") or []},
                text=ref.get("text", ""),
                meta=ref.get("meta") or {},
            ),
            claims=tuple(Claim(**c) for c in request.get("claims") or []),
        )


@dataclasses.dataclass(frozen=True)
class Grade:
    """score in [0, 1], or axes whose mean it is. correct: whether the whole answer is right, if known."""

    score: float | None = None
    correct: bool | None = None
    reason: str = ""
    axes: dict[str, float] = dataclasses.field(default_factory=dict)

    def checked(self) -> Grade:
        """Raises TypeError or ValueError for what is no grade."""
        named = {**({} if self.score is None else {"score": self.score}), **self.axes}
        if not named:
            raise ValueError("neither score nor axes are given")
        for name, value in named.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"{name} is {type(value).__name__}, not a number")
            if not math.isfinite(value) or not 0 <= value <= 1:
                raise ValueError(f"{name} {value} is not between 0 and 1")
        return self


class Scorer:
    """A function with its result made a Grade. It stays callable as it was."""

    def __init__(self, function: Callable[[Item], Any]):
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    def __call__(self, item: Item) -> Any:
        """What the function returns."""
        return self.function(item)

    def grade(self, item: Item) -> Grade:
        """Accepts a Grade, a bool (right or wrong) or a number from the function; None is no grade.

        Raises TypeError or ValueError for what is no grade, and what the function raises.
        """
        result = self.function(item)
        if isinstance(result, Grade):
            return result.checked()
        if isinstance(result, bool):
            return Grade(score=float(result), correct=result)
        if isinstance(result, int | float):
            return Grade(score=float(result)).checked()
        raise TypeError(f"{self.__name__} returned {type(result).__name__}, not a grade")


def load(spec: str) -> Scorer:
    """FILE.py:NAME or MODULE:NAME; a plain function is wrapped.

    Raises ValueError for another spec, and what importing or looking up the name raises.
    """
    where, _, name = spec.rpartition(":")
    if not where:
        raise ValueError(f"{spec!r}: want FILE.py:NAME or MODULE:NAME")
    if where.endswith(".py"):
        module_spec = importlib.util.spec_from_file_location(Path(where).stem, where)
        if module_spec is None or module_spec.loader is None:
            raise ValueError(f"{where}: no Python file")
        module = importlib.util.module_from_spec(module_spec)
        module_spec.loader.exec_module(module)
    else:
        module = importlib.import_module(where)
    found = getattr(module, name)
    return found if isinstance(found, Scorer) else Scorer(found)


def _work(spec: str) -> None:
    """A worker: one request a line on stdin, one answer a line on the real stdout. Prints go to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    scorer = load(spec)
    out.write('{"ready": true}\n')
    out.flush()
    for line in sys.stdin:
        try:
            reply: dict[str, Any] = {"grade": dataclasses.asdict(scorer.grade(Item.from_json(json.loads(line))))}
        except Refused as e:
            reply = {"refused": str(e)}
        except Exception as e:  # noqa: BLE001  whatever it is, it is no grade
            reply = {"refused": f"{type(e).__name__}: {e}"}
        out.write(json.dumps(reply) + "\n")
        out.flush()


class _Worker:
    def __init__(self, spec: str, start_timeout: float):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "verigraph.scorer", spec, "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.buffer = b""
        if self.read(start_timeout) != {"ready": True}:
            self.close()
            raise Unavailable("the worker did not start")

    def read(self, timeout: float) -> Any:
        """One line within timeout seconds, else None."""
        end = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))
            data = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
            if not data:
                return None
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def ask(self, request: dict[str, Any], timeout: float) -> Any:
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            return None
        return self.read(timeout)

    def close(self) -> None:
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        self.process.wait()


class Pool:
    """Worker processes of one scorer. Safe for use from many threads."""

    def __init__(self, spec: str, workers: int = 4, timeout: float = 30.0, start_timeout: float = 60.0):
        self.spec, self.timeout, self.start_timeout = spec, timeout, start_timeout
        self.free: queue.Queue[_Worker] = queue.Queue()
        try:
            for _ in range(workers):
                self.free.put(_Worker(spec, start_timeout))
        except BaseException:
            self.close()
            raise
        self.workers = workers

    def grade(self, request: dict[str, Any]) -> Grade:
        """Raises Refused for an answer that can't be graded and Unavailable where the worker was lost."""
        worker = self.free.get()
        try:
            reply = worker.ask(request, self.timeout)
            if reply is None:
                worker.close()
                worker = _Worker(self.spec, self.start_timeout)
                raise Unavailable(f"no grade within {self.timeout} s, or the worker died")
        finally:
            self.free.put(worker)
        if "refused" in reply:
            raise Refused(reply["refused"])
        return Grade(**reply["grade"])

    def close(self) -> None:
        """Kills the workers."""
        while True:
            try:
                self.free.get_nowait().close()
            except queue.Empty:
                return


class _Handler(http.server.BaseHTTPRequestHandler):
    pool: Pool
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:  # the name is http.server's
        try:
            length = int(self.headers.get("Content-Length", ""))
            if not 0 <= length <= MAX_REQUEST:
                raise ValueError(f"{length} bytes")
            request = json.loads(self.rfile.read(length))
            if request.get("version") != 1:
                raise ValueError(f"version {request.get('version')}")
        except (ValueError, AttributeError) as e:
            self.close_connection = True
            return self.answer(400, {"error": f"bad request: {e}"})
        try:
            grade = self.pool.grade(request)
        except Refused as e:
            return self.answer(422, {"error": str(e)})
        except Exception as e:  # noqa: BLE001  a lost worker, or a fault of ours: an outage to the caller
            return self.answer(503, {"error": str(e)})
        return self.answer(200, dataclasses.asdict(grade))

    def do_GET(self) -> None:  # the name is http.server's
        self.answer(200 if self.path == "/healthz" else 404, {})

    def answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def serve_http(pool: Pool, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serves until the block ends; yields the URL."""
    handler = type("Handler", (_Handler,), {"pool": pool})
    server = http.server.ThreadingHTTPServer((host, port), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="scorer")
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def serve_grpc(pool: Pool, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """The same over gRPC (verigraph.v1.OutcomeScorer); yields grpc://HOST:PORT."""
    from concurrent import futures

    import grpc

    from verigraph.v1 import reward_service_pb2 as pb
    from verigraph.v1 import reward_service_pb2_grpc as rpc

    class Service(rpc.OutcomeScorerServicer):
        def Grade(self, request: Any, context: Any) -> Any:  # the name is the wire's
            try:
                grade = pool.grade(_from_proto(request))
            except Refused as e:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(e))
            except Unavailable as e:
                context.abort(grpc.StatusCode.UNAVAILABLE, str(e))
            return pb.GradeResponse(
                score=grade.score,
                correct=grade.correct,
                reason=grade.reason,
                axes=[pb.GradeAxis(name=k, value=v) for k, v in grade.axes.items()],
            )

    server = grpc.server(
        futures.ThreadPoolExecutor(pool.workers), options=[("grpc.max_receive_message_length", MAX_REQUEST)]
    )
    rpc.add_OutcomeScorerServicer_to_server(Service(), server)
    bound = server.add_insecure_port(f"{host}:{port}")
    server.start()
    try:
        yield f"grpc://{host}:{bound}"
    finally:
        server.stop(grace=None).wait()


def _from_proto(request: Any) -> dict[str, Any]:
    p = request.prompt
    meta = json.loads(request.reference_meta_json) if request.reference_meta_json else {}
    return {
        "prompt": {"id": p.id, "question": p.question, "data_source": p.data_source},
        "reference": {
            "answers": [{"name": a.name, "value": a.value} for a in p.answers],
            "text": p.answer_text,
            "meta": meta,
        },
        "answer": request.answer,
        "evidence": request.evidence,
        "termination": request.termination,
        "claims": [
            {"id": c.id, "kind": c.kind, "text": c.text, "structural": c.structural, "lexical": c.lexical}
            for c in request.claims
        ],
    }


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m verigraph.scorer", description="serve a custom outcome scorer")
    parser.add_argument("scorer", help="FILE.py:NAME or MODULE:NAME")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--grpc", action="store_true", help="serve gRPC in place of HTTP")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds for one grade")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.worker:
        _work(args.scorer)
        return 0
    pool = Pool(args.scorer, args.workers, args.timeout)
    try:
        with (serve_grpc if args.grpc else serve_http)(pool, args.host, args.port) as url:
            print(f"scorer {args.scorer} on {url}", flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                threading.Event().wait()
    finally:
        pool.close()
    return 0


class _Decorator(types.ModuleType):
    """Lets ``@verigraph.scorer`` be the decorator as well as the module."""

    def __call__(self, function: Callable[[Item], Any]) -> Scorer:
        return Scorer(function)


sys.modules[__name__].__class__ = _Decorator

if __name__ == "__main__":
    from verigraph.scorer import main as _main  # the module's own classes, not those of __main__

    sys.exit(_main())
