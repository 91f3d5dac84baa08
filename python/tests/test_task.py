"""Tasks: as written in Python, and as they lie in folders."""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import paddock
from paddock import Task, TaskFile
from paddock.task_folder import to_id

HAS_YAML = importlib.util.find_spec("yaml") is not None
JSON_IS_YAML = SimpleNamespace(safe_load=json.loads, YAMLError=ValueError)


class TaskTest(unittest.TestCase):
    def test_short_forms_become_the_wires_spelling(self) -> None:
        task = Task(
            id="a",
            instruction="Do it",
            files={"x.txt": "x"},
            tests=[TaskFile("test.sh", "true", executable=True), {"path": "y", "content": "z"}],
            solution=["echo hello", {"tool": "write", "path": "p", "content": "c"}],
            clocks={"agent_s": 5},
            box={"memory_mb": 512},
        )
        self.assertEqual(
            task.to_json(),
            {
                "id": "a",
                "instruction": "Do it",
                "files": [{"path": "x.txt", "content": "x"}],
                "tests": [
                    {"path": "test.sh", "content": "true", "encoding": "utf8", "executable": True},
                    {"path": "y", "content": "z"},
                ],
                "solution": [
                    {"tool": "bash", "command": "echo hello"},
                    {"tool": "write", "path": "p", "content": "c"},
                ],
                "clocks": {"agentS": 5},
                "box": {"memoryMb": 512},
            },
        )

    def test_what_was_written_can_be_read_back(self) -> None:
        wire = {"id": "a", "instruction": "b", "verify": ["true"], "budget": {"maxCalls": 3}}
        self.assertEqual(Task.from_json(wire).to_json(), wire)
        with self.assertRaisesRegex(ValueError, "verfy"):
            Task.from_json({"id": "a", "instruction": "b", "verfy": []})

    def test_a_folder_keeps_its_name_in_any_script(self) -> None:
        names = ["my task!", "задача", "课题 二", "de\u0301ja\u0300-vu", "...", "हिन्दी"]
        ids = ["my-task-", "задача", "课题-二", "déjà-vu", "task", "हिन्दी"]
        self.assertEqual([to_id(name) for name in names], ids)

    def test_without_yaml_a_folder_says_what_to_install(self) -> None:
        with patch.dict(sys.modules, {"yaml": None}), self.assertRaisesRegex(ImportError, "pip install"):
            Task.from_folder("anywhere")

    def test_a_folder_is_read_with_its_files(self) -> None:
        # Without PyYAML the part of YAML that is JSON will do.
        modules = {} if HAS_YAML else {"yaml": JSON_IS_YAML}
        with patch.dict(sys.modules, modules), tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "my task"
            (folder / "files" / "src").mkdir(parents=True)
            (folder / "tests").mkdir()
            (folder / "solution").mkdir()
            (folder / "task.yaml").write_text(
                '{"verify": "bash x.sh", "limits": {"agent_s": 9, "max_calls": 4}, "box": {"memory_mb": 600}}'
            )
            (folder / "instruction.md").write_text("Do it\n")
            (folder / "files" / "src" / "a.bin").write_bytes(b"\xff\x00")
            (folder / "tests" / "test.sh").write_text("true")
            (folder / "tests" / "test.sh").chmod(0o755)
            (folder / "solution" / "b.txt").write_text("b")
            (folder / "solution" / "solve.sh").write_text("cat b.txt")
            self.assertEqual(
                Task.from_folder(folder).to_json(),
                {
                    "id": "my-task",
                    "instruction": "Do it",
                    "files": [{"path": "src/a.bin", "content": "/wA=", "encoding": "base64", "executable": False}],
                    "verify": ["bash x.sh"],
                    "tests": [{"path": "test.sh", "content": "true", "encoding": "utf8", "executable": True}],
                    "solution": [
                        {"tool": "write", "path": "b.txt", "content": "b"},
                        {"tool": "bash", "command": "cat b.txt"},
                    ],
                    "clocks": {"agentS": 9},
                    "budget": {"maxCalls": 4},
                    "box": {"memoryMb": 600},
                },
            )
            written = (folder / "task.yaml").read_text()
            (folder / "task.yaml").write_text("instrction: x\nlimits: {agents_s: 3}\nbox: {zzz: 1}\n")
            with self.assertRaises(ValueError) as refused:
                Task.from_folder(folder)
            said = str(refused.exception)
            self.assertIn('unknown key "instrction", did you mean "instruction"?', said)
            self.assertIn('unknown key "agents_s", did you mean "agent_s"?', said)
            self.assertIn('unknown key "zzz", the known ones are cpus', said)
            (folder / "task.yaml").write_text(written)
            (folder / "files" / "link").symlink_to("/etc/passwd")
            with self.assertRaisesRegex(ValueError, "leads out"):
                Task.from_folder(folder)


class PackageTest(unittest.TestCase):
    def test_only_the_standard_library_is_imported_and_python_3_10_can_read_it(self) -> None:
        allowed = sys.stdlib_module_names | {"typing_extensions", "yaml"}
        for file in Path(paddock.__file__).parent.glob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(), feature_version=(3, 10))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.level == 0:
                    names = [node.module or ""]
                for name in names:
                    self.assertIn(name.split(".")[0], allowed, file.name)
