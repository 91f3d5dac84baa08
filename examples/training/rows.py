"""
Runs one task eight times as a group under the scripted model and shows the training rows made of it. Trains nothing.
Exits non-zero when a row is not as it should be.

    paddock serve                                                        # in another terminal
    PYTHONPATH=python python3 examples/training/rows.py http://127.0.0.1:8000
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from paddock import Client, Group, Row, Task

HELLO = Task(
    id="hello",
    instruction="Write the word hello into hello.txt",
    verify=["grep -q hello hello.txt"],
    solution=["echo hello > hello.txt"],
)


def main() -> None:
    arguments = parse_arguments()
    client = Client(arguments.url, token=arguments.token)
    group = client.group(arguments.task, arguments.n, endpoint="scripted", max_attempts=5)
    watch(group)
    rows = group.rows(untrainable="raise")
    print(f"{'rollout':24} {'tokens':>7} {'prompt':>7} {'trained':>7} {'reward':>7} {'advantage':>9}")
    shown = [show(row) for row in rows]
    check(shown, group)
    print("All as it should be.")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Shows the training rows of a group.")
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:8000")
    parser.add_argument("--token")
    parser.add_argument("--task", type=read_task, default=HELLO, help="a task as JSON, in the spelling of the HTTP API")
    parser.add_argument("-n", type=int, default=8)
    return parser.parse_args()


def read_task(path: str) -> Task:
    return Task.from_json(json.loads(Path(path).read_text()))


def watch(group: Group) -> None:
    """The results come as they are ready, whatever happens to the server meanwhile."""
    for count, result in enumerate(group, start=1):
        print(f"{count} of {len(group.rollout_ids)}: {result.outcome}, reward {result.reward}", flush=True)
        require(result.outcome == "completed", f"{result.rollout_id}: {result.error}")


def show(row: Row) -> Row:
    print(
        f"{row.rollout_id:24} {len(row.ids):7} {row.prompt_length:7} {row.trained_tokens:7} "
        f"{row.reward:7.2f} {row.advantage:9.2f}"
    )
    return row


def check(rows: list[Row], group: Group) -> None:
    require({row.rollout_id for row in rows} == set(group.rollout_ids), "every rollout has a row")
    for row in rows:
        require(len(row.ids) == len(row.mask) == len(row.logprobs), "the lists have one length")
        require(0 < row.prompt_length < len(row.ids), "there is a prompt and something after it")
        require(not any(row.mask[: row.prompt_length]), "nothing of the prompt is trained on")
        require(row.trained_tokens > 0, "something is trained on")
        require(row.group_id == group.id, "the row knows its group")
    summary = group.summary()
    require(summary.is_finished and summary.reward_mean == 1, f"the scripted model solves the task: {summary}")
    require({row.advantage for row in rows} == {0.0}, "equal rewards leave no advantage")


def require(holds: bool, claim: str) -> None:
    if not holds:
        sys.exit(f"Not so: {claim}")


if __name__ == "__main__":
    main()
