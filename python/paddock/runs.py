"""Many rollouts at once: groups of one task, batches of many groups."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from typing import TYPE_CHECKING

from .model import BatchSummary, GroupSummary, Result, TokenSums

if TYPE_CHECKING:
    from .aio import AsyncClient
    from .row import AsyncRows, Interventions, OnUntrainable

_FIRST_LOOK_S = 0.1
_LAST_LOOK_S = 2.0
_SCAN_SHARE = 5
"""Looking through a large batch may take a fifth of the time, not all of it."""


class AsyncGroup:
    """``n`` rollouts of one task. ``async for result in group`` gives each as it finishes."""

    def __init__(self, client: AsyncClient, group_id: str, rollout_ids: list[str]) -> None:
        self._client = client
        self.id = group_id
        self.rollout_ids = rollout_ids
        """In order of creation."""

    async def __aiter__(self) -> AsyncIterator[Result]:
        seen: set[str] = set()
        pause = _FIRST_LOOK_S
        while True:
            summary = await self.summary()
            finished = [member.id for member in summary.rollouts if member.status == "done" and member.id not in seen]
            for rollout_id in finished:
                seen.add(rollout_id)
                yield await self._client.result(rollout_id)
            if summary.is_finished:
                return
            pause = _FIRST_LOOK_S if finished else min(pause * 1.5, _LAST_LOOK_S)
            await asyncio.sleep(pause)

    async def results(self) -> list[Result]:
        """All of them, in order of creation."""
        by_id = {result.rollout_id: result async for result in self}
        return [by_id[rollout_id] for rollout_id in self.rollout_ids]

    async def wait(self) -> GroupSummary:
        """The summary once every rollout has ended; fetches no result."""
        pause = _FIRST_LOOK_S
        while not (summary := await self.summary()).is_finished:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LAST_LOOK_S)
        return summary

    async def summary(self) -> GroupSummary:
        """Progress, reward mean and spread, pass@k."""
        return await self._client.group_summary(self.id)

    async def tokens(self) -> TokenSums:
        """How many tokens can be trained on, in how many samples, and what broke; reads every trace."""
        return await self._client.group_tokens(self.id)

    def rows(
        self,
        *,
        untrainable: OnUntrainable = "skip",
        weights: Collection[str] | None = None,
        interventions: Interventions = "keep",
    ) -> AsyncRows:
        """Training rows, once all rollouts have ended: an advantage needs every reward."""
        return self._client.rows(self, untrainable=untrainable, weights=weights, interventions=interventions)

    async def abort(self) -> list[str]:
        """Stops every unfinished rollout; their ids."""
        return await self._client.abort_group(self.id)


class AsyncBatch:
    """Tasks × endpoints × n. ``async for result in batch`` gives each as it finishes."""

    def __init__(self, client: AsyncClient, batch_id: str) -> None:
        self._client = client
        self.id = batch_id

    async def __aiter__(self) -> AsyncIterator[Result]:
        seen: set[str] = set()
        while True:
            summary = await self.summary()
            looked_at = time.monotonic()
            if summary.done > len(seen):
                for rollout_id in await self._finished(seen):
                    seen.add(rollout_id)
                    yield await self._client.result(rollout_id)
            if summary.running + summary.queued == 0 and len(seen) >= summary.done:
                return
            took = time.monotonic() - looked_at
            await asyncio.sleep(min(max(_FIRST_LOOK_S * 5, took * _SCAN_SHARE), 60.0))

    async def _finished(self, seen: set[str]) -> list[str]:
        rows = self._client.rollouts(batch_id=self.id, status="done", order="oldest")
        return [row["id"] async for row in rows if row["id"] not in seen]

    async def groups(self) -> list[AsyncGroup]:
        """One for each task and endpoint."""
        found = [group["id"] async for group in self._client.groups(batch_id=self.id)]
        return [await self._client.open_group(group_id) for group_id in found]

    async def summary(self) -> BatchSummary:
        """Progress, outcomes and the mean reward."""
        return await self._client.batch_summary(self.id)

    async def tokens(self) -> TokenSums:
        """How many tokens can be trained on, in how many samples, and what broke; reads every trace."""
        return await self._client.batch_tokens(self.id)

    def rows(
        self,
        *,
        untrainable: OnUntrainable = "skip",
        weights: Collection[str] | None = None,
        interventions: Interventions = "keep",
    ) -> AsyncRows:
        """Training rows, group by group."""
        return self._client.rows(self, untrainable=untrainable, weights=weights, interventions=interventions)

    async def abort(self) -> list[str]:
        """Stops every unfinished rollout; their ids."""
        return await self._client.abort_batch(self.id)
