"""
GRPO steps of TRL on rollouts of Paddock, on CPU; prints what became of them as one JSON object.

    python grpo_step.py MODEL SERVER ENGINE TASK --temperature 0.7
"""

from __future__ import annotations

import argparse
import json
import tempfile

import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from paddock import Client, Endpoint, Task
from paddock.trl import reward_func, rollout_func

GENERATIONS = 4
COINS = ["bash -c 'exit $((RANDOM % 2))'"] * 6
"""Equal rewards leave no advantage, and a step that changes nothing: here coins decide how well it went."""


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("model", "server", "engine", "task"):
        parser.add_argument(name)
    parser.add_argument("--temperature", type=float, default=1)
    parser.add_argument("--steps", type=int, default=1)
    arguments = parser.parse_args()
    with open(arguments.task, encoding="utf-8") as file:
        task = Task.from_json({**json.load(file), "verify": COINS})
    batches = []
    client = Client(arguments.server)
    rollouts = rollout_func(
        client,
        {task.instruction: task},
        endpoint=Endpoint.url(arguments.engine, "proof", dialect="vllm"),
        untrainable="mask",
        sampling={"max_tokens_cap": 256},
    )

    def remembered(prompts, trainer):
        batches.append(rollouts(prompts, trainer))
        return batches[-1]

    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=arguments.model,
            train_dataset=Dataset.from_dict({"prompt": [task.instruction]}),
            reward_funcs=reward_func,
            rollout_func=remembered,
            args=GRPOConfig(
                output_dir=folder,
                use_cpu=True,
                bf16=False,
                num_generations=GENERATIONS,
                per_device_train_batch_size=1,
                gradient_accumulation_steps=GENERATIONS,
                max_steps=arguments.steps,
                temperature=arguments.temperature,
                learning_rate=1e-5,
                report_to="none",
                save_strategy="no",
                dataloader_pin_memory=False,
            ),
        )
        scored = record_scores(trainer)
        before = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
        trainer.train()
        changed = sum(not torch.equal(value, before[name]) for name, value in trainer.model.named_parameters())
    first = batches[0]
    print(
        json.dumps(
            {
                "rows": len(first["rollout_id"]),
                "calls": sum(len(list(client.calls(rollout))) for rollout in first["rollout_id"]),
                "samples": sum(client.certificate(rollout).samples for rollout in first["rollout_id"]),
                "trained": sum(sum(mask) for mask in first["env_mask"]),
                "rewards": [batch["reward"] for batch in batches],
                "parameters": len(before),
                "changed": changed,
                "max_difference": max(closest(first, row) for row in scored[:GENERATIONS]),
            }
        )
    )


def record_scores(trainer: GRPOTrainer) -> list[torch.Tensor]:
    """The trainer's own logprobs of the completions, in the order in which it works them out."""
    scored: list[torch.Tensor] = []
    score = trainer._get_per_token_logps_and_entropies

    def recording(*given, **options):
        found = score(*given, **options)
        scored.extend(found[0].detach())
        return found

    trainer._get_per_token_logps_and_entropies = recording
    return scored


def closest(batch: dict, row: torch.Tensor) -> float:
    """Rows are shuffled on their way: the largest difference to the completion that fits best."""
    found = []
    for logprobs, mask in zip(batch["logprobs"], batch["env_mask"]):
        sampled = torch.tensor(mask).bool()
        if not sampled.any() or len(logprobs) > len(row):
            continue
        found.append((row[: len(logprobs)] - torch.tensor(logprobs)).abs()[sampled].max().item())
    return min(found, default=float("nan"))


if __name__ == "__main__":
    main()
