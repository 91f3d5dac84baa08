"""
Rollouts for TRL's GRPO trainer.

TRL's sampler repeats every prompt ``num_generations`` times and then deals the repeats out to the processes; a rollout
function gets its process's share and owes exactly one completion for each entry, in order. That is what this one does:
equal neighbours become one group on the server.
"""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from .client import Client, Group
from .errors import NothingToTrain, PaddockError, Untrainable, count_reasons
from .row import Row
from .task import EndpointLike, TaskLike

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .request import Options

Prompt = str | Sequence[Mapping[str, Any]]
"""Text, or a conversation."""
Tasks = Mapping[str, TaskLike] | Callable[[Prompt], TaskLike]
Columns = dict[str, list[Any]]


def rollout_func(
    client: Client,
    tasks: Tasks,
    *,
    endpoint: EndpointLike,
    completions_per_prompt: int = 1,
    untrainable: Literal["raise", "mask"] = "raise",
    max_completion_tokens: int | None = None,
    **options: Unpack[Options],
) -> Callable[[Sequence[Prompt], Any], Columns]:
    """
    A ``rollout_func`` for ``GRPOTrainer``.

    ``tasks`` finds the task of a prompt: a function, or a mapping by the prompt's text (of a conversation, that of
    its last user message). ``endpoint`` must serve the weights that are trained. ``completions_per_prompt`` is for
    trainers that hand over each prompt once; TRL repeats them itself.

    ``untrainable`` says what becomes of a rollout whose tokens cannot be vouched for, or that has no reward: ``raise``
    Untrainable, or ``mask``: one masked token with the reward None, which TRL leaves out of the baseline. A warning says
    how many were masked and why; when nothing is left to train on, NothingToTrain is raised.

    Every completion is one row. Of a rollout that forked, it is the branch of the main agent with the most sampled
    tokens. ``max_completion_tokens`` cuts longer ones. Unless ``sampling`` says otherwise, the trainer's temperature
    is used: the importance ratio depends on it.

    The columns are ``prompt_ids``, ``completion_ids``, ``logprobs`` and ``env_mask`` (1 = sampled), then ``reward``,
    ``rollout_id``, ``group_id`` and ``task_id``, which reach the reward functions; see ``reward_func``.
    """
    if untrainable not in ("raise", "mask"):
        raise ValueError(f"untrainable is raise or mask, not {untrainable!r}")

    def run_rollouts(prompts: Sequence[Prompt], trainer: Any = None) -> Columns:
        given = cast("Options", {**options, "sampling": _sampling(options, trainer)})
        groups: list[Group] = []
        try:
            for prompt, count in _neighbours(prompts):
                n = count * completions_per_prompt
                groups.append(client.group(_task_of(prompt, tasks), n, endpoint=endpoint, **given))
            skipped: list[Untrainable] = []
            rows = [row for group in groups for row in _rows_of(group, untrainable, _filler(trainer), skipped)]
        except BaseException:
            # Nobody will read them any more.
            for group in groups:
                with contextlib.suppress(PaddockError):
                    group.abort()
            raise
        _tell(skipped, len(rows))
        return _columns(rows, max_completion_tokens)

    return run_rollouts


def reward_func(completions: Sequence[Any], reward: Sequence[float | None], **_: Any) -> list[float | None]:
    """For ``reward_funcs``: the reward that the task's own verifier gave."""
    return list(reward)


def prompt_text(prompt: Prompt) -> str:
    """The text, or that of the last user message."""
    if isinstance(prompt, str):
        return prompt
    for message in reversed(prompt):
        if message.get("role") == "user":
            content = message["content"]
            if isinstance(content, str):
                return content
            return "".join(part.get("text", "") for part in content)
    raise ValueError("the prompt has no message of a user")


def _neighbours(prompts: Sequence[Prompt]) -> list[tuple[Prompt, int]]:
    """Runs of equal prompts with their lengths."""
    return [(prompt, len(list(same))) for prompt, same in itertools.groupby(prompts)]


def _task_of(prompt: Prompt, tasks: Tasks) -> TaskLike:
    if callable(tasks):
        return tasks(prompt)
    text = prompt_text(prompt)
    if text not in tasks:
        raise KeyError(f"no task belongs to the prompt {text[:100]!r}")
    return tasks[text]


def _sampling(options: Mapping[str, Any], trainer: Any) -> dict[str, Any]:
    temperature = getattr(trainer, "temperature", None)
    default = {} if temperature is None else {"temperature": float(temperature)}
    return {**default, **(options.get("sampling") or {})}


def _tell(skipped: Sequence[Untrainable], rollouts: int) -> None:
    if not skipped:
        return
    if len(skipped) == rollouts:
        raise NothingToTrain(skipped)
    warnings.warn(
        f"{len(skipped)} of {rollouts} rollouts are masked out: {count_reasons(skipped)}", RuntimeWarning, stacklevel=3
    )


def _rows_of(group: Group, untrainable: str, filler: int, skipped: list[Untrainable]) -> list[Row]:
    """One for each rollout, in order of creation."""
    best: dict[str, Row] = {}
    found = group.rows(untrainable="raise" if untrainable == "raise" else "skip")
    for row in found:
        if _rank(row) > _rank(best.get(row.rollout_id)):
            best[row.rollout_id] = row
    missing = [rollout_id for rollout_id in group.rollout_ids if rollout_id not in best]
    if missing and untrainable == "raise":
        raise Untrainable(missing[0], ["no tokens were captured"])
    skipped.extend(found.skipped)
    for rollout_id in missing:
        best[rollout_id] = _masked(rollout_id, group, filler)
    return [best[rollout_id] for rollout_id in group.rollout_ids]


def _rank(row: Row | None) -> tuple[bool, int]:
    return (False, -1) if row is None else (row.purpose == "main", row.trained_tokens)


def _masked(rollout_id: str, group: Group, filler: int) -> Row:
    """Nothing to learn from, in a shape that can be padded."""
    return Row(
        ids=[filler, filler],
        mask=[0, 0],
        logprobs=[0.0, 0.0],
        prompt_length=1,
        reward=None,
        advantage=None,
        rollout_id=rollout_id,
        group_id=group.id,
        task_id=group.summary().task_id,
        index=0,
        purpose="main",
        finish_reason=None,
        weight_versions=[],
    )


def _filler(trainer: Any) -> int:
    tokenizer = getattr(trainer, "processing_class", None)
    for name in ("pad_token_id", "eos_token_id"):
        token = getattr(tokenizer, name, None)
        if isinstance(token, int):
            return token
    return 0


def _columns(rows: Sequence[Row], max_completion_tokens: int | None) -> Columns:
    columns: Columns = {
        name: []
        for name in (
            "prompt_ids", "completion_ids", "logprobs", "env_mask", "reward", "rollout_id", "group_id", "task_id",
        )
    }  # fmt: skip
    for row in rows:
        end = None if max_completion_tokens is None else row.prompt_length + max_completion_tokens
        completion = slice(row.prompt_length, end)
        columns["prompt_ids"].append(row.ids[: row.prompt_length])
        columns["completion_ids"].append(row.ids[completion])
        columns["logprobs"].append(row.logprobs[completion])
        columns["env_mask"].append(row.mask[completion])
        columns["reward"].append(row.reward)
        columns["rollout_id"].append(row.rollout_id)
        columns["group_id"].append(row.group_id)
        columns["task_id"].append(row.task_id)
    return columns
