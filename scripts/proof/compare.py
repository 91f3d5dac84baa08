"""
Scores captured tokens again and prints the largest difference of logprobs, as one JSON object.

    python compare.py MODEL RESULTS --temperature 0.7          what `paddock run --json` captured
    python compare.py MODEL RESULTS --left-out http://…/v1     the same calls sent to the engine without any sampling field
    python compare.py MODEL SAMPLES --samples                  whole samples, each in one pass
"""

from __future__ import annotations

import argparse
import json
import urllib.request
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

REPEATS = 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--temperature", type=float, default=1)
    parser.add_argument("--left-out", metavar="URL")
    parser.add_argument("--samples", action="store_true")
    arguments = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32)
    lines = [json.loads(line) for line in arguments.results.read_text().splitlines()]
    captured = samples_of(lines) if arguments.samples else calls_of(lines, arguments.left_out)
    differences = [difference(model, *one, arguments.temperature) for one in captured]
    reported = [logprob for _, mask, logprobs in captured for said, logprob in zip(mask, logprobs) if said]
    print(
        json.dumps(
            {
                "calls": len(captured),
                "tokens": len(reported),
                "max_difference": max(differences, default=None),
                "least_logprob": min(reported, default=None),
            }
        )
    )


Captured = tuple[list[int], list[int], list[float]]
"""Ids, 1 where one was sampled, and its logprob there."""


def samples_of(lines: list[dict]) -> list[Captured]:
    return [(sample["ids"], sample["mask"], sample["logprobs"]) for sample in lines]


def calls_of(lines: list[dict], left_out: str | None) -> list[Captured]:
    turns = [turn for line in lines for turn in line["proxy_turns"]]
    if left_out:
        return [sampled_by_default(left_out, turns[0]["request"]) for _ in range(REPEATS)]
    return [
        to_captured(turn["prompt_token_ids"], turn["completion_token_ids"], turn["per_token_logps"])
        for turn in turns
        if turn["completion_token_ids"]
    ]


def to_captured(prompt: list[int], completion: list[int], logprobs: list[float]) -> Captured:
    return prompt + completion, [0] * len(prompt) + [1] * len(completion), [0.0] * len(prompt) + logprobs


@torch.no_grad()
def difference(model, ids: list[int], mask: list[int], logprobs: list[float], temperature: float) -> float:
    said = torch.tensor(mask).bool()
    hidden = model.model(torch.tensor([ids])).last_hidden_state[0, :-1][said[1:]]
    logits = model.lm_head(hidden).float() / temperature
    scored = torch.log_softmax(logits, -1).gather(1, torch.tensor(ids)[said][:, None])[:, 0]
    return (scored - torch.tensor(logprobs)[said]).abs().max().item()


def sampled_by_default(url: str, request: dict) -> Captured:
    """What the engine makes of a request that leaves the sampling to it."""
    kept = {name: request[name] for name in ("model", "messages", "tools")}
    body = {**kept, "max_tokens": 64, "logprobs": True, "top_logprobs": 0, "return_token_ids": True}
    asked = urllib.request.Request(
        f"{url}/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(asked) as response:
        answer = json.load(response)
    choice = answer["choices"][0]
    logprobs = [entry["logprob"] for entry in choice["logprobs"]["content"]]
    return to_captured(answer["prompt_token_ids"], choice["token_ids"], logprobs)


if __name__ == "__main__":
    main()
