"""What the adapters read from verl's configuration, and what they refuse.

Our own block stands at the top level, next to verl's (`+remote_rollout.endpoint=HOST:PORT`), since verl
checks its rollout block against a dataclass.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from verigraph.access import read_tls, read_token
from verigraph.errors import VerigraphError
from verigraph.requests import Sampling


class SettingsError(VerigraphError, ValueError):
    """The configuration makes the contract impossible. `problems` lists every reason."""

    def __init__(self, problems: list[str]):
        super().__init__("; ".join(problems))
        self.problems = problems

    def __reduce__(self) -> tuple:
        return type(self), (self.problems,)


def get(config: Any, path: str, default: Any = None) -> Any:
    """config.a.b for "a.b", in nested mappings or OmegaConf; default where a part is missing or null."""
    for key in path.split("."):
        if config is None:
            return default
        if isinstance(config, Mapping) or hasattr(config, "get"):
            config = config.get(key)
        else:
            config = getattr(config, key, None)
    return default if config is None else config


def _access(config: Any, env: Mapping[str, str], problems: list[str]) -> tuple[str | None, dict[str, str] | None]:
    """Token and PEM files of our block. verl prints and logs its configuration, so that no token may stand in it."""

    def named(key: str) -> str:
        return f"remote_rollout.{key}"

    def given(key: str) -> Any:
        return get(config, named(key))

    if given("token") is not None:
        problems.append("remote_rollout.token would be logged with the configuration: use token_file or token_env")
    return read_token(given, named, env, problems), read_tls(given, named, problems)


def _sampling(block: Any, temperature: float = 1.0) -> Sampling:
    """Of rollout or of rollout.val_kwargs, as verl's own agent loops pass it to the servers.

    verl/experimental/agent_loop/agent_loop.py; it does not look at do_sample either.
    """
    return Sampling(
        temperature=float(get(block, "temperature", temperature)),
        top_p=float(get(block, "top_p", 1.0)),
        top_k=int(get(block, "top_k", -1)),
    )


# verl moved its reward block in 0.7.1.
_OVERLONG = (
    "reward.reward_kwargs.overlong_buffer_cfg.enable",
    "reward_model.reward_kwargs.overlong_buffer_cfg.enable",
    "reward_model.overlong_buffer.enable",
)
_REWARD_MODEL = ("reward.reward_model.enable", "reward_model.enable")


@dataclass(frozen=True)
class Settings:
    """The trainer's side of the contract.

    endpoint: HOST:PORT of the rollout service
    tls: the PEM files of verigraph.connect.tls by name; None talks in the clear
    servers: addresses to sample from, in place of those that verl started
    sampling, val_sampling: what verl's configuration says for training and for validation
    """

    endpoint: str
    token: str | None = field(repr=False)
    tls: dict[str, str] | None
    servers: tuple[str, ...]
    prompt_length: int
    response_length: int
    group_size: int
    val_group_size: int
    sampling: Sampling
    val_sampling: Sampling
    trainer_overlong: bool
    min_valid: int

    @classmethod
    def of(cls, config: Any, env: Mapping[str, str] = os.environ) -> Settings:
        """Reads and checks the configuration; raises SettingsError with everything that is wrong."""
        rollout = get(config, "actor_rollout_ref.rollout", {})
        problems = []
        endpoint = get(config, "remote_rollout.endpoint", "")
        if not endpoint:
            problems.append("+remote_rollout.endpoint=HOST:PORT is needed")
        if any(get(config, path, False) for path in _REWARD_MODEL):
            problems.append("reward_model.enable must be off: rewards come with the rollouts")
        if get(config, "algorithm.adv_estimator") == "remax":
            problems.append("adv_estimator=remax needs a greedy baseline per prompt, which is not delivered")
        token, tls = _access(config, env, problems)
        lengths = {name: int(get(rollout, name, 0)) for name in ("prompt_length", "response_length")}
        problems += [
            f"actor_rollout_ref.rollout.{name} must be positive" for name, n in lengths.items() if n < 1
        ]
        if problems:
            raise SettingsError(problems)
        return cls(
            endpoint=endpoint,
            token=token,
            tls=tls,
            servers=tuple(get(config, "remote_rollout.servers", ())),
            group_size=int(get(rollout, "n", 1)),
            val_group_size=int(get(rollout, "val_kwargs.n", 1)),
            sampling=_sampling(rollout),
            val_sampling=_sampling(get(rollout, "val_kwargs", {}), temperature=0.0),
            trainer_overlong=any(get(config, path, False) for path in _OVERLONG),
            min_valid=int(get(config, "remote_rollout.min_valid", 2)),
            **lengths,
        )

    def sampling_of(self, validate: bool) -> Sampling:
        """Sent with every prompt, so that the workers' own configuration does not matter."""
        return self.val_sampling if validate else self.sampling

    def check_metadata(self, metadata: Mapping[str, str], asked: Sampling) -> None:
        """Compares what the service states about its rows with the trainer's settings and with the request.

        Raises SettingsError where they contradict each other.
        """
        problems = []
        owner = metadata.get("overlong_owner", "none")
        if owner == "reward" and self.trainer_overlong:
            problems.append(
                "overlong shaping has two owners: the rollouts' reward holds it already, and "
                "overlong_buffer_cfg.enable is on; switch one of them off"
            )
        if owner == "trainer":
            problems.append(
                "overlong shaping has no owner: the service leaves it to the trainer, but verl skips its "
                "reward manager for rollouts that bring a reward; let the service apply it"
            )
        sampled, wanted = float(metadata.get("temperature", "nan")), asked.temperature
        if wanted is not None and sampled != wanted:
            problems.append(
                f"rollouts are sampled at temperature {sampled:g}, {wanted:g} was asked for: the service does "
                "not take sampling parameters; verl would rescale logits by another temperature"
            )
        if problems:
            raise SettingsError(problems)
