"""
Trains a model with TRL's GRPO trainer on rollouts of a coding agent.

    pip install ./python "trl[vllm]"
    vllm serve Qwen/Qwen3-0.6B --port 8001 --enable-auto-tool-choice --tool-call-parser hermes \
        --logprobs-mode processed_logprobs
    paddock serve                                                        # on a machine that reaches the engine
    python3 examples/training/grpo.py http://127.0.0.1:8000 --engine http://127.0.0.1:8001/v1

The engine must serve the weights that are trained, or the rollouts are off-policy from the first step on: how it gets
them (a reload after each step, a shared checkpoint) is a matter of the engine and is left out here.

Without TRL, or with --dry-run, it asks for one step's rollouts from the scripted model and checks the columns.
"""

from __future__ import annotations

import argparse
import sys

from paddock import Client, Endpoint, Task
from paddock.trl import reward_func, rollout_func

try:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer
except ImportError:
    GRPOTrainer = None

GENERATIONS = 4
WORDS = ["hello", "goodbye"]
TASKS = {
    f"Write the word {word} into {word}.txt": Task(
        id=word,
        instruction=f"Write the word {word} into {word}.txt",
        verify=[f"grep -qx {word} {word}.txt"],
        solution=[f"echo {word} > {word}.txt"],
    )
    for word in WORDS
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:8000")
    parser.add_argument("--engine", help="OpenAI-compatible address of the engine")
    parser.add_argument("--model", default="Qwen/Qwen3-0.6B")
    parser.add_argument("--cpu", action="store_true", help="train without a GPU")
    parser.add_argument("--dry-run", action="store_true")
    arguments = parser.parse_args()
    client = Client(arguments.url)
    if arguments.dry_run or GRPOTrainer is None:
        try_out(client)
    elif arguments.engine is None:
        sys.exit("--engine is needed to train; --dry-run does without")
    else:
        endpoint = Endpoint.url(
            arguments.engine, arguments.model, dialect="vllm", logprobs_mode="processed_logprobs"
        )
        train(client, endpoint, arguments.model, on_cpu=arguments.cpu)


def train(client: Client, endpoint: Endpoint, model: str, *, on_cpu: bool) -> None:
    """The rollout function brings the tokens and the reward; the reward function only passes the reward on."""
    trainer = GRPOTrainer(
        model=model,
        train_dataset=Dataset.from_dict({"prompt": list(TASKS)}),
        reward_funcs=reward_func,
        rollout_func=rollout_func(client, TASKS, endpoint=endpoint, untrainable="mask", max_completion_tokens=8192),
        args=GRPOConfig(
            num_generations=GENERATIONS,
            per_device_train_batch_size=GENERATIONS,
            max_steps=10,
            use_cpu=on_cpu,
            bf16=not on_cpu,
        ),
    )
    trainer.train()


def try_out(client: Client) -> None:
    """What the trainer would get: the prompts come repeated, and each entry is answered by one completion."""
    prompts = [prompt for prompt in TASKS for _ in range(GENERATIONS)]
    columns = rollout_func(client, TASKS, endpoint="scripted")(prompts, None)
    for name, values in columns.items():
        if len(values) != len(prompts):
            sys.exit(f"Not so: {name} has {len(values)} entries for {len(prompts)} prompts")
    for ids, logprobs, mask in zip(columns["completion_ids"], columns["logprobs"], columns["env_mask"]):
        if not len(ids) == len(logprobs) == len(mask) or not any(mask):
            sys.exit("Not so: the lists of a completion have one length, and some of it was sampled")
    print(f"{len(prompts)} completions, rewards {reward_func(columns['completion_ids'], columns['reward'])}")


if __name__ == "__main__":
    main()
