"""Single requests: what is sent, what is tried again, what is not."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
import unittest
from email.utils import formatdate
from pathlib import Path

import paddock
from paddock import ApiError, Client, ConnectionLost, Endpoint, NotFinished, Task
from paddock.conversations import conversation_body

from .stand_in import Fault, StandIn
from .wire import sample_of

PACKAGE = Path(paddock.__file__).parent.parent
TASK = Task(id="hello", instruction="Write hello", verify=["grep -q hello hello.txt"])


class RequestTest(unittest.TestCase):
    def setUp(self) -> None:
        self.server = StandIn()
        self.addCleanup(self.server.stop)
        self.client = Client(self.server.url, token="secret")

    def test_run_sends_what_was_said_and_gives_the_typed_result(self) -> None:
        result = self.client.run(
            TASK,
            endpoint=Endpoint.url(
                "http://127.0.0.1:9/v1", "m", api_key="k", logprobs_mode="processed_logprobs", continuity="off"
            ),
            sampling={"max_tokens_cap": 10, "temperature": 1.0, "continuity": "auto", "keep_reasoning": True},
            labels={"run": "7"},
            max_attempts=3,
        )
        self.assertEqual((result.outcome, result.reward, result.verify_results[0].exit_code), ("completed", 1.0, 0))
        self.assertEqual((result.exit_code, result.untrainable, result.files), (0, None, {}))
        logs = (result.install_log_tail, result.proxy_log_tail, result.agent_log_tail)
        self.assertEqual(logs, ("install", "gateway", "agent"))
        headers, body = self.server.made("POST", "/rollouts")[0]
        self.assertEqual(headers["authorization"], "Bearer secret")
        url = {"type": "url", "baseUrl": "http://127.0.0.1:9/v1", "model": "m"}
        said = {"apiKey": "k", "logprobsMode": "processed_logprobs", "continuity": "off"}
        self.assertEqual(body["endpoint"], {**url, **said})
        sampling = {"maxTokensCap": 10, "temperature": 1.0, "continuity": "auto", "keepReasoning": True}
        self.assertEqual(body["sampling"], sampling)
        self.assertEqual((body["labels"], body["maxAttempts"], body["n"]), ({"run": "7"}, 3, 1))
        self.assertEqual(body["task"], TASK.to_json())

    def test_a_key_is_not_in_the_endpoints_text(self) -> None:
        self.assertNotIn("k-123", repr(Endpoint.named("vllm", api_key="k-123")))

    def test_a_lost_answer_makes_no_second_rollout(self) -> None:
        self.server.faults = [Fault("POST", "/rollouts", lose_answer=True)]
        rollout_id = self.client.start(TASK, endpoint="scripted")
        self.assertEqual(list(self.server.rollouts), [rollout_id])
        first, second = (headers["idempotency-key"] for headers, _ in self.server.made("POST", "/rollouts"))
        self.assertEqual(first, second)

    def test_two_calls_have_two_keys_unless_the_caller_gives_one(self) -> None:
        one, other = (self.client.start(TASK, endpoint="scripted") for _ in range(2))
        self.assertNotEqual(one, other)
        one, other = (self.client.start(TASK, endpoint="scripted", idempotency_key="step-3") for _ in range(2))
        self.assertEqual(one, other)

    def test_busy_and_broken_servers_are_asked_again(self) -> None:
        self.server.faults = [Fault("POST", "/rollouts", status=status) for status in (502, 503, 504, 500)]
        self.client.start(TASK, endpoint="scripted")
        self.assertEqual(len(self.server.made("POST", "/rollouts")), 5)

    def test_retry_after_is_waited_for(self) -> None:
        self.server.faults = [Fault("POST", "/rollouts", status=429, headers={"retry-after": "1"})]
        began = time.monotonic()
        self.client.start(TASK, endpoint="scripted")
        self.assertGreaterEqual(time.monotonic() - began, 1)

    def test_a_retry_after_beyond_all_patience_is_an_error_that_says_so(self) -> None:
        for header in ("3600", formatdate(time.time() + 3600, usegmt=True)):
            self.server.faults = [Fault("POST", "/rollouts", status=429, headers={"retry-after": header})]
            with self.assertRaises(ApiError) as caught:
                self.client.start(TASK, endpoint="scripted")
            self.assertEqual((caught.exception.status, caught.exception.code), (429, "queue_full"))
            self.assertAlmostEqual(caught.exception.retry_after_s or 0, 3600, delta=1800)

    def test_a_refusal_is_final(self) -> None:
        self.server.faults = [Fault("POST", "/rollouts", status=422, code="invalid_request")]
        with self.assertRaises(ApiError) as caught:
            self.client.start(TASK, endpoint="scripted")
        self.assertEqual((caught.exception.code, str(caught.exception)), ("invalid_request", "it is invalid_request"))
        self.assertEqual(len(self.server.made("POST", "/rollouts")), 1)

    def test_a_body_that_is_refused_half_way_is_a_refusal_not_a_lost_connection(self) -> None:
        with self.assertRaises(ApiError) as caught:
            self.client.start(Task(id="a", instruction="x" * 20_000_000), endpoint="scripted")
        self.assertEqual((caught.exception.status, caught.exception.code), (413, "body_too_large"))

    def test_a_server_that_keeps_failing_by_a_bug_is_given_up(self) -> None:
        self.server.faults = [Fault("GET", "/health", status=500, code="internal") for _ in range(10)]
        with self.assertRaises(ApiError):
            self.client.health()
        self.assertEqual(len(self.server.made("GET", "/health")), 5)

    def test_nobody_there_is_an_error_once_patience_is_over(self) -> None:
        self.client.health()
        impatient = Client(self.server.url, patience_s=0.3)
        self.server.stop()
        with self.assertRaises(ConnectionLost):
            impatient.health()

    def test_a_wait_outlives_a_restart(self) -> None:
        rollout = self.server.new_rollout(outcome=None)

        def finish_and_restart() -> None:
            self.server.stop()
            rollout.outcome = "completed"
            self.server.start()

        self.server.faults = [Fault("POST", "/finalize", lose_answer=True, then=finish_and_restart)]
        self.assertEqual(self.client.wait(rollout.id).outcome, "completed")

    def test_a_wait_asks_until_the_end(self) -> None:
        rollout = self.server.new_rollout(outcome=None)

        def look() -> None:
            if len(self.server.made("POST", "/finalize")) == 3:
                rollout.outcome = "timeout"

        self.server.on_look = look
        self.assertEqual(self.client.wait(rollout.id).outcome, "timeout")
        self.assertEqual(len(self.server.made("POST", "/finalize")), 3)

    def test_a_wait_that_is_over_names_the_rollout(self) -> None:
        rollout = self.server.new_rollout(outcome=None)
        with self.assertRaises(NotFinished) as caught:
            self.client.wait(rollout.id, timeout_s=0.2)
        self.assertEqual(caught.exception.rollout_id, rollout.id)
        self.assertIsInstance(caught.exception, TimeoutError)

    def test_one_client_serves_many_threads(self) -> None:
        ids: list[str] = []
        threads = [
            threading.Thread(target=lambda: ids.append(self.client.start(TASK, endpoint="scripted"))) for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(ids)), 20)

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork")
    def test_a_client_works_on_in_a_forked_process(self) -> None:
        self.client.health()
        child = multiprocessing.get_context("fork").Process(target=self.client.health)
        child.start()
        child.join(60)
        self.assertEqual(child.exitcode, 0)

    def test_a_script_that_ends_within_a_stream_ends_quietly(self) -> None:
        rollout = self.server.new_rollout()
        rollout.samples = lambda: [sample_of(rollout, index=index) for index in range(3)]
        script = (
            f"from paddock import Client\nstream = Client({self.server.url!r}).samples({rollout.id!r})\nnext(stream)"
        )
        ended = subprocess.run(
            [sys.executable, "-W", "default", "-c", script], cwd=PACKAGE, capture_output=True, timeout=60
        )
        self.assertEqual((ended.returncode, ended.stderr), (0, b""))

    def test_the_small_questions_have_typed_answers(self) -> None:
        rollout = self.server.new_rollout(outcome=None)
        self.assertEqual(self.client.result(rollout.id).is_finished, False)
        self.assertEqual(self.client.messages(rollout.id).note, "it has not begun")
        self.assertEqual(self.client.rollout(rollout.id)["id"], rollout.id)
        self.assertTrue(self.client.abort(rollout.id))
        self.assertFalse(self.client.abort(rollout.id))
        self.assertTrue(self.client.certificate(rollout.id).trainable)
        with self.assertRaises(ApiError) as caught:
            self.client.result("../ro 7")
        self.assertEqual(caught.exception.status, 404)

    def test_a_conversation_names_an_endpoint_or_a_kept_agent(self) -> None:
        body = conversation_body(None, {"kept_agent": "aide", "text": "Hello.", "folder": "/srv/project"})
        self.assertEqual(body, {"by": "python", "keptAgent": "aide", "text": "Hello.", "folder": "/srv/project"})
        self.assertEqual(conversation_body("vllm", {}), {"by": "python", "endpoint": {"type": "named", "name": "vllm"}})

    def test_what_cannot_be_meant_is_refused_before_it_is_sent(self) -> None:
        with self.assertRaises(TypeError):
            self.client.start(TASK, endpoint="scripted", smapling={})  # type: ignore[call-arg]
        with self.assertRaises(TypeError):
            self.client.start(Task(id="a", instruction="b", verify="true"), endpoint="scripted")
        with self.assertRaises(TypeError):
            self.client.batch([TASK], "scripted")
        with self.assertRaises(ValueError):
            Client("127.0.0.1:8000")
        self.assertEqual(self.server.requests, [])


if __name__ == "__main__":
    unittest.main()
