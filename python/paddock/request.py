"""The body of a request, from what a caller says in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from .task import EndpointLike, TaskLike, camel_keys, endpoint_to_json, task_to_json


class Options(TypedDict, total=False):
    """What may be said of every rollout besides its task and endpoint; the server has defaults for all of it."""

    sandbox: str
    """local, docker, e2b, ssh or process"""
    mode: str
    """transparent_proxy or black_box"""
    agent: Mapping[str, Any]
    """driver, title, compaction, context_tokens, output_tokens, permission"""
    sampling: Mapping[str, Any]
    """max_tokens_cap, top_logprobs, disable_thinking, temperature, top_p, top_k, min_p, presence_penalty,
    frequency_penalty, repetition_penalty, seed"""
    priority: int
    labels: Mapping[str, str]
    max_attempts: int
    idempotency_key: str
    """A repeat with the same key gets what the first one made; without it, one is made up for each call."""


def rollout_body(task: TaskLike, endpoint: EndpointLike, n: int, group: bool, options: Options) -> dict[str, Any]:
    return {
        "task": task_to_json(task),
        "endpoint": endpoint_to_json(endpoint),
        "n": n,
        "group": group,
        **_options(options),
    }


def batch_body(
    tasks: Sequence[TaskLike], endpoints: Sequence[EndpointLike], n: int, options: Options
) -> dict[str, Any]:
    if isinstance(endpoints, (str, Mapping)):
        raise TypeError("endpoints is a list; write [endpoint]")
    return {
        "tasks": [task_to_json(task) for task in tasks],
        "endpoints": [endpoint_to_json(endpoint) for endpoint in endpoints],
        "n": n,
        **_options(options),
    }


def _options(options: Options) -> dict[str, Any]:
    unknown = sorted(set(options) - set(Options.__annotations__))
    if unknown:
        raise TypeError(f"unknown option {', '.join(unknown)}; there are {', '.join(Options.__annotations__)}")
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    given.pop("idempotency_key", None)
    for name in {"agent", "sampling"} & given.keys():
        given[name] = camel_keys(given[name])
    return camel_keys(given)
