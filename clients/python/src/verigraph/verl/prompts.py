"""From a row of verl's dataset to the prompt that the service is asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from verigraph.requests import GREEDY, DataFile, RequestedPrompt, Sampling
from verigraph.verl.settings import SettingsError

_ITEM = re.compile(r"@([^\W\d]\w*)\[")


def requested(
    row: Mapping[str, Any],
    *,
    uid: str,
    rollouts: int,
    validate: bool = False,
    sampling: Sampling = Sampling(),  # noqa: B008 - frozen
) -> RequestedPrompt:
    """One row of RLHFDataset (non-tensor columns) as a request.

    `verigraph import --out X.parquet` writes extra_info.task_json and files_json, which are handed back
    unchanged. Without them the prompt is the last user message of raw_prompt, and the reference answer
    reward_model.ground_truth: @name[value] items or one plain value with style "rule", else free text.
    verl's __do_sample__=False (baselines of single rows) is greedy; validation has values of its own.
    Raises SettingsError for a uid, a prompt or a ground truth that cannot be sent.
    """
    check_uid(uid)
    extra = row.get("extra_info") or {}
    reward = row.get("reward_model") or {}
    common = {
        "uid": uid,
        "rollouts": rollouts,
        "sampling": sampling if validate or row.get("__do_sample__", True) else GREEDY,
        "validate": validate,
        "files": tuple(DataFile(**f) for f in json.loads(extra.get("files_json") or "[]")),
        "data_source": str(row.get("data_source") or ""),
    }
    if text := extra.get("task_json"):
        task = json.loads(text)
        answers, answer_text = _answer(task.get("answer"))
        return RequestedPrompt(
            prompt_id=str(task["id"]),
            question=task["question"],
            meta_json=json.dumps(task["meta"], ensure_ascii=False) if task.get("meta") else "",
            answers=answers,
            answer_text=answer_text,
            **common,
        )
    truth = reward.get("ground_truth")
    if truth is not None and reward.get("style", "rule") == "rule":
        answers, answer_text = _named(str(truth)), ""
    else:
        answers, answer_text = (), "" if truth is None else str(truth)
    return RequestedPrompt(
        prompt_id=str(extra.get("id") or extra.get("index", uid)),
        question=_with_form(_question(row.get("raw_prompt")), [name for name, _ in answers]),
        answers=answers,
        answer_text=answer_text,
        **common,
    )


def check_uid(uid: str) -> None:
    """Raises SettingsError for an underscore: verl splits TransferQueue keys at it, and so does all that joins on uid."""
    if not uid or "_" in uid:
        raise SettingsError([f"uid {uid!r} is empty or has an underscore: verl splits keys at it"])


def _answer(answer: Any) -> tuple[tuple[tuple[str, str], ...], str]:
    if isinstance(answer, dict):
        return (), answer.get("text", "")
    return tuple((name, value) for name, value in answer or ()), ""


def _named(text: str) -> tuple[tuple[str, str], ...]:
    """The @name[value] items of a text, brackets in values nested; without any, one plain answer."""
    found, at = [], 0
    while match := _ITEM.search(text, at):
        depth, at = 1, match.end()
        while at < len(text) and depth:
            depth += {"[": 1, "]": -1}.get(text[at], 0)
            at += 1
        if depth:
            raise SettingsError([f"ground_truth: @{match[1]}[ is never closed"])
        found.append((match[1], text[match.end() : at - 1]))
    return tuple(found) or (("answer", text),)


def _with_form(question: str, names: list[str]) -> str:
    """Tells the policy how to state the sub-answers that the question does not name, as the import does."""
    forms = list(dict.fromkeys(f"@{n}[value]" for n in names if f"@{n}[" not in question))
    if not forms:
        return question
    return f"{question}\n\nState the answer{'s' * (len(forms) > 1)} as {', '.join(forms)}."


def _question(messages: Any) -> str:
    users = [m["content"] for m in messages if m["role"] == "user"] if messages is not None else []
    if len(users) != 1 or not isinstance(users[0], str):
        raise SettingsError(["a prompt needs exactly one user message of text"])
    return users[0]
