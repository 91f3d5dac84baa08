"""What a rollout is about: the task, and the endpoint its model calls go to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import Any


@dataclass(frozen=True)
class TaskFile:
    """One file to stage. ``path`` is relative to the folder it is staged in, or absolute below /home/user."""

    path: str
    content: str
    encoding: str = "utf8"
    executable: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "content": self.content,
            "encoding": self.encoding,
            "executable": self.executable,
        }


Files = Sequence[TaskFile | Mapping[str, Any]] | Mapping[str, str]
"""A list of files, or a mapping of paths to text."""


@dataclass(frozen=True)
class Task:
    """
    A self-contained task. Only ``id`` and ``instruction`` are needed; without ``verify`` or a test there is no reward.

    ``solution`` holds steps for the scripted model: shell commands as plain strings, or mappings such as
    ``{"tool": "write", "path": …, "content": …}``. ``clocks``, ``budget`` and ``box`` may be spelled in snake_case.
    """

    id: str
    instruction: str
    files: Files = ()
    setup: Sequence[str] = ()
    verify: Sequence[str] = ()
    tests: Files = ()
    artifacts: Sequence[str] = ()
    solution: Sequence[str | Mapping[str, Any]] = ()
    clocks: Mapping[str, Any] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)
    box: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Task:
        """A task in the wire's spelling; unknown keys are refused."""
        known = {entry.name for entry in fields(cls)}
        unknown = sorted(set(value) - known)
        if unknown:
            raise ValueError(f"a task has no {', '.join(unknown)}; it has {', '.join(sorted(known))}")
        return cls(**value)

    @classmethod
    def from_folder(cls, path: str | PathLike[str]) -> Task:
        """The task in a folder with a ``task.yaml``. Needs PyYAML (``pip install paddock-rollouts[yaml]``)."""
        from .task_folder import load_task

        return cls.from_json(load_task(path))

    def to_json(self) -> dict[str, Any]:
        """In the wire's spelling; the server fills in what is left out."""
        value = {
            "id": self.id,
            "instruction": self.instruction,
            "files": files_to_json(self.files),
            "setup": _commands("setup", self.setup),
            "verify": _commands("verify", self.verify),
            "tests": files_to_json(self.tests),
            "artifacts": list(self.artifacts),
            "solution": [_step(step) for step in self.solution],
            "clocks": camel_keys(self.clocks),
            "budget": camel_keys(self.budget),
            "box": camel_keys(self.box),
        }
        return {name: entry for name, entry in value.items() if entry not in ([], {})}


TaskLike = Task | Mapping[str, Any]
"""A Task, or a mapping in the wire's spelling."""


@dataclass(frozen=True)
class Endpoint:
    """Where model calls go. A plain string stands for ``Endpoint.named(string)``. The key is never shown."""

    value: Mapping[str, Any] = field(repr=False)

    @classmethod
    def named(
        cls,
        name: str,
        *,
        base_url: str | None = None,
        model: str | None = None,
        api_key: str | None = None,
        dialect: str | None = None,
        logprobs_mode: str | None = None,
        weight_version: str | None = None,
        continuity: str | None = None,
    ) -> Endpoint:
        """An entry of the server's catalog: ``vllm``, ``openai``, ``hf_router`` or ``scripted``."""
        given = {
            "baseUrl": base_url,
            "model": model,
            "apiKey": api_key,
            "dialect": dialect,
            "logprobsMode": logprobs_mode,
            "weightVersion": weight_version,
            "continuity": continuity,
        }
        return cls({"type": "named", "name": name, **_without_none(given)})

    @classmethod
    def url(
        cls,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        dialect: str | None = None,
        logprobs_mode: str | None = None,
        weight_version: str | None = None,
        continuity: str | None = None,
    ) -> Endpoint:
        """
        Any OpenAI-compatible engine. ``logprobs_mode`` says what its logprobs are of (``raw_logprobs``,
        ``scaled_logprobs``, ``processed_logprobs``); without it the server finds out where that is possible.
        ``weight_version`` names the weights that it serves now, such as the trainer's step; what the engine says wins.
        ``continuity="off"`` lets it render every prompt anew.
        """
        given = {"apiKey": api_key, "dialect": dialect, "logprobsMode": logprobs_mode}
        given |= {"weightVersion": weight_version, "continuity": continuity}
        return cls({"type": "url", "baseUrl": base_url, "model": model, **_without_none(given)})

    @classmethod
    def policy(cls, policy: str, *, trace: str | None = None) -> Endpoint:
        """A scripted model: ``oracle``, ``noop``, ``cheat-*``, ``replay``."""
        return cls({"type": "policy", "policy": policy, **_without_none({"trace": trace})})


EndpointLike = str | Endpoint | Mapping[str, Any]


def task_to_json(task: TaskLike) -> dict[str, Any]:
    return task.to_json() if isinstance(task, Task) else dict(task)


def endpoint_to_json(endpoint: EndpointLike) -> dict[str, Any]:
    if isinstance(endpoint, str):
        return dict(Endpoint.named(endpoint).value)
    return dict(endpoint.value if isinstance(endpoint, Endpoint) else endpoint)


def camel_keys(value: Mapping[str, Any]) -> dict[str, Any]:
    """snake_case as Python writes it to camelCase as it is stored."""
    return {camel(name): entry for name, entry in value.items()}


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def files_to_json(files: Files) -> list[dict[str, Any]]:
    if isinstance(files, Mapping):
        return [{"path": path, "content": content} for path, content in files.items()]
    return [file.to_json() if isinstance(file, TaskFile) else dict(file) for file in files]


def _commands(name: str, commands: Sequence[str]) -> list[str]:
    # A string is a sequence of one-letter commands to Python; nobody means that.
    if isinstance(commands, str):
        raise TypeError(f"{name} is a list of commands; write [{commands!r}]")
    return list(commands)


def _step(step: str | Mapping[str, Any]) -> dict[str, Any]:
    return {"tool": "bash", "command": step} if isinstance(step, str) else dict(step)


def _without_none(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry for name, entry in value.items() if entry is not None}
