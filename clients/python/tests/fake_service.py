"""A rollout service in memory: answers requests with batches made of plain rows, and loses some on request."""

from collections.abc import Iterator, Sequence

from builders import encode, row, span

from verigraph import Batch, Ledger, Status
from verigraph.requests import GroupResult, RequestedPrompt


class FakeService:
    """Implements verigraph.requests.RolloutService.

    lost: (uid, session) pairs that are left out; failed: uid to reason; segments: rows of every rollout.
    Rollout s of a group has s + 2 response ids, reward s and token ids that say where they belong.
    """

    def __init__(self, metadata: dict[str, str] | None = None):
        self.metadata = {
            "prompt_length": "0",
            "response_length": "0",
            "pad_token_id": "99",
        } | (metadata or {})
        self.lost: set[tuple[str, int]] = set()
        self.failed: dict[str, str] = {}
        self.segments = 1
        self.error: Exception | None = None
        self.policies: list[tuple[int, list[str], int]] = []
        self.requests: list[tuple[int, list[RequestedPrompt]]] = []
        self.version = 0

    def set_policy(
        self, version: int, endpoints: Sequence[str], *, incarnation: int = 0, paused: bool = False
    ) -> None:
        self.version = version
        self.policies.append((version, list(endpoints), incarnation))

    def status(self) -> Status:
        ledger = Ledger(28, 1, 2, 3, 4, 5, 6, 7)
        reasons, ages = {"filtered acc=1.00": 2, "stale by restore": 3, "failed": 5}, {0: 4, 2: 1}
        return Status(
            "r", 9, 8, ledger, 3, 1, False, reasons=reasons, ages=ages, policy_version=self.version
        )

    def request_groups(self, prompts: Sequence[RequestedPrompt], *, step: int) -> Iterator[GroupResult]:
        self.requests.append((step, list(prompts)))
        for number, p in reversed(list(enumerate(prompts))):  # the last one ends first
            if p.uid in self.failed:
                yield GroupResult(p.uid, None, self.failed[p.uid])
                continue
            rows = [
                self.row(p, number, s, k)
                for s in range(p.rollouts)
                for k in range(self.segments)
                if (p.uid, s) not in self.lost
            ]
            if rows:
                asked = p.sampling.temperature
                sampled = {"temperature": "1" if asked is None else f"{asked:g}"}
                yield GroupResult(p.uid, Batch(0, encode(rows, sampled | self.metadata)))
            if self.error:
                raise self.error

    def row(self, p: RequestedPrompt, number: int, session: int, segment: int) -> dict:
        n = session + 2
        mask = [1] * n
        mask[0] = 0
        return row(
            uid=f"dispatch-{p.uid}-0",
            session_id=session,
            output_idx=segment,
            row_idx=session,
            rollout_id=f"run/{p.uid}/{session}",
            prompt_id=p.prompt_id,
            prompt_ids=[100 + number] * (number + 1),
            response_ids=[1000 * (number + 1) + 10 * session + i for i in range(n)],
            response_mask=mask,
            rollout_log_probs=[-0.5 * m for m in mask],
            spans=[span(0, 1, "template"), span(1, n)],
            reward=float(session),
            score=float(session),
            acc=float(session % 2),
            seq_final_reward=float(session),
            r_process=0.5,
            num_turns=session + 1,
            tool_calls=session,
            policy_version_min=self.version,
            policy_version_max=self.version + 1,
            t_generate_s=1.0 + session,
            t_tool_s=0.5,
        )

    def close(self) -> None:
        pass
