"""The agent's program runs in a process of its own and without trust: it reaches neither these tests nor the reward."""

import os
import subprocess
import sys

import pytest

WORKDIR = os.path.join(os.environ["HOME"], "workdir")


def ask(text):
    command = ["run-untrusted", sys.executable, "-I", "intervals.py", text]
    done = subprocess.run(command, cwd=WORKDIR, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("given", "merged"),
    [
        ("1-3 2-5 7-8", "1-5 7-8"),
        ("1-2 2-3", "1-3"),
        ("5-6 1-2", "1-2 5-6"),
        ("1-9 2-3 4-12", "1-12"),
    ],
)
def test_merges(given, merged):
    assert ask(given) == merged
