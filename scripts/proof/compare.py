"""
Scores captured tokens again and prints the largest difference of logprobs, as one JSON object.

    python compare.py MODEL RESULTS --temperature 0.7          what `paddock run --json` captured
    python compare.py MODEL RESULTS --left-out http://…/v1     the same calls sent to the engine without any sampling field
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
    arguments = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32)
    turns = [turn for line in arguments.results.read_text().splitlines() for turn in json.loads(line)["proxy_turns"]]
    captured = [
        (turn["prompt_token_ids"], turn["completion_token_ids"], turn["per_token_logps"])
        for turn in turns
        if turn["completion_token_ids"]
    ]
    if arguments.left_out:
        captured = [sampled_by_default(arguments.left_out, turns[0]["request"]) for _ in range(REPEATS)]
    differences = [difference(model, *call, arguments.temperature) for call in captured]
    reported = [logprob for _, _, logprobs in captured for logprob in logprobs]
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


@torch.no_grad()
def difference(model, prompt: list[int], completion: list[int], logprobs: list[float], temperature: float) -> float:
    logits = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
    scored = torch.log_softmax(logits.float() / temperature, -1).gather(1, torch.tensor(completion)[:, None])[:, 0]
    return (scored - torch.tensor(logprobs)).abs().max().item()


def sampled_by_default(url: str, request: dict) -> tuple[list[int], list[int], list[float]]:
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
    return answer["prompt_token_ids"], choice["token_ids"], logprobs


if __name__ == "__main__":
    main()
