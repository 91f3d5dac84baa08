"""Reads a task from its folder, as ``paddock run`` does. What is subtly wrong in it, the server says."""

from __future__ import annotations

import base64
import difflib
import re
import shlex
import unicodedata
from os import PathLike
from pathlib import Path
from typing import Any

from .task import camel

_KEYS = {
    "id", "instruction", "files", "setup", "verify", "tests", "artifacts", "solution", "limits", "box",
}  # fmt: skip
_CLOCKS = {"create_s", "setup_s", "agent_s", "verify_s", "teardown_s"}
_LIMITS = _CLOCKS | {"max_calls", "max_input_tokens", "max_output_tokens", "max_total_tokens"}
_BOX = {"image", "template", "network", "memory_mb", "cpus", "pids", "disk_mb", "file_size_mb"}
_MAX_TOTAL_BYTES = 16 * 1024 * 1024


def load_task(path: str | PathLike[str]) -> dict[str, Any]:
    """The task in the wire's spelling. Raises ValueError or FileNotFoundError, one sentence each."""
    folder = Path(path)
    if folder.name == "task.yaml":
        folder = folder.parent
    value = _read_yaml(folder / "task.yaml")
    limits = value.get("limits") or {}
    return {
        "id": value.get("id") or to_id(folder.resolve().name),
        "instruction": _instruction(value, folder),
        "files": [*(value.get("files") or []), *_read_folder(folder / "files", folder)],
        "setup": _to_list(value.get("setup")),
        "verify": _to_list(value.get("verify")),
        "tests": [*(value.get("tests") or []), *_read_folder(folder / "tests", folder)],
        "artifacts": value.get("artifacts") or [],
        "solution": _solution(value, folder),
        "clocks": {camel(name): entry for name, entry in limits.items() if name in _CLOCKS},
        "budget": {camel(name): entry for name, entry in limits.items() if name not in _CLOCKS},
        "box": {camel(name): entry for name, entry in (value.get("box") or {}).items()},
    }


def _read_yaml(file: Path) -> dict[str, Any]:
    try:
        import yaml  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise ImportError(
            "Task.from_folder reads YAML and needs PyYAML: pip install paddock-rollouts[yaml]; "
            "Task(...) and Task.from_json need nothing"
        ) from None
    if not file.is_file():
        raise FileNotFoundError(f"there is no task here: {file} does not exist")
    try:
        value = yaml.safe_load(file.read_text("utf8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{file} is not valid YAML: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{file}: a task is a map of keys such as instruction and verify")
    unknown = [*_unknown(value, _KEYS), *_unknown(value.get("limits"), _LIMITS), *_unknown(value.get("box"), _BOX)]
    if unknown:
        raise ValueError(f"{file}: {'; '.join(unknown)}")
    return value


def _unknown(value: Any, known: set[str]) -> list[str]:
    """What is wrong with each key that is none, in words."""
    sentences = []
    for key in value if isinstance(value, dict) else ():
        if key in known:
            continue
        meant = difflib.get_close_matches(str(key), known, n=1)
        hint = f'did you mean "{meant[0]}"?' if meant else f"the known ones are {', '.join(sorted(known))}"
        sentences.append(f'unknown key "{key}", {hint}')
    return sentences


def _instruction(value: dict[str, Any], folder: Path) -> str:
    file = folder / "instruction.md"
    if file.is_file() and "instruction" in value:
        raise ValueError(f"{file}: the instruction also stands in task.yaml; keep one of them")
    text = (file.read_text("utf8") if file.is_file() else value.get("instruction") or "").strip()
    if not text:
        raise ValueError(f"{folder / 'task.yaml'}: an instruction is missing")
    return text


def _solution(value: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """The list in task.yaml, or the files of ``solution/`` and then its solve.sh."""
    files = _read_folder(folder / "solution", folder)
    if "solution" in value:
        if files:
            raise ValueError(f"{folder / 'solution'}: the solution also stands in task.yaml; keep one of them")
        return [_to_step(step, folder) for step in value["solution"] or []]
    for file in files:
        if file["encoding"] != "utf8":
            raise ValueError(f"{folder / 'solution' / file['path']}: a solution is played as text and this is not")
    written = [file for file in files if file["path"] != "solve.sh"]
    steps = [{"tool": "write", "path": file["path"], "content": file["content"]} for file in written]
    programs = [shlex.quote(file["path"]) for file in written if file["executable"]]
    if programs:
        steps.append({"tool": "bash", "command": f"chmod +x {' '.join(programs)}"})
    steps.extend({"tool": "bash", "command": file["content"]} for file in files if file["path"] == "solve.sh")
    return steps


def _to_step(step: Any, folder: Path) -> dict[str, Any]:
    if isinstance(step, dict):
        if "write" in step:
            return {"tool": "write", "path": step["write"], **_others(step, "write")}
        if "edit" in step:
            return {"tool": "edit", "path": step["edit"], **_others(step, "edit")}
        if "bash" in step:
            return {"tool": "bash", "command": step["bash"], **_others(step, "bash")}
    raise ValueError(f"{folder / 'task.yaml'}: a step of the solution is write, edit or bash")


def _others(step: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: entry for key, entry in step.items() if key != name}


def _read_folder(place: Path, root: Path) -> list[dict[str, Any]]:
    """Every file below, sorted by path. A task is copied to other machines, so links may not lead out of it."""
    if not place.is_dir() or place.is_symlink():
        return []
    files: list[dict[str, Any]] = []
    total = 0
    for path in sorted(place.rglob("*"), key=lambda entry: entry.relative_to(place).as_posix()):
        if path.is_dir() and not path.is_symlink():
            continue
        if not path.resolve().is_relative_to(root.resolve()):
            raise ValueError(f"{path}: this link leads out of the task's folder")
        if not path.is_file():
            raise ValueError(f"{path}: a task holds files and folders only")
        total += path.stat().st_size
        if total > _MAX_TOTAL_BYTES:
            raise ValueError(f"{place} holds more than {_MAX_TOTAL_BYTES} bytes")
        executable = bool(path.stat().st_mode & 0o111)
        files.append(
            {"path": path.relative_to(place).as_posix(), **_content(path.read_bytes()), "executable": executable}
        )
    return files


def _content(data: bytes) -> dict[str, str]:
    """Text stays readable in traces; anything else travels as base64."""
    try:
        if b"\0" not in data:
            return {"content": data.decode("utf8"), "encoding": "utf8"}
    except UnicodeDecodeError:
        pass
    return {"content": base64.b64encode(data).decode("ascii"), "encoding": "base64"}


def _to_list(commands: Any) -> list[str]:
    return [commands] if isinstance(commands, str) else list(commands or [])


def to_id(name: str) -> str:
    """Letters and digits of any script: a folder is called what its writer calls it."""
    composed = unicodedata.normalize("NFC", name)
    plain = "".join(each if each in "._-" or unicodedata.category(each)[0] in "LMN" else " " for each in composed)
    dashed = re.sub(" +", "-", plain)
    first = next((at for at, each in enumerate(dashed) if unicodedata.category(each)[0] in "LN"), len(dashed))
    return dashed[first:][:200] or "task"
