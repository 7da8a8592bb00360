"""The trainer's inference server in the whole-line test: vLLM's wire, scripted text, a tiny model's log-probs."""

import json
import re
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import serve

_GROUP = re.compile(r"request~2F([a-z]+)(\d)x\d(~2D\w+)?-\d+")


class Script(serve.Policy):
    """Says for group <kind><prompt>x<n> what the script has for that prompt, and notes every call.

    Groups of kind "flat" say the same in all of their rollouts. RemoteAgentLoop asks for groups of one under
    names of its own: the k-th one says what the script has for sample k.
    """

    def __init__(self, script: Path, prompt_ids: list[str]):
        super().__init__(script)
        self.prompt_ids = prompt_ids
        self.calls: list[tuple[str, dict]] = []
        self._names: dict[str, list[str]] = {}
        self._noting = threading.Lock()

    def complete(self, request_id: str, request: dict) -> dict:
        if found := _GROUP.search(request_id):
            with self._noting:
                self.calls.append((found[1], request))
        return super().complete(request_id, request)

    def _scripted(self, request_id: str, prompt: list[int]) -> list[int] | None:
        found = _GROUP.search(request_id)
        if found is None:
            return super()._scripted(request_id, prompt)
        kind, number, own_name = found.groups()
        sample, attempt, turn = request_id.rsplit("/", 1)[1].split(".")
        if kind == "flat":
            sample = "0"
        if own_name:
            with self._noting:
                names = self._names.setdefault(f"{kind}{number}", [])
                if own_name not in names:
                    names.append(own_name)
                sample = str(names.index(own_name))
        return super()._scripted(f"run/{self.prompt_ids[int(number)]}-0/{sample}.{attempt}.{turn}", prompt)


class Handler(serve.Handler):
    def do_GET(self) -> None:
        if self.path == "/weight_info":  # versions come from the trainer
            self._answer(404, {})
        elif self.path == "/v1/models":  # the name that the line asks for: its own policy is a script
            model = {"id": "scripted", "object": "model", "max_model_len": serve.CONTEXT}
            self._answer(200, {"object": "list", "data": [model]})
        else:
            super().do_GET()


def start(script: Path, prompts: list[dict]) -> tuple[Script, str, ThreadingHTTPServer]:
    """Serves the prompts of verl's dataset; returns the policy, its HOST:PORT and the server."""
    serve.SAMPLED = -1  # everything is scripted
    ids = [json.loads(p["extra_info"]["task_json"])["id"] for p in prompts]
    policy = Script(script, ids)
    handler = type("Bound", (Handler,), {"policy": policy})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return policy, f"127.0.0.1:{server.server_port}", server
