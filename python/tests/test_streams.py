"""Events and samples: nothing twice, nothing lost, nothing piled up."""

from __future__ import annotations

import asyncio
import socket
import unittest
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from paddock import ApiError, Client, ConnectionLost, Untrainable
from paddock.connection import exchange

from .stand_in import Fault, StandIn
from .wire import event, sample_of

MEGABYTE = 1_000_000


class StreamTest(unittest.TestCase):
    def setUp(self) -> None:
        self.server = StandIn()
        self.addCleanup(self.server.stop)
        self.client = Client(self.server.url)

    def _rollout_with_events(self, count: int) -> str:
        rollout = self.server.new_rollout()
        rollout.events = [event(rollout.id, seq, text="ä ✓") for seq in range(1, count)]
        rollout.events.append(event(rollout.id, count, "rollout-end", outcome="completed", reward=1))
        return rollout.id

    def test_events_come_in_order_until_the_end(self) -> None:
        events = list(self.client.events(self._rollout_with_events(5)))
        self.assertEqual([entry.seq for entry in events], [1, 2, 3, 4, 5])
        self.assertEqual((events[0].type, events[0].data), ("note", {"text": "ä ✓"}))
        self.assertEqual((events[-1].type, events[-1].data["reward"]), ("rollout-end", 1))

    def test_a_cut_within_an_event_is_taken_up_after_the_last_whole_one(self) -> None:
        rollout_id = self._rollout_with_events(9)
        # The first two pieces of each stream are no events.
        self.server.faults = [Fault("GET", "/events", cut_after=cut) for cut in (4, 2, 5)]
        self.assertEqual([entry.seq for entry in self.client.events(rollout_id)], list(range(1, 10)))
        asked = [headers["last-event-id"] for headers, _ in self.server.made("GET", "/events")]
        self.assertEqual(asked, ["0", "2", "2", "5"])

    def test_a_restart_of_the_server_loses_no_event(self) -> None:
        rollout_id = self._rollout_with_events(6)
        self.server.faults = [Fault("GET", "/events", cut_after=4, then=self.server.restart)]
        self.assertEqual([entry.seq for entry in self.client.events(rollout_id)], [1, 2, 3, 4, 5, 6])

    def test_whoever_has_everything_gets_nothing_more(self) -> None:
        self.assertEqual(list(self.client.events(self._rollout_with_events(3), after=3)), [])

    def test_events_of_an_unknown_rollout_are_an_error(self) -> None:
        with self.assertRaises(ApiError) as caught:
            next(self.client.events("ro_unknown"))
        self.assertEqual(caught.exception.status, 404)

    def test_samples_are_read_as_fast_as_they_are_used(self) -> None:
        rollout = self.server.new_rollout()
        total, filling = 64, "x" * MEGABYTE

        def samples() -> Iterator[Any]:
            for index in range(total):
                yield sample_of(rollout, index=index, sessionId=filling)

        rollout.samples = samples
        furthest, used = 0, 0
        for sample in self.client.samples(rollout.id):
            used += len(sample.session_id or "")
            furthest = max(furthest, self.server.bytes_written - used)
        self.assertEqual(used, total * MEGABYTE)
        # What lies between server and user is what sockets buffer, whatever the size of the whole.
        self.assertLess(furthest, total * MEGABYTE / 3)

    def test_a_forgotten_stream_lets_go_of_its_connection(self) -> None:
        rollout = self.server.new_rollout()

        def endless() -> Iterator[Any]:
            while True:
                yield sample_of(rollout, sessionId="x" * MEGABYTE)

        rollout.samples = endless
        stream = self.client.samples(rollout.id)
        next(stream)
        del stream
        self.assertTrue(self.server.hung_up.wait(60))

    def test_a_cut_stream_of_samples_goes_on_where_it_broke(self) -> None:
        rollout = self.server.new_rollout()
        rollout.samples = lambda: [sample_of(rollout, index=index) for index in range(6)]
        self.server.faults = [
            Fault("GET", "/samples", cut_after=3, then=self.server.restart),
            Fault("GET", "/samples", cut_after=5),
        ]
        self.assertEqual([sample.index for sample in self.client.samples(rollout.id)], [0, 1, 2, 3, 4, 5])

    def test_a_cut_stream_of_calls_goes_on_where_it_broke(self) -> None:
        rollout = self.server.new_rollout()
        self.server.faults = [Fault("GET", "/calls", cut_after=2), Fault("GET", "/calls", cut_after=1)]
        self.assertEqual([call["index"] for call in self.client.calls(rollout.id)], [0, 1, 2, 3, 4])

    def test_a_server_that_takes_the_call_and_says_nothing_counts_as_gone(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as mute:
            url = urlsplit(f"http://127.0.0.1:{mute.getsockname()[1]}")
            with self.assertRaisesRegex(ConnectionLost, "silent"):
                asyncio.run(exchange(url, "GET", "/", headers={}, body=None, silence_s=0.2))

    def test_untrainable_samples_are_refused_with_the_certificates_reasons(self) -> None:
        rollout = self.server.new_rollout(reasons=["a call is incomplete", "no logprobs"])
        with self.assertRaises(Untrainable) as caught:
            list(self.client.samples(rollout.id))
        self.assertEqual(caught.exception.reasons, ("a call is incomplete", "no logprobs"))
        self.assertEqual(len(list(self.client.samples(rollout.id, untrainable="include"))), 1)
