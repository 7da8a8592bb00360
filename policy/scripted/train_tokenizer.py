"""Trains tokenizer.json, the small byte-level BPE tokenizer of the scripted policy.

    python train_tokenizer.py [questions.jsonl ...] > tokenizer.json

The result has the same format, normalizer and split pattern as Qwen3's file. It is trained on the
code, tags and claims written below and, if given, on the "question", "constraints" and "format"
texts of JSONL files (the committed file was trained on the DABench development questions). The
same input gives the same bytes with tokenizers 0.23.3.
"""

import itertools
import json
import sys

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

VOCAB_SIZE = 4096 - 3
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

COLUMNS = [
    "age", "fare", "price", "sales", "region", "date", "amount", "country", "category", "score",
    "income", "year", "month", "temperature", "population", "rating", "department", "salary",
    "quantity", "revenue", "profit", "customer", "product", "latitude", "volume", "close",
]
VERBS = ["mean", "median", "std", "sum", "min", "max", "count", "nunique", "describe", "corr"]
FILES = ["data", "train", "sales", "titanic", "employees", "weather", "transactions", "summary"]

CODE = [
    "import pandas as pd\nimport numpy as np\n\ndf = pd.read_csv('{file}.csv')\nprint(df.shape)\nprint(df.head())\n",
    "df = pd.read_csv(\"{file}.csv\", encoding=\"utf-8\")\ndf.info()\nprint(df.columns.tolist())\n",
    "{col} = df['{col}'].dropna()\n{verb}_{col} = {col}.{verb}()\nprint(f\"{verb} of {col}: {{{verb}_{col}:.2f}}\")\n",
    "grouped = df.groupby('{other}')['{col}'].{verb}().sort_values(ascending=False)\nprint(grouped.head(10))\n",
    "subset = df[(df['{col}'] > 0) & (df['{other}'].notna())]\nresult = subset['{col}'].{verb}()\nprint(round(result, 2))\n",
    "from scipy import stats\nr, p = stats.pearsonr(df['{col}'], df['{other}'])\nprint(r, p)\n",
    "for name in df.columns:\n    if df[name].dtype == 'object':\n        df[name] = df[name].str.strip()\n    else:\n        df[name] = df[name].fillna(0)\n",
    "def ratio(a, b):\n    return a / b if b else float('nan')\n\nprint(ratio(df['{col}'].sum(), len(df)))\n",
    "claim = bind(\"The {verb} of {col} is {{value}}.\", value=round(df['{col}'].{verb}(), 2))\n",
    "c1 = bind(\"The {verb} of {col} in {file}.csv is {{x}}.\", x={verb}_{col})\n"
    "c2 = bind(\"There are {{n}} rows with {other} given.\", n=len(subset))\n"
    "c3 = infer([c1, c2], \"The {verb} of {col} is known for all rows.\", "
    "\"Both the {verb} and the number of rows were computed from the same table.\")\nsubmit_answer([c3])\n",
    "submit_answer([claim])\n",
    "try:\n    df['{col}'] = pd.to_numeric(df['{col}'], errors='coerce')\nexcept ValueError as error:\n    print(error)\n",
    "outliers = df[np.abs(stats.zscore(df['{col}'])) > 3]\nprint(len(outliers))\n",
    "pivot = df.pivot_table(index='{other}', columns='{col}', values='{col}', aggfunc='{verb}')\n",
]

THINK = [
    "I need to load {file}.csv and look at the columns before I compute the {verb} of {col}.",
    "The question asks for the {verb} of {col} grouped by {other}. Missing values should be dropped first.",
    "The result is there. I bind it as a claim and submit the answer.",
    "The cell failed with a KeyError, so the column {col} has another name. Let me check the columns again.",
    "Now I have both numbers; the correlation between {col} and {other} follows from them.",
]

OBSERVATION = (
    "<tool_response>\nstatus: ok\noutput:\n{verb} of {col}: 34.65\n\nenvironment:\n"
    "df: DataFrame (891, 12)\n{col}: Series float64 (714,)\n\nclaims:\n"
    "c1: The {verb} of {col} is 34.65.\n</tool_response>"
)

SYSTEM = (
    "You are a data analyst. You answer questions about data files by writing Python. Reason inside <think> and "
    "</think>, then write one block of Python inside <code_interpreter> and </code_interpreter>. The output returns "
    "inside <tool_response> and </tool_response>. Make every claim with bind(template, **values), derive others with "
    "infer(premises, conclusion, reasoning) and end with submit_answer(claims). A number in a claim comes from a "
    "placeholder. The data files are in the working directory: {file}.csv."
)


def protocol():
    """Turns of the agent protocol, with the code's closing tag followed by a line break, another tag or nothing."""
    yield from (SYSTEM.format(file=name) for name in FILES)
    combos = itertools.product(COLUMNS, VERBS, range(2))
    for i, (col, verb, shift) in enumerate(combos):
        names = {
            "col": col,
            "verb": verb,
            "other": COLUMNS[(i + 7 + 3 * shift) % len(COLUMNS)],
            "file": FILES[i % len(FILES)],
        }
        think = THINK[i % len(THINK)].format(**names)
        code = CODE[i % len(CODE)].format(**names)
        tail = ("\n", "\n" + OBSERVATION.format(**names), "<tool_response>", "")[i % 4]
        yield f"<think>\n{think}\n</think>\n\n<code_interpreter>\n{code}</code_interpreter>{tail}"
        yield f"<think>{think}</think><code_interpreter>{code}</code_interpreter>\n"
        yield OBSERVATION.format(**names)
    yield from ("user\n", "system\n", "assistant\n")


def questions(paths):
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                yield from (row[key] for key in ("question", "constraints", "format") if row.get(key))


def main():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    level = dict(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(**level)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        min_frequency=2,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[],
        show_progress=False,
    )
    corpus = list(protocol()) + list(questions(sys.argv[1:]))
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens(SPECIAL)
    sys.stdout.write(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
