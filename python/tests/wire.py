"""The shapes of Paddock's answers, as far as the client reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass
class Rollout:
    id: str
    task_id: str = "hello"
    group_id: str | None = None
    batch_id: str | None = None
    outcome: str | None = "completed"
    """None: it is running."""
    reward: float | None = 1.0
    events: list[Json] = field(default_factory=list)
    samples: Callable[[], Iterable[Json]] | None = None
    reasons: list[str] = field(default_factory=list)


def sample_of(rollout: Rollout, **changes: Any) -> Json:
    return {
        **{"rolloutId": rollout.id, "taskId": rollout.task_id, "groupId": rollout.group_id, "reward": rollout.reward},
        **{"index": 0, "purpose": "main", "sessionId": "ses_1", "parentSessionId": None, "agentName": "build"},
        **{"calls": [0, 1], "promptLength": 2, "ids": [5, 6, 7, 8, 9], "mask": [0, 0, 1, 0, 1]},
        **{"logprobs": [0, 0, -0.5, 0, -0.25], "finishReason": "stop", "weightVersions": [], "startedBy": None},
        **changes,
    }


def event(rollout_id: str, seq: int, kind: str = "note", **data: Any) -> Json:
    return {"rolloutId": rollout_id, "seq": seq, "at": 1000 + seq, "type": kind, **data}


def result_json(rollout: Rollout) -> Json:
    return {
        **{"rollout_id": rollout.id, "task_id": rollout.task_id, "sandbox_id": "box", "mode": "transparent_proxy"},
        **{"reward": rollout.reward if rollout.outcome else None, "outcome": rollout.outcome, "failure": None},
        **{"attempt": 1, "agent_exit_code": 0, "exit_code": 0, "wall_s": 1.5, "setup_results": []},
        "verify_results": [{"cmd": "true", "exit_code": 0, "stdout": "", "stderr": "", "duration_s": 0.1}],
        **{"test_exit_code": None, "verifier_stdout": "", "verifier_stderr": "", "proxy_turns": [], "files": {}},
        **{"workdir_files": {}, "files_extra": [], "untrainable": None},
        **{"agent_log_tail": "agent", "proxy_log_tail": "gateway", "install_log_tail": "install"},
        "error": None if rollout.outcome else "the rollout is not finished: running, phase agent",
    }


def group_summary_json(group_id: str, rollouts: list[Rollout]) -> Json:
    done = [rollout for rollout in rollouts if rollout.outcome is not None]
    rewards = [rollout.reward for rollout in done if rollout.reward is not None]
    mean = sum(rewards) / len(rewards) if rewards else None
    std = (sum((reward - mean) ** 2 for reward in rewards) / len(rewards)) ** 0.5 if mean is not None else None
    return {
        **{"id": group_id, "taskId": rollouts[0].task_id, "batchId": rollouts[0].batch_id, "n": len(rollouts)},
        **{"createdAt": 1, "done": len(done), "running": len(rollouts) - len(done), "queued": 0},
        **{"rewardMean": mean, "rewardStd": std, "passAt": {"1": 0.5}},
        "rollouts": [
            {
                "id": rollout.id,
                "status": "running" if rollout.outcome is None else "done",
                "outcome": rollout.outcome,
                "reward": rollout.reward if rollout.outcome else None,
            }
            for rollout in rollouts
        ],
    }


def certificate_json(rollout: Rollout) -> Json:
    return {
        **{"version": 1, "trainable": not rollout.reasons, "reasons": rollout.reasons, "notes": [], "calls": {}},
        **{"continuity": {"samples": 1, "breaks": {}, "firstBreaks": [], "wentOn": 1, "stitched": 0, "plain": {}}, "trainedTokens": 2, "tokensToTrainOver": 4, "mainShare": 1},
        **{"models": ["m"], "engines": ["e"], "weightVersions": []},
    }
