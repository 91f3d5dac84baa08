"""What the server hands out, typed. Every class keeps the whole answer in ``raw``: newer fields are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Failure:
    """Why a rollout failed. ``retryable`` only for infrastructure."""

    boundary: str
    code: str
    message: str
    retryable: bool

    @classmethod
    def from_json(cls, value: Json | None) -> Failure | None:
        if value is None:
            return None
        return cls(value["boundary"], value["code"], value["message"], value["retryable"])


@dataclass(frozen=True)
class CommandResult:
    """One setup or verify command."""

    cmd: str
    exit_code: int
    stdout: str
    stderr: str
    duration_s: float

    @classmethod
    def from_json(cls, value: Json) -> CommandResult:
        return cls(value["cmd"], value["exit_code"], value["stdout"], value["stderr"], value["duration_s"])


@dataclass(frozen=True)
class Turn:
    """One model call of a result. The three token lists have one length, or the ids are empty."""

    turn: int
    purpose: str
    session_id: str | None
    finish_reason: str | None
    prompt_token_ids: list[int] = field(repr=False)
    completion_token_ids: list[int] = field(repr=False)
    per_token_logps: list[float] = field(repr=False)
    latency_s: float
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, value: Json) -> Turn:
        return cls(
            turn=value["turn"],
            purpose=value["purpose"],
            session_id=value["session_id"],
            finish_reason=value["finish_reason"],
            prompt_token_ids=value["prompt_token_ids"],
            completion_token_ids=value["completion_token_ids"],
            per_token_logps=value["per_token_logps"],
            latency_s=value["latency_s"],
            raw=value,
        )


@dataclass(frozen=True)
class Result:
    """How a rollout went. ``outcome`` is None while it is not finished; a reward of 0 is ``completed``."""

    rollout_id: str
    task_id: str
    outcome: str | None
    reward: float | None
    failure: Failure | None
    error: str | None
    """One sentence when it did not simply complete."""
    attempt: int
    wall_s: float
    mode: str
    sandbox_id: str
    agent_exit_code: int | None
    exit_code: int
    """The same, with -1 where there is none."""
    untrainable: str | None
    """Why nothing of it may be trained on, if so."""
    setup_results: list[CommandResult] = field(repr=False)
    verify_results: list[CommandResult] = field(repr=False)
    proxy_turns: list[Turn] = field(repr=False)
    files: dict[str, str] = field(repr=False)
    workdir_files: dict[str, str] = field(repr=False)
    agent_log_tail: str = field(repr=False)
    proxy_log_tail: str = field(repr=False)
    install_log_tail: str = field(repr=False)
    raw: Json = field(repr=False, compare=False)

    @property
    def is_finished(self) -> bool:
        return self.outcome is not None

    @classmethod
    def from_json(cls, value: Json) -> Result:
        return cls(
            rollout_id=value["rollout_id"],
            task_id=value["task_id"],
            outcome=value["outcome"],
            reward=value["reward"],
            failure=Failure.from_json(value["failure"]),
            error=value["error"],
            attempt=value["attempt"],
            wall_s=value["wall_s"],
            mode=value["mode"],
            sandbox_id=value["sandbox_id"],
            agent_exit_code=value["agent_exit_code"],
            exit_code=value["exit_code"],
            untrainable=value["untrainable"],
            setup_results=[CommandResult.from_json(row) for row in value["setup_results"]],
            verify_results=[CommandResult.from_json(row) for row in value["verify_results"]],
            proxy_turns=[Turn.from_json(turn) for turn in value["proxy_turns"]],
            files=value["files"],
            workdir_files=value["workdir_files"],
            agent_log_tail=value["agent_log_tail"],
            proxy_log_tail=value["proxy_log_tail"],
            install_log_tail=value["install_log_tail"],
            raw=value,
        )


@dataclass(frozen=True)
class Event:
    """Something that happened. ``seq`` counts from 1 without gaps; a rollout's last one is ``rollout-end``."""

    rollout_id: str
    """Of the rollout, or of the conversation."""
    seq: int
    at: float
    """Milliseconds since the epoch."""
    type: str
    data: Json
    """The fields of this type of event."""

    @classmethod
    def from_json(cls, value: Json) -> Event:
        common = ("rolloutId", "conversationId", "seq", "at", "type")
        data = {name: entry for name, entry in value.items() if name not in common}
        owner = value["conversationId"] if "conversationId" in value else value["rolloutId"]
        return cls(owner, value["seq"], value["at"], value["type"], data)


@dataclass(frozen=True)
class Member:
    """One rollout of a group."""

    id: str
    status: str
    outcome: str | None
    reward: float | None

    @classmethod
    def from_json(cls, value: Json) -> Member:
        return cls(value["id"], value["status"], value["outcome"], value["reward"])


@dataclass(frozen=True)
class GroupSummary:
    """How a group stands. ``reward_std`` is that of the population; ``pass_at[k]`` for k = 1, 2, 4, …"""

    id: str
    task_id: str
    batch_id: str | None
    n: int
    done: int
    running: int
    queued: int
    reward_mean: float | None
    reward_std: float | None
    pass_at: dict[int, float]
    rollouts: list[Member]
    raw: Json = field(repr=False, compare=False)

    @property
    def is_finished(self) -> bool:
        return self.done == len(self.rollouts)

    @classmethod
    def from_json(cls, value: Json) -> GroupSummary:
        return cls(
            id=value["id"],
            task_id=value["taskId"],
            batch_id=value["batchId"],
            n=value["n"],
            done=value["done"],
            running=value["running"],
            queued=value["queued"],
            reward_mean=value["rewardMean"],
            reward_std=value["rewardStd"],
            pass_at={int(k): share for k, share in value["passAt"].items()},
            rollouts=[Member.from_json(member) for member in value["rollouts"]],
            raw=value,
        )

    def advantage(self, reward: float | None) -> float | None:
        """(reward − mean) / std of the group; 0 when all rewards are alike; None without a reward."""
        if reward is None or self.reward_mean is None:
            return None
        return (reward - self.reward_mean) / self.reward_std if self.reward_std else 0.0


@dataclass(frozen=True)
class BatchSummary:
    """How a batch stands."""

    id: str
    size: int
    done: int
    running: int
    queued: int
    outcomes: dict[str, int]
    reward_mean: float | None
    labels: dict[str, str]
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, value: Json) -> BatchSummary:
        return cls(
            id=value["id"],
            size=value["size"],
            done=value["done"],
            running=value["running"],
            queued=value["queued"],
            outcomes=value["outcomes"],
            reward_mean=value["rewardMean"],
            labels=value["labels"],
            raw=value,
        )


@dataclass(frozen=True)
class TokenSums:
    """The certificates of a group's or a batch's finished rollouts in one, weighted by tokens."""

    rollouts: int
    trainable: int
    samples: int
    trained_tokens: int
    tokens_to_train_over: int
    main_share: float | None
    """The share of the trained tokens that is in their rollouts' main samples; None without any."""
    continuity: float | None
    """Calls that went on, of those whose session had spoken before; None when there was none."""
    stitched: int
    plain: dict[str, int]
    """Calls that were rendered anew, by why."""
    breaks: dict[str, int]
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, value: Json) -> TokenSums:
        return cls(
            rollouts=value["rollouts"],
            trainable=value["trainable"],
            samples=value["samples"],
            trained_tokens=value["trainedTokens"],
            tokens_to_train_over=value["tokensToTrainOver"],
            main_share=value["mainShare"],
            continuity=value["continuity"],
            stitched=value["stitched"],
            plain=value["plain"],
            breaks=value["breaks"],
            raw=value,
        )


@dataclass(frozen=True)
class Certificate:
    """What can be proven about a rollout's tokens. It fails closed."""

    trainable: bool
    reasons: list[str]
    """Why not, in words; empty when trainable."""
    notes: list[str]
    samples: int
    trained_tokens: int
    main_share: float
    """Of the trained tokens, in the main agent's largest sample: what is left for a trainer that takes one row."""
    models: list[str]
    engines: list[str]
    weight_versions: list[str]
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, value: Json) -> Certificate:
        return cls(
            trainable=value["trainable"],
            reasons=value["reasons"],
            notes=value["notes"],
            samples=value["continuity"]["samples"],
            trained_tokens=value["trainedTokens"],
            main_share=value["mainShare"],
            models=value["models"],
            engines=value["engines"],
            weight_versions=value["weightVersions"],
            raw=value,
        )


@dataclass(frozen=True)
class Sample:
    """
    One branch as training data. ``ids``, ``mask`` and ``logprobs`` have one length; the mask is 1 on tokens that the
    engine sampled and nowhere else; logprobs are 0 where the mask is 0.
    """

    rollout_id: str
    task_id: str
    group_id: str | None
    reward: float | None
    index: int
    purpose: str
    session_id: str | None
    calls: list[int]
    prompt_length: int
    ids: list[int] = field(repr=False)
    mask: list[int] = field(repr=False)
    logprobs: list[float] = field(repr=False)
    finish_reason: str | None
    weight_versions: list[str]
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, value: Json) -> Sample:
        return cls(
            rollout_id=value["rolloutId"],
            task_id=value["taskId"],
            group_id=value["groupId"],
            reward=value["reward"],
            index=value["index"],
            purpose=value["purpose"],
            session_id=value["sessionId"],
            calls=value["calls"],
            prompt_length=value["promptLength"],
            ids=value["ids"],
            mask=value["mask"],
            logprobs=value["logprobs"],
            finish_reason=value["finishReason"],
            weight_versions=value["weightVersions"],
            raw=value,
        )


@dataclass(frozen=True)
class Transcript:
    """What was said, in OpenCode's own message shape."""

    rollout_id: str
    session_id: str | None
    messages: list[Json] = field(repr=False)
    note: str | None
    """Why there is nothing yet."""

    @classmethod
    def from_json(cls, value: Json) -> Transcript:
        return cls(value["rolloutId"], value["sessionId"], value["messages"], value["note"])
