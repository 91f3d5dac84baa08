"""Runs rollouts with the unmodified OpenEnv client. Exits non-zero when anything is not as it says.

    pip install openenv
    npx paddock serve
    python examples/openenv/run.py http://127.0.0.1:8000
"""

import asyncio
import json
import sys

from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient

HELLO = {
    "endpoint": "scripted",
    "task_id": "hello",
    "instruction": "Write the word hello into hello.txt",
    "solution": ["echo hello > hello.txt"],
    "verify": ["grep -q hello hello.txt"],
}
HELLO_AGAIN = {
    "model_key": "scripted://oracle",
    "task_id": "hello-again",
    "instruction": "Write the word hello into hello.txt",
    "solution": ["cp words/hello hello.txt"],
    "upload_files": {"words/hello": "hello\n"},
    "setup_shell": "chmod a-w words/hello",
    "test_script": "#!/bin/bash\ngrep -q hello hello.txt && echo 1 > /home/user/logs/verifier/reward.txt\n",
}


async def blocking(url: str) -> None:
    """One call; the reward is on the step, where trainers look for it."""
    async with GenericEnvClient(base_url=url, message_timeout_s=300) as env:
        await env.reset()
        step = await env.step({"type": "call_tool", "tool_name": "run_rollout", "arguments": HELLO})
        assert step.reward == 1 and step.done, step
        result = json.loads(step.observation["result"]["data"])
        turns = [turn for turn in result["proxy_turns"] if turn["purpose"] == "main"]
        assert turns and all(len(turn["completion_token_ids"]) == len(turn["per_token_logps"]) for turn in turns)
        print(f"run_rollout: reward {step.reward}, {len(turns)} turns")
        state = await env.state()
        assert state["rollouts_completed"] == 1, state


async def in_short_calls(url: str) -> None:
    """No call is longer than the client's 60 seconds, however long the rollout takes."""
    async with MCPToolClient(base_url=url) as env:
        tools = [tool.name for tool in await env.list_tools()]
        assert "start_rollout" in tools, tools
        started = json.loads(await env.call_tool("start_rollout", **HELLO_AGAIN))
        while True:
            result = json.loads(await env.call_tool("finalize_rollout", rollout_id=started["rollout_id"], wait_s=40))
            if result["outcome"] is not None:
                break
        assert result["reward"] == 1, result
        assert result["test_exit_code"] == 0, result
        print(f"start_rollout, finalize_rollout: reward {result['reward']}")


async def mistakes(url: str) -> None:
    async with MCPToolClient(base_url=url) as env:
        try:
            await env.call_tool("run_rollout", **{**HELLO, "instructions": "a typo"})
        except RuntimeError as error:
            assert "instructions" in str(error), error
            print(f"a typo: {str(error)[:90]} …")
        else:
            raise AssertionError("the typo was taken")


async def main(url: str) -> None:
    await blocking(url)
    await in_short_calls(url)
    await mistakes(url)
    print("All as it should be.")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"))
