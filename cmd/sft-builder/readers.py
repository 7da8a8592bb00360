"""Loads a corpus in the readers that this interpreter has: pyarrow, verl's MultiTurnSFTDataset, ms-swift.

The job comes as JSON on stdin. What was loaded is printed; what does not agree ends with a message and status 1.
"""

import importlib.util
import itertools
import json
import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_CACHE", os.path.join(os.environ.get("TMPDIR", "/tmp"), "verigraph-readers"))
os.environ.setdefault("VERL_LOGGING_LEVEL", "ERROR")

job = json.load(sys.stdin)
said = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # the libraries print: only our lines are the answer


def has(name):
    return importlib.util.find_spec(name) is not None


def fail(message):
    print(message, file=sys.stderr)
    sys.exit(1)


def say(text):
    print(text, file=said, flush=True)


def files(kind):
    return [f for f in job["Files"] if f["Format"] == kind]


def limited(rows):
    return itertools.islice(rows, job["Limit"] or None)


def with_pyarrow():
    import pyarrow.parquet as pq

    rows = 0
    for f in files("verl") + files("tokenized"):
        table = pq.read_table(f["Path"])
        if table.num_rows != f["Rows"]:
            fail(f"pyarrow: {f['Path']}: {table.num_rows} rows, the manifest says {f['Rows']}")
        rows += table.num_rows
    say(f"pyarrow: {rows} rows of {len(files('verl') + files('tokenized'))} files")


def tokenizer(template):
    from transformers import AutoTokenizer

    tok = AutoTokenizer.from_pretrained(job["Model"])
    if template:
        with open(job["ChatTemplate"], encoding="utf-8") as f:
            tok.chat_template = f.read()
    return tok


def ours():
    """ids and mask of the tokenized output by sample."""
    import pyarrow.parquet as pq

    out = {}
    for f in files("tokenized"):
        for row in pq.read_table(f["Path"], columns=["id", "input_ids", "loss_mask"]).to_pylist():
            out[row["id"]] = (row["input_ids"], row["loss_mask"])
    return out


def one_turn(ids, mask, number):
    """what the row of one trained turn holds of a sample: all up to that turn, and only it trained."""
    at, runs = 0, []
    for value, group in itertools.groupby(mask):
        n = len(list(group))
        if value:
            runs.append((at, at + n))
        at += n
    start, end = runs[number]
    return ids[:end], [0] * start + [1] * (end - start)


def compare(where, theirs, wanted, counts):
    counts["rows"] += 1
    if wanted is None:
        return
    if theirs == wanted:
        counts["equal"] += 1
    elif job["Rendering"] == "text":
        at = next((i for i, (a, b) in enumerate(zip(zip(*theirs), zip(*wanted))) if a != b), min(len(theirs[0]), len(wanted[0])))
        fail(f"{where}: ids or mask differ from ours at {at} of {len(theirs[0])} and {len(wanted[0])}")


def result(name, counts):
    text = f"{name}: {counts['rows']} rows"
    if counts["equal"] or job["Rendering"] == "text" and files("tokenized"):
        text += f", {counts['equal']} of them with exactly our ids and mask"
    say(text)


def with_verl():
    from omegaconf import OmegaConf
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    import pyarrow.parquet as pq

    tok, known = tokenizer(template=True), ours()
    config = OmegaConf.create({"pad_mode": "no_padding", "max_length": 1 << 30, "truncation": "error"})
    counts = {"rows": 0, "equal": 0}
    for f in files("verl"):
        names = pq.read_table(f["Path"], columns=["id"]).column("id").to_pylist()
        data = MultiTurnSFTDataset([f["Path"]], tok, config)
        if len(data) != f["Rows"]:
            fail(f"verl: {f['Path']}: {len(data)} rows, the manifest says {f['Rows']}")
        for i in limited(range(len(data))):
            where = f"verl: {f['Path']}:{i + 1}"
            row = data[i]
            ids, mask = row["input_ids"].tolist(), row["loss_mask"].tolist()
            if not any(mask):
                fail(f"{where}: an empty mask")
            turns = [m for m in data.messages[i] if m["role"] == "assistant"]
            end = job["EndOfTurn"] if job["TrainEnd"] else ""
            texts = spans(tok, ids, mask)
            if texts != [m["content"] + end for m in turns]:
                fail(f"{where}: what is trained is not the assistant's text: {texts!r:.400}")
            sample, _, number = names[i].rpartition("@") if "@" in names[i].rpartition("#")[2] else (names[i], "", "")
            wanted = known.get(sample)
            if wanted and number:
                wanted = one_turn(*wanted, int(number))
            # In a row of one turn, turns that are context were trained in others: verl's ids are the same.
            compare(where, (ids, mask), wanted and (list(wanted[0]), list(wanted[1])), counts)
    result("verl " + version("verl"), counts)


def spans(tok, ids, mask):
    out = []
    for value, group in itertools.groupby(zip(ids, mask), key=lambda pair: pair[1]):
        if value:
            out.append(tok.decode([i for i, _ in group], clean_up_tokenization_spaces=False))
    return out


def with_swift():
    from swift.dataset import load_dataset
    from swift.template import get_template

    tok, known = tokenizer(template=False), ours()
    counts = {"rows": 0, "equal": 0}
    template = get_template(processor_of(tok), template_type="chatml", loss_scale="default", preserve_thinking=True)
    template.set_mode("train")
    suffix = tok.encode(job["EndOfTurn"] + "\n", add_special_tokens=False)
    for f in files("swift"):
        with open(f["Path"], encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        data, _ = load_dataset([f["Path"]], strict=True, load_from_cache_file=False, remove_unused_columns=False)
        if len(data) != f["Rows"]:
            fail(f"ms-swift: {f['Path']}: {len(data)} rows, the manifest says {f['Rows']}")
        for i, (row, source) in limited(enumerate(zip(data, rows))):
            where = f"ms-swift: {f['Path']}:{i + 1}"
            for a, b in zip(row["messages"], source["messages"]):
                if a["role"] != b["role"] or a["content"] != b["content"] or a.get("loss") != b.get("loss"):
                    fail(f"{where}: ms-swift reads other messages or flags")
            if source["messages"][-1]["role"] != "assistant":
                continue  # a finished sample with an open end: ms-swift takes it for inference
            encoded = template.encode({"messages": row["messages"]})
            ids, labels = encoded["input_ids"], encoded["labels"]
            mask = [int(label != -100) for label in labels]
            texts = spans(tok, ids, mask)
            wanted = [m["content"] + job["EndOfTurn"] + "\n" for m in source["messages"] if m["role"] == "assistant" and m["loss"]]
            if texts != wanted:
                fail(f"{where}: what is trained is not the flagged turns: {texts!r:.400}")
            # ms-swift trains the line end behind the end-of-turn token as well.
            for at in range(len(ids) - len(suffix) + 1):
                if ids[at : at + len(suffix)] == suffix and mask[at]:
                    mask[at : at + len(suffix)] = [int(job["TrainEnd"])] + [0] * (len(suffix) - 1)
            keep = len(ids) - len(suffix) + int(job["TrainEnd"])
            compare(where, (ids[:keep], mask[:keep]), known.get(source["id"]), counts)
    result("ms-swift " + version("ms-swift"), counts)


def processor_of(tok):
    from swift.model import ModelInfo, ModelMeta

    import torch

    tok.model_info = ModelInfo(
        model_type="chatml", model_dir=job["Model"], torch_dtype=torch.float32, max_model_len=1 << 30, quant_method=None, quant_bits=0,
        task_type="causal_lm",
    )
    tok.model_meta = ModelMeta("chatml", [], template="chatml")
    return tok


def version(name):
    from importlib.metadata import version as of

    return of(name)


if has("pyarrow"):
    with_pyarrow()
if (has("verl") or has("swift")) and not job["Model"]:
    fail("--model: the readers of verl and ms-swift need a directory with the target's tokenizer")
if has("swift"):
    with_swift()
elif has("verl"):
    with_verl()
