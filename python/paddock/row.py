"""Training rows: what any trainer needs of a rollout, checked before it is handed out."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from .errors import BrokenSample, Untrainable
from .model import GroupSummary, Result, Sample
from .runs import AsyncBatch, AsyncGroup

if TYPE_CHECKING:
    from .aio import AsyncClient

OnUntrainable = Literal["skip", "raise", "include"]
Interventions = Literal["keep", "mask", "drop"]
"""What becomes of calls after a person steered: trained on, context without loss, or left out."""
AsyncSource = AsyncGroup | AsyncBatch | str | Result | Iterable[str | Result]


@dataclass(frozen=True)
class Row:
    """
    One sample with its reward. ``ids``, ``mask`` and ``logprobs`` have one length; the first ``prompt_length`` tokens
    are the prompt; the mask is 1 on tokens that the model sampled. A rollout that forked has several rows, with the
    same reward and advantage: average the loss over them, or it weighs more than its siblings.
    """

    ids: list[int] = field(repr=False)
    mask: list[int] = field(repr=False)
    logprobs: list[float] = field(repr=False)
    prompt_length: int
    reward: float | None
    advantage: float | None
    """(reward − mean) / std over the group; 0 when all rewards are alike; None without a group."""
    rollout_id: str
    group_id: str | None
    task_id: str
    index: int
    """Of the sample within its rollout, from 0."""
    purpose: str
    """main, subagent, title or compaction"""
    finish_reason: str | None
    weight_versions: list[str]

    @property
    def trained_tokens(self) -> int:
        return sum(self.mask)


class AsyncRows:
    """Rows, one at a time. What was left out is in ``skipped``, with its reasons."""

    def __init__(
        self,
        client: AsyncClient,
        source: AsyncSource,
        untrainable: OnUntrainable,
        weights: Collection[str] | None = None,
        interventions: Interventions = "keep",
    ) -> None:
        if untrainable not in ("skip", "raise", "include"):
            raise ValueError(f"untrainable is skip, raise or include, not {untrainable!r}")
        self._client = client
        self._untrainable = untrainable
        self._weights = weights
        self._interventions = interventions
        self._groups: dict[str, GroupSummary] = {}
        self._iterator = self._of(source)
        self.skipped: list[Untrainable] = []

    def __aiter__(self) -> AsyncIterator[Row]:
        return self._iterator

    async def _of(self, source: AsyncSource) -> AsyncIterator[Row]:
        if isinstance(source, AsyncBatch):
            for group in await source.groups():
                async for row in self._of_group(group):
                    yield row
                self._groups.clear()
        elif isinstance(source, AsyncGroup):
            async for row in self._of_group(source):
                yield row
        else:
            for rollout in [source] if isinstance(source, (str, Result)) else source:
                async for row in self._of_rollout(await self._finished_id(rollout)):
                    yield row

    async def _of_group(self, group: AsyncGroup) -> AsyncIterator[Row]:
        self._groups[group.id] = await group.wait()
        for rollout_id in group.rollout_ids:
            async for row in self._of_rollout(rollout_id):
                yield row

    async def _of_rollout(self, rollout_id: str) -> AsyncIterator[Row]:
        includes_all = self._untrainable == "include"
        has_samples = False
        refuse: Literal["refuse", "include"] = "include" if includes_all else "refuse"
        samples = self._client.samples(rollout_id, untrainable=refuse, interventions=self._interventions)
        try:
            async for sample in samples:
                has_samples = True
                if sample.reward is None and not includes_all:
                    raise Untrainable(rollout_id, ["it has no reward"])
                if not includes_all:
                    self._refuse_stale(sample)
                yield to_row(sample, await self._advantage(sample))
            if not has_samples:
                raise Untrainable(rollout_id, ["no tokens were captured"])
        except Untrainable as reason:
            if self._untrainable == "raise":
                raise
            self.skipped.append(reason)

    def _refuse_stale(self, sample: Sample) -> None:
        if self._weights is None:
            return
        if not sample.weight_versions:
            raise Untrainable(sample.rollout_id, ["nobody said which weights sampled it"])
        others = [version for version in sample.weight_versions if version not in self._weights]
        if others:
            raise Untrainable(sample.rollout_id, [f"it was sampled by weights {', '.join(others)}"])

    async def _advantage(self, sample: Sample) -> float | None:
        if sample.group_id is None:
            return None
        summary = self._groups.get(sample.group_id)
        if summary is None:
            summary = self._groups[sample.group_id] = await (await self._client.open_group(sample.group_id)).wait()
        return summary.advantage(sample.reward)

    async def _finished_id(self, rollout: str | Result) -> str:
        if isinstance(rollout, Result) and rollout.is_finished:
            return rollout.rollout_id
        return (await self._client.wait(rollout if isinstance(rollout, str) else rollout.rollout_id)).rollout_id


def to_row(sample: Sample, advantage: float | None) -> Row:
    """Raises BrokenSample when its lists do not belong together."""
    _check(sample)
    return Row(
        ids=sample.ids,
        mask=sample.mask,
        logprobs=sample.logprobs,
        prompt_length=sample.prompt_length,
        reward=sample.reward,
        advantage=advantage,
        rollout_id=sample.rollout_id,
        group_id=sample.group_id,
        task_id=sample.task_id,
        index=sample.index,
        purpose=sample.purpose,
        finish_reason=sample.finish_reason,
        weight_versions=sample.weight_versions,
    )


def _check(sample: Sample) -> None:
    name = f"sample {sample.index} of {sample.rollout_id}"
    if not len(sample.ids) == len(sample.mask) == len(sample.logprobs):
        raise BrokenSample(
            f"{name} has {len(sample.ids)} ids, {len(sample.mask)} mask entries and {len(sample.logprobs)} logprobs"
        )
    if not 0 <= sample.prompt_length <= len(sample.ids):
        raise BrokenSample(f"{name} has a prompt of {sample.prompt_length} tokens and {len(sample.ids)} in all")
    if any(sample.mask[: sample.prompt_length]):
        raise BrokenSample(f"{name} marks tokens of its prompt as sampled")
    for position, (marked, logprob) in enumerate(zip(sample.mask, sample.logprobs)):
        if marked not in (0, 1) or not math.isfinite(logprob) or (not marked and logprob != 0):
            raise BrokenSample(f"{name} has mask {marked} and logprob {logprob} at position {position}")
