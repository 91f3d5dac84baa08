"""Groups, batches, and the rows made of them."""

from __future__ import annotations

import unittest
from types import SimpleNamespace
from typing import Any

import paddock
from paddock import BrokenSample, Client, NothingToTrain, Task, Untrainable
from paddock.trl import reward_func, rollout_func

from .stand_in import Fault, StandIn
from .wire import Rollout, sample_of

TASK = Task(id="hello", instruction="Write hello")


class RowsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.server = StandIn()
        self.addCleanup(self.server.stop)
        self.client = Client(self.server.url)

    def test_members_of_a_group_come_as_they_finish(self) -> None:
        self.server.on_create = lambda rollout, index: setattr(rollout, "outcome", None)
        group = self.client.group(TASK, 3, endpoint="scripted")
        order = [group.rollout_ids[index] for index in (2, 0, 1)]
        waiting = iter(list(order))

        def finish_one() -> None:
            self.server.rollouts[next(waiting)].outcome = "completed"

        looks = iter([finish_one, lambda: None, finish_one, finish_one])
        self.server.on_look = lambda: next(looks, lambda: None)() if _asks_for_group(self.server) else None
        self.assertEqual([result.rollout_id for result in group], order)
        self.assertTrue(group.summary().is_finished)
        self.assertEqual([result.rollout_id for result in group.results()], group.rollout_ids)

    def test_a_group_can_be_taken_up_again_and_aborted(self) -> None:
        self.server.on_create = lambda rollout, index: setattr(rollout, "outcome", None)
        made = self.client.group(TASK, 2, endpoint="scripted")
        again = self.client.open_group(made.id)
        self.assertEqual(again.rollout_ids, made.rollout_ids)
        self.assertEqual(again.abort(), made.rollout_ids)
        self.assertEqual([result.outcome for result in made], ["aborted", "aborted"])

    def test_a_group_outlives_restarts_at_every_step(self) -> None:
        self.server.faults = [
            Fault("POST", "/rollouts", lose_answer=True, then=self.server.restart),
            Fault("GET", "/gr_0", lose_answer=True, then=self.server.restart),
            Fault("GET", "/result", lose_answer=True, then=self.server.restart),
        ]
        group = self.client.group(TASK, 4, endpoint="scripted")
        self.assertEqual([result.rollout_id for result in group], group.rollout_ids)
        self.assertEqual((len(self.server.rollouts), self.server.faults), (4, []))

    def test_a_batch_gives_each_result_once_and_its_groups(self) -> None:
        tasks = [Task(id="a", instruction="a"), Task(id="b", instruction="b")]
        batch = self.client.batch(tasks, ["scripted", "vllm"], 2)
        results = [result.rollout_id for result in batch]
        self.assertEqual((len(results), len(set(results))), (8, 8))
        self.assertEqual([len(group.rollout_ids) for group in batch.groups()], [2, 2, 2, 2])
        self.assertEqual([row.task_id for row in batch.rows()], ["a"] * 4 + ["b"] * 4)
        self.assertEqual(batch.summary().done, 8)

    def test_rows_have_lists_of_one_length_and_the_advantage_over_the_group(self) -> None:
        self.server.on_create = lambda rollout, index: setattr(rollout, "reward", float(index == 0))
        group = self.client.group(TASK, 4, endpoint="scripted")
        rows = list(paddock.rows(self.client, group))
        self.assertEqual([row.rollout_id for row in rows], group.rollout_ids)
        for row in rows:
            self.assertEqual((len(row.ids), len(row.mask), len(row.logprobs)), (5, 5, 5))
            self.assertEqual((row.prompt_length, row.trained_tokens, row.group_id), (2, 2, group.id))
        self.assertEqual([round(row.advantage or 0, 4) for row in rows], [1.7321, -0.5774, -0.5774, -0.5774])

    def test_equal_rewards_have_no_advantage(self) -> None:
        group = self.client.group(TASK, 2, endpoint="scripted")
        self.assertEqual([row.advantage for row in group.rows()], [0.0, 0.0])

    def test_rows_of_single_rollouts_know_their_group_if_any(self) -> None:
        alone = self.client.run(TASK, endpoint="scripted")
        self.server.on_create = lambda rollout, index: setattr(rollout, "reward", float(index))
        member = self.client.group(TASK, 2, endpoint="scripted").rollout_ids[1]
        self.assertEqual([row.advantage for row in self.client.rows([alone, member])], [None, 1.0])

    def test_untrainable_rollouts_are_skipped_with_their_reasons_or_raised_or_included(self) -> None:
        self.server.on_create = _second_is_untrainable
        group = self.client.group(TASK, 3, endpoint="scripted")
        rows = group.rows()
        self.assertEqual([row.rollout_id for row in rows], [group.rollout_ids[0]])
        skipped = {entry.rollout_id: entry.reasons for entry in rows.skipped}
        self.assertEqual(
            skipped,
            {group.rollout_ids[1]: ("a call is incomplete",), group.rollout_ids[2]: ("it has no reward",)},
        )
        with self.assertRaises(Untrainable) as caught:
            list(group.rows(untrainable="raise"))
        self.assertEqual(caught.exception.reasons, ("a call is incomplete",))
        self.assertEqual(len(list(group.rows(untrainable="include"))), 3)

    def test_rows_of_other_weights_than_the_wanted_ones_are_left_out(self) -> None:
        versions: list[list[str]] = [["11"], ["12"], ["11", "12"], []]
        for number, version in enumerate(versions):
            rollout = self.server.new_rollout()
            rollout.samples = lambda rollout=rollout, version=version: [sample_of(rollout, weightVersions=version)]
            rows = self.client.rows(rollout.id, weights=["12", "13"])
            self.assertEqual(len(list(rows)), 1 if number == 1 else 0)
            reason = "nobody said which weights sampled it" if number == 3 else "it was sampled by weights 11"
            self.assertEqual([left_out.reasons for left_out in rows.skipped], [] if number == 1 else [(reason,)])

    def test_a_sample_whose_lists_do_not_belong_together_is_never_a_row(self) -> None:
        wrong: list[dict[str, Any]] = [
            {"logprobs": [0, 0, -0.5]},
            {"mask": [0, 0, 1, 0]},
            {"promptLength": 6},
            {"promptLength": 3},
            {"logprobs": [0, 0, -0.5, -0.1, -0.25]},
            {"mask": [0, 0, 2, 0, 1]},
        ]
        for changes in wrong:
            rollout = self.server.new_rollout()
            rollout.samples = lambda rollout=rollout, changes=changes: [sample_of(rollout, **changes)]
            with self.subTest(changes), self.assertRaises(BrokenSample):
                list(self.client.rows(rollout.id))


class TrlTest(unittest.TestCase):
    def setUp(self) -> None:
        self.server = StandIn()
        self.addCleanup(self.server.stop)
        self.client = Client(self.server.url)
        self.tasks = {"Write hello": TASK, "Write bye": Task(id="bye", instruction="Write bye")}
        tokenizer = SimpleNamespace(pad_token_id=None, eos_token_id=42)
        self.trainer = SimpleNamespace(num_generations=3, temperature=0.7, processing_class=tokenizer)

    def test_every_entry_gets_one_completion_in_order_and_equal_neighbours_share_a_group(self) -> None:
        rollouts = rollout_func(self.client, self.tasks, endpoint="scripted")
        bye = [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Write bye"}]
        columns = rollouts(["Write hello"] * 3 + [bye] * 3, self.trainer)
        self.assertEqual(columns["task_id"], ["hello"] * 3 + ["bye"] * 3)
        self.assertEqual(columns["group_id"], ["gr_0"] * 3 + ["gr_1"] * 3)
        self.assertEqual(columns["prompt_ids"], [[5, 6]] * 6)
        self.assertEqual(columns["completion_ids"], [[7, 8, 9]] * 6)
        self.assertEqual(columns["logprobs"], [[-0.5, 0, -0.25]] * 6)
        self.assertEqual(columns["env_mask"], [[1, 0, 1]] * 6)
        self.assertEqual(reward_func(completions=[None] * 6, **columns), [1.0] * 6)
        sampling = [body["sampling"] for _, body in self.server.made("POST", "/rollouts")]
        self.assertEqual(sampling, [{"temperature": 0.7}] * 2)

    def test_a_trainer_that_hands_over_each_prompt_once_gets_as_many_as_it_asks_for(self) -> None:
        rollouts = rollout_func(
            self.client, lambda prompt: TASK, endpoint="scripted", completions_per_prompt=4, max_completion_tokens=2
        )
        columns = rollouts(["anything"], self.trainer)
        self.assertEqual([len(values) for values in columns.values()], [4] * 8)
        self.assertEqual(columns["completion_ids"], [[7, 8]] * 4)
        self.assertEqual(columns["logprobs"], [[-0.5, 0]] * 4)

    def test_of_a_rollout_that_forked_the_longest_branch_of_the_main_agent_is_taken(self) -> None:
        def fork(rollout: Rollout, index: int) -> None:
            rollout.samples = lambda: [
                sample_of(rollout, index=0, mask=[0, 0, 0, 0, 1], logprobs=[0, 0, 0, 0, -1]),
                sample_of(rollout, index=1, ids=[5, 6, 7, 8, 99]),
                sample_of(rollout, index=2, purpose="subagent", mask=[0, 0, 1, 1, 1], logprobs=[0, 0, -1, -1, -1]),
            ]

        self.server.on_create = fork
        columns = rollout_func(self.client, self.tasks, endpoint="scripted")(["Write hello"], self.trainer)
        self.assertEqual(columns["completion_ids"], [[7, 8, 99]])

    def test_an_untrainable_rollout_is_raised_or_masked_out(self) -> None:
        self.server.on_create = _second_is_untrainable
        with self.assertRaises(Untrainable):
            rollout_func(self.client, self.tasks, endpoint="scripted")(["Write hello"] * 3, self.trainer)
        masked = rollout_func(self.client, self.tasks, endpoint="scripted", untrainable="mask")
        with self.assertWarnsRegex(RuntimeWarning, "^2 of 3 rollouts are masked out: 1 × a call is incomplete; 1 × it has"):
            columns = masked(["Write hello"] * 3, self.trainer)
        self.assertEqual(columns["reward"], [1.0, None, None])
        self.assertEqual(columns["prompt_ids"], [[5, 6], [42], [42]])
        self.assertEqual(columns["env_mask"], [[1, 0, 1], [0], [0]])
        self.assertEqual([len(ids) for ids in columns["completion_ids"]], [3, 1, 1])

    def test_a_batch_with_nothing_to_train_on_is_no_batch(self) -> None:
        self.server.on_create = lambda rollout, index: setattr(rollout, "reasons", ["its logprobs are raw_logprobs"])
        masked = rollout_func(self.client, self.tasks, endpoint="scripted", untrainable="mask")
        with self.assertRaisesRegex(NothingToTrain, "none of the 2 rollouts .*: 2 × its logprobs are raw_logprobs"):
            masked(["Write hello", "Write bye"], self.trainer)

    def test_a_prompt_without_a_task_aborts_what_was_started(self) -> None:
        self.server.on_create = lambda rollout, index: setattr(rollout, "outcome", None)
        with self.assertRaises(KeyError):
            rollout_func(self.client, self.tasks, endpoint="scripted")(["Write hello", "Sing"], self.trainer)
        self.assertEqual([rollout.outcome for rollout in self.server.rollouts.values()], ["aborted"])


def _second_is_untrainable(rollout: Rollout, index: int) -> None:
    if index == 1:
        rollout.reasons = ["a call is incomplete"]
    if index == 2:
        rollout.outcome, rollout.reward = "failed", None


def _asks_for_group(server: StandIn) -> bool:
    return "/groups/" in server.requests[-1][1]
