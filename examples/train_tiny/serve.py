"""Serves the tiny model with vLLM's wire, and runs a command against it.

python serve.py --script FILE -- COMMAND ... {url} ...

Samples 0 to 2 of a group say what the script says, and the model gives the log-prob of every id: as far
as tokens, masks and probabilities go, the script is a very lucky sample. Sample 3 is really sampled.
{url} in the command becomes the server's address; the command's exit code is ours.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import torch
from model import CONTEXT, TOKENIZER, build, log_probs
from tokenizers import Tokenizer

SAMPLED = 3  # this sample of every group comes from the model itself
HEADER = "<|im_start|>assistant\n"


class Policy:
    """Chooses ids and scores them. One call at a time: the model is tiny and the order then is the same."""

    def __init__(self, script: Path):
        self.model, self.tokenizer = build(), Tokenizer.from_file(str(TOKENIZER))
        self.end = self.tokenizer.token_to_id("<|im_end|>")
        self.header = self.tokenizer.encode(HEADER, add_special_tokens=False).ids
        lines = [json.loads(line) for line in script.read_text("utf-8").splitlines() if line]
        self.turns = {(line["prompt_id"], line["sample"]): line["turns"] for line in lines}
        self.lock = threading.Lock()

    def complete(self, request_id: str, request: dict) -> dict:
        prompt, limit = request["prompt"], request["max_tokens"]
        with self.lock, torch.no_grad():
            wanted = self._scripted(request_id, prompt)
            ids = self._sample(prompt, limit) if wanted is None else wanted[:limit]
            ids, finish, stop = self._stop(ids, request)
            scores = self._score(prompt, ids)
        names = [f"token_id:{i}" for i in ids]
        choice = {
            "index": 0,
            "text": self.tokenizer.decode(ids, skip_special_tokens=False),
            "finish_reason": finish,
            "stop_reason": stop,
            "token_ids": ids,
            "prompt_token_ids": prompt,
            "logprobs": {
                "tokens": names,
                "token_logprobs": scores,
                "top_logprobs": [{n: s} for n, s in zip(names, scores, strict=True)],
                "text_offset": [0] * len(ids),
            },
        }
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(ids), "total_tokens": len(prompt) + len(ids)}
        return {"id": request_id, "object": "text_completion", "created": 0, "model": "tiny", "choices": [choice], "usage": usage}

    def _scripted(self, request_id: str, prompt: list[int]) -> list[int] | None:
        """The rest of the turn that run/dispatch/sample.attempt.turn names; None to sample."""
        parts = request_id.rsplit("/", 2)
        if len(parts) != 3:
            return [self.end]  # the client's probe
        sample, _, turn = (int(n) for n in parts[2].split("."))
        turns = self.turns[(parts[1].rsplit("-", 1)[0], sample)]
        if sample == SAMPLED:
            return None
        if turn >= len(turns):
            return [self.end]
        ids = [*self.tokenizer.encode(turns[turn], add_special_tokens=False).ids, self.end]
        for start in range(len(prompt) - len(self.header), -1, -1):
            if prompt[start : start + len(self.header)] == self.header:
                said = prompt[start + len(self.header) :]
                return ids[len(said) :] if ids[: len(said)] == said else ids
        return ids

    def _sample(self, prompt: list[int], limit: int) -> list[int]:
        ids, cache, step = [], None, torch.tensor([prompt])
        while len(ids) < limit and (not ids or ids[-1] != self.end):
            out = self.model(input_ids=step, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            step = torch.multinomial(out.logits[0, -1].float().softmax(-1), 1)[None]
            ids.append(int(step))
        return ids

    def _stop(self, ids: list[int], request: dict) -> tuple[list[int], str, str | None]:
        """Cuts at the first id whose text completes a stop string, or at the end of the turn."""
        text = ""
        for n, one in enumerate(ids, start=1):
            if one == self.end:
                return ids[:n], "stop", None
            text = self.tokenizer.decode(ids[:n], skip_special_tokens=False)
            for stop in request.get("stop") or []:
                if stop in text:
                    return ids[:n], "stop", stop
        return ids, "length", None

    def _score(self, prompt: list[int], ids: list[int]) -> list[float]:
        whole = torch.tensor([prompt + ids])
        got = log_probs(self.model, whole, torch.ones_like(whole), torch.arange(whole.shape[1])[None])
        return got[0, len(prompt) - 1 :].tolist()


class Handler(BaseHTTPRequestHandler):
    policy: Policy
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": "tiny", "object": "model", "max_model_len": CONTEXT}]}
        answers = {"/v1/models": models, "/health": {}, "/weight_info": {"weight_version": "0"}}
        self._answer(200 if self.path in answers else 404, answers.get(self.path, {}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/completions":
            return self._answer(404, {})
        try:
            answer = self.policy.complete(self.headers.get("X-Request-Id", ""), body)
        except Exception as error:  # a server answers with an error and goes on
            return self._answer(500, {"error": {"message": repr(error), "code": 500}})
        return self._answer(200, answer)

    def _answer(self, status: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    Handler.policy = Policy(args.script)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    code = subprocess.run([part.replace("{url}", url) for part in args.command], check=False).returncode
    server.shutdown()
    return code


if __name__ == "__main__":
    sys.exit(main())
