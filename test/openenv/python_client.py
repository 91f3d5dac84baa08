"""Drives a running server with the unmodified OpenEnv client; each story is one function. Prints how each ended, as JSON."""

import asyncio
import json
import sys

from openenv.core.mcp_client import MCPToolClient
from openenv.core.generic_client import GenericEnvClient

TASK = {"endpoint": "scripted", "instruction": "write hello", "task_id": "first"}
SECOND_SPELLING = {
    "model_key": "scripted://oracle",
    "instruction": "write hello",
    "test_script": "test -d .",
    "setup_shell": "true",
    "upload_files": {"a.txt": "a"},
    "thinking": None,
    "task_id": "second",
}


def check(condition, what):
    if not condition:
        raise SystemExit(f"wrong: {what}")


async def everything(url):
    async with MCPToolClient(base_url=url) as env:
        await env.reset()
        await env.reset(seed=7, task={"a": 1})
        tools = await env.list_tools()
        check("run_rollout" in [tool.name for tool in tools], f"tools {tools}")
        check(all(tool.input_schema["type"] == "object" for tool in tools), "schemas")
        for arguments in (TASK, SECOND_SPELLING, {**TASK, "disable_thinking": None, "setup": [], "verify": None}):
            result = json.loads(await env.call_tool("run_rollout", **arguments))
            check(result["reward"] == 1, f"reward of {arguments['task_id']}: {result['reward']}")
            check(result["task_id"] == arguments["task_id"], "task id")
        for arguments, words in (({**TASK, "foo": 1}, "unknown argument"), ({}, "instruction is required")):
            try:
                await env.call_tool("run_rollout", **arguments)
                check(False, f"{arguments} was taken")
            except RuntimeError as error:
                check(words in str(error), str(error))
        try:
            await env.call_tool("nope")
            check(False, "an unknown tool was taken")
        except RuntimeError as error:
            check("Unknown tool" in str(error), str(error))
        state = await env.state()
        check(state.step_count >= 3 and state.episode_id, f"state {state}")


async def step_result(url):
    async with GenericEnvClient(base_url=url) as env:
        result = await env.reset()
        check(result.done is False, "reset")
        result = await env.step({"type": "call_tool", "tool_name": "run_rollout", "arguments": TASK})
        check(result.reward == 1 and result.done is True, f"step {result.reward} {result.done}")
        state = await env.state()
        check(state["rollouts_completed"] == 1 and state["last_task_id"] == "first", f"state {state}")


async def two_at_once(url):
    async def one(task_id):
        async with MCPToolClient(base_url=url) as env:
            return json.loads(await env.call_tool("run_rollout", **{**TASK, "task_id": task_id}))["task_id"]

    check(await asyncio.gather(one("a"), one("b")) == ["a", "b"], "answers were mixed up")


async def timeout_then_call_again(url):
    async with GenericEnvClient(base_url=url, message_timeout_s=2) as env:
        hang = {"type": "call_tool", "tool_name": "run_rollout", "arguments": {**TASK, "instruction": "hang"}}
        try:
            await env.step(hang)
            check(False, "the call did not time out")
        except (TimeoutError, asyncio.TimeoutError):
            pass
        result = await env.step({"type": "call_tool", "tool_name": "run_rollout", "arguments": {**TASK, "task_id": "again"}})
        observed = json.loads(result.observation["result"]["data"])
        check(observed["task_id"] == "again" and result.reward == 1, f"the second call got {observed['task_id']}")


async def short_calls(url):
    async with MCPToolClient(base_url=url) as env:
        started = json.loads(await env.call_tool("start_rollout", **{**TASK, "instruction": "hang"}))
        rollout_id = started["rollout_id"]
        state = json.loads(await env.call_tool("get_state", rollout_id=rollout_id))
        check(state["status"] in ("starting", "running"), f"state {state}")
        check(json.loads(await env.call_tool("abort_rollout", rollout_id=rollout_id))["aborted"], "abort")
        result = json.loads(await env.call_tool("finalize_rollout", rollout_id=rollout_id, wait_s=40))
        check(result["outcome"] == "aborted", f"outcome {result['outcome']}")


def synchronous(url):
    with MCPToolClient(base_url=url).sync() as env:
        env.reset()
        check("run_rollout" in [tool.name for tool in env.list_tools()], "tools")
        check(json.loads(env.call_tool("run_rollout", **TASK))["reward"] == 1, "reward")
        check(env.state().step_count >= 1, "state")


async def over_json_rpc(url):
    env = MCPToolClient(base_url=url)
    env.use_production_mode = True
    try:
        check("run_rollout" in [tool.name for tool in await env.list_tools()], "tools")
        check(json.loads(await env.call_tool("run_rollout", **TASK))["reward"] == 1, "reward")
    finally:
        await env.close()


STORIES = [everything, step_result, two_at_once, timeout_then_call_again, short_calls, synchronous, over_json_rpc]


def outcome_of(story, url):
    try:
        told = story(url)
        if asyncio.iscoroutine(told):
            asyncio.run(told)
        return "ok"
    except BaseException as error:  # a story must not end the others
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    print(json.dumps({story.__name__: outcome_of(story, sys.argv[1]) for story in STORIES}))
