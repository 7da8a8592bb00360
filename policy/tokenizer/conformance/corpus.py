"""Writes a mixed corpus, one JSON document per line, with the ids of the reference implementation.

    python corpus.py tokenizer.json DOCS > corpus.jsonl

The oracle is the tokenizers library. "plain" are the ids with no added token matched, "special"
those with added tokens matched. Documents are made from source files and documentation of this
Python installation, from generated tables, prose in several scripts, emoji, code with control-token
text, and random Unicode; a seed makes them the same on the same Python and library version.
"""

import json
import pathlib
import random
import sys
import sysconfig

from tokenizers import Tokenizer

CONTROL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "</tool_call>",
           "<tool_response>", "</tool_response>", "<|fim_prefix|>", "<code_interpreter>", "</code_interpreter>"]
SCRIPTS = {
    "cjk": (0x4E00, 0x9FFF), "kana": (0x3040, 0x30FF), "hangul": (0xAC00, 0xD7A3), "arabic": (0x600, 0x6FF),
    "hebrew": (0x590, 0x5FF), "devanagari": (0x900, 0x97F), "thai": (0xE00, 0xE7F), "cyrillic": (0x400, 0x4FF),
    "greek": (0x370, 0x3FF), "latin": (0xC0, 0x24F), "jamo": (0x1100, 0x11FF), "marks": (0x300, 0x36F),
    "symbols": (0x2190, 0x2BFF), "emoji": (0x1F300, 0x1FAFF), "math": (0x1D400, 0x1D7FF), "tibetan": (0xF00, 0xFFF),
}
WORDS = "the mean fare of df rows grouped by class is value count total sum then print return lambda it's we'll I'VE don't".split()


def files():
    roots = [pathlib.Path(sysconfig.get_paths()["stdlib"])]
    out = []
    for root in roots:
        for p in sorted(root.rglob("*")):
            if p.suffix in (".py", ".txt", ".md", ".rst", ".json", ".html", ".c", ".h", ".cfg", ".toml") and "site-packages" not in p.parts:
                out.append(p)
    return out


def chunks(rng):
    """Stretches of real files, of lengths from a word to some thousand characters."""
    while True:
        for p in files():
            try:
                text = p.read_bytes().decode("utf-8")
            except (UnicodeDecodeError, OSError):
                continue
            at = 0
            while at < len(text):
                size = int(rng.choice([20, 80, 200, 500, 2000]) * (0.5 + rng.random()))
                yield "code", text[at : at + size]
                at += size * 3


def script_text(rng):
    name = rng.choice(list(SCRIPTS))
    low, high = SCRIPTS[name]
    out = []
    for _ in range(rng.randrange(1, 60)):
        out.append(chr(rng.randrange(low, high + 1)))
        if rng.random() < 0.12:
            out.append(rng.choice([" ", "\n", "。", ", ", "\u200d", "\ufe0f", "7", " e\u0301"]))
    return name, "".join(out)


def control_text(rng):
    parts = []
    for _ in range(rng.randrange(1, 14)):
        parts.append(rng.choice(CONTROL + WORDS + ["\n", " ", "\n\n", "print('", "')", "数据", "<", "|", "<|im_"]))
    return "control", "".join(parts)


def table_text(rng):
    sep = rng.choice([",", "\t", " | ", ";", "  "])
    rows = [sep.join(rng.choice(WORDS) for _ in range(5))]
    for _ in range(rng.randrange(1, 12)):
        rows.append(sep.join(rng.choice([f"{rng.gauss(0, 1e4):.3f}", str(rng.randrange(10**9)), f"{rng.random():.2e}", "NaN", ""]) for _ in range(5)))
    return "table", rng.choice(["\n", "\r\n"]).join(rows)


def random_text(rng):
    out = []
    while len(out) < rng.randrange(1, 40):
        c = rng.randrange(1, 0x110000)
        if not 0xD800 <= c < 0xE000:
            out.append(chr(c))
    return "random", "".join(out)


def blank_text(rng):
    return "blanks", "".join(rng.choice(" \n\r\t\u00a0\u3000\u2028a1.'") for _ in range(rng.randrange(1, 40)))


def documents(n):
    rng = random.Random(11)
    real = chunks(rng)
    for i in range(n):
        kind = i % 10
        if kind < 4:
            yield next(real)
        elif kind < 6:
            yield script_text(rng)
        else:
            yield (control_text, table_text, random_text, blank_text)[kind - 6](rng)


def main():
    path, count = sys.argv[1], int(sys.argv[2])
    raw = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    full = Tokenizer.from_str(json.dumps(raw))
    plain = Tokenizer.from_str(json.dumps({**raw, "added_tokens": []}))
    for kind, text in documents(count):
        row = {"kind": kind, "text": text, "plain": plain.encode(text, add_special_tokens=False).ids,
               "special": full.encode(text, add_special_tokens=False).ids}
        sys.stdout.write(json.dumps(row, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
