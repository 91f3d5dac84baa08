"""The client for asyncio."""

from __future__ import annotations

import asyncio
import unittest
from collections.abc import Iterator
from typing import Any

from paddock import AsyncClient, Task

from .stand_in import Fault, StandIn
from .wire import event, sample_of

TASK = Task(id="hello", instruction="Write hello")


class AsyncTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.server = StandIn()
        self.addCleanup(self.server.stop)
        self.client = AsyncClient(self.server.url)

    async def test_many_rollouts_run_at_once_in_one_thread(self) -> None:
        self.server.faults = [Fault("POST", "/rollouts", status=429, headers={"retry-after": "0"}) for _ in range(20)]
        results = await asyncio.gather(*(self.client.run(TASK, endpoint="scripted") for _ in range(40)))
        self.assertEqual(len({result.rollout_id for result in results}), 40)
        self.assertEqual({result.outcome for result in results}, {"completed"})

    async def test_it_may_be_opened_with_async_with(self) -> None:
        async with AsyncClient(self.server.url) as client:
            self.assertEqual((await client.run(TASK, endpoint="scripted")).outcome, "completed")

    async def test_events_go_on_after_a_restart(self) -> None:
        rollout = self.server.new_rollout()
        rollout.events = [event(rollout.id, 1), event(rollout.id, 2), event(rollout.id, 3, "rollout-end")]
        self.server.faults = [Fault("GET", "/events", cut_after=3, then=self.server.restart)]
        self.assertEqual([entry.seq async for entry in self.client.events(rollout.id)], [1, 2, 3])

    async def test_a_group_gives_results_a_summary_and_rows(self) -> None:
        group = await self.client.group(TASK, 3, endpoint="scripted")
        self.assertEqual({result.rollout_id async for result in group}, set(group.rollout_ids))
        self.assertEqual((await group.summary()).done, 3)
        self.assertEqual([row.rollout_id async for row in group.rows()], group.rollout_ids)
        self.assertEqual(
            [row.rollout_id async for row in self.client.rows(group.rollout_ids[0])], group.rollout_ids[:1]
        )

    async def test_a_batch_gives_results_and_rows(self) -> None:
        batch = await self.client.batch([TASK], ["scripted"], 3)
        self.assertEqual(len([result async for result in batch]), 3)
        again = await self.client.open_batch(batch.id)
        self.assertEqual(len([row async for row in again.rows()]), 3)

    async def test_a_cancelled_task_hangs_up(self) -> None:
        rollout = self.server.new_rollout()
        seen = asyncio.Event()

        def endless() -> Iterator[Any]:
            while True:
                yield sample_of(rollout, sessionId="x" * 100_000)

        async def read() -> None:
            async for _ in self.client.samples(rollout.id):
                seen.set()

        rollout.samples = endless
        task = asyncio.create_task(read())
        await seen.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertTrue(await asyncio.to_thread(self.server.hung_up.wait, 60))
