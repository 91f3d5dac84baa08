"""
A model small enough for any machine, which really solves the tasks of its lessons and is not quite sure of it.

    python make_model.py blank OUT TRANSCRIPTS               a tokenizer made of these prompts, weights that know nothing
    python make_model.py taught OUT LESSONS [--seconds 600]  the same model once it has learnt the lessons

Both files hold results as `paddock run … --json` prints them. The lessons are learnt token by token as they were said and
captured; then the last layer is softened, so that what is sampled has logprobs worth comparing. The model's
generation_config.json sets temperature, top_k and top_p, as those of public models do.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import time
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import Cache, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

VOCABULARY = 8192
UNSURE_NATS = 0.004
"""Mean surprise at a token of the lessons once softened: now and then an answer goes another way."""
SURE_NATS = 2e-3
"""Learnt: no lesson is less sure than this, on the average of its tokens."""
MAX_WINDOW = 1024
"""Most of a prompt is the same for all: what tells what to say next stands shortly before it."""

TEMPLATE = """\
{%- if tools -%}
<|start|>tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|end|>
{% endif -%}
{%- for message in messages -%}
<|start|>{{ message.role }}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] -%}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor -%}
<|end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|start|>assistant
{% endif -%}
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("blank", "taught"))
    parser.add_argument("out", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--seconds", type=float, default=600)
    arguments = parser.parse_args()
    results = [json.loads(line) for line in arguments.results.read_text().splitlines()]
    torch.manual_seed(0)
    random.seed(0)
    if arguments.what == "blank":
        make_blank(arguments.out, results)
    else:
        make_taught(arguments.out, results, arguments.seconds)


def make_blank(out: Path, results: list[dict]) -> None:
    tokenizer = train_tokenizer([turn["request"] for result in results for turn in result["proxy_turns"]])
    tokenizer.save_pretrained(out)
    Qwen3ForCausalLM(config_for(tokenizer)).to(torch.float32).save_pretrained(out)
    write_generation_config(out, tokenizer)


def make_taught(out: Path, results: list[dict], seconds: float) -> None:
    model = Qwen3ForCausalLM.from_pretrained(out, dtype=torch.float32)
    lessons = [lesson for result in results for lesson in chains(result["proxy_turns"])]
    print(f"{len(lessons)} lessons of {[len(ids) for ids, _ in lessons]} tokens", flush=True)
    teach(model, lessons, seconds)
    soften(model, lessons)
    # Its own file stays as it is: the sampling in it is part of what is shown.
    config = (out / "generation_config.json").read_text()
    model.save_pretrained(out)
    (out / "generation_config.json").write_text(config)


Lesson = tuple[torch.Tensor, torch.Tensor]
"""Ids, and which of them the model has to say."""


def chains(turns: list[dict]) -> list[Lesson]:
    """Calls that go on from one another are one lesson."""
    found: list[tuple[list[int], list[bool]]] = []
    for turn in turns:
        prompt, completion = turn["prompt_token_ids"], turn["completion_token_ids"]
        ids, spoken = next((chain for chain in found if prompt[: len(chain[0])] == chain[0]), ([], []))
        if not ids:
            found.append((ids, spoken))
        spoken += [False] * (len(prompt) - len(ids)) + [True] * len(completion)
        ids += prompt[len(ids) :] + completion
    return [(torch.tensor(ids), torch.tensor(spoken)) for ids, spoken in found]


def train_tokenizer(requests: list[dict]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator((json.dumps(request) for request in requests), trainer)
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in ("<|pad|>", "<|start|>", "<|end|>")])
    tokenizer.add_tokens([AddedToken(mark) for mark in ("<tool_call>", "</tool_call>")])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|pad|>")
    fast.chat_template = TEMPLATE
    return fast


def config_for(tokenizer: PreTrainedTokenizerFast) -> Qwen3Config:
    return Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=40960,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def teach(model: Qwen3ForCausalLM, lessons: list[Lesson], seconds: float) -> None:
    """First with what stands shortly before an answer, which is quick; then with the whole prompt, which blurs it."""
    started = time.monotonic()
    for name, rounds in (("short", short_rounds), ("whole", whole_rounds)):
        for step, nats in enumerate(rounds(model, lessons), 1):
            passed = time.monotonic() - started
            if step % 20 == 0 or name == "whole" or nats < SURE_NATS:
                print(f"{name} round {step}: at most {nats:.4f} nats, {passed:.0f} s", flush=True)
            if nats < SURE_NATS:
                break
            if passed > seconds:
                raise SystemExit(f"the lessons were not learnt in {seconds:.0f} s; give more with --seconds")


def short_rounds(model: Qwen3ForCausalLM, lessons: list[Lesson]):
    """Each lesson on its own, from somewhere shortly before its first answer. Yields the surprise at the worst one."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0)
    while True:
        losses = []
        for ids, spoken in random.sample(lessons, len(lessons)):
            begin = max(0, first_answer(spoken) - random.randint(MAX_WINDOW // 8, MAX_WINDOW))
            loss = surprise(model, ids[begin:], spoken[begin:])
            losses.append(learn(model, optimizer, loss))
        yield max(losses)


def whole_rounds(model: Qwen3ForCausalLM, lessons: list[Lesson]):
    """
    Lessons that begin alike together: what they share is read once, and nothing is learnt from it, which saves most of
    the work.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0)
    groups: dict[tuple[int, ...], list[Lesson]] = {}
    for ids, spoken in lessons:
        begin = max(1, first_answer(spoken) - MAX_WINDOW)
        groups.setdefault(tuple(ids[:begin].tolist()), []).append((ids[begin:], spoken[begin:]))
    while True:
        worst = 0.0
        for shared, rests in groups.items():
            with torch.no_grad():
                read = model.model(torch.tensor([shared]), use_cache=True).past_key_values
            losses = [surprise(model, *rest, read=read) for rest in rests]
            worst = max(worst, *(loss.item() for loss in losses))
            learn(model, optimizer, torch.stack(losses).mean())
        yield worst


def first_answer(spoken: torch.Tensor) -> int:
    return int(spoken.nonzero()[0])


def learn(model: Qwen3ForCausalLM, optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> float:
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
    optimizer.step()
    return loss.item()


def surprise(
    model: Qwen3ForCausalLM, ids: torch.Tensor, spoken: torch.Tensor, read: Cache | None = None
) -> torch.Tensor:
    """Mean nats at the tokens that the model has to say, behind what it has read before."""
    return torch.nn.functional.cross_entropy(logits(model, ids, spoken, read), ids[1:][spoken[1:]])


def logits(model: Qwen3ForCausalLM, ids: torch.Tensor, spoken: torch.Tensor, read: Cache | None = None) -> torch.Tensor:
    hidden = model.model(ids[None], past_key_values=copy.deepcopy(read)).last_hidden_state[0, :-1]
    return model.lm_head(hidden[spoken[1:]])


@torch.no_grad()
def soften(model: Qwen3ForCausalLM, lessons: list[Lesson]) -> None:
    """Less contrast in the last layer, down to the surprise that is wanted."""
    said = torch.cat([logits(model, ids, spoken) for ids, spoken in lessons])
    wanted = torch.cat([ids[1:][spoken[1:]] for ids, spoken in lessons])
    low, high = 0.02, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        mean = torch.nn.functional.cross_entropy(said * middle, wanted).item()
        low, high = (middle, high) if mean > UNSURE_NATS else (low, middle)
    model.lm_head.weight.mul_(high)
    print(f"softened by {high:.3f}", flush=True)


def write_generation_config(out: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    config = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95}
    config |= {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    (out / "generation_config.json").write_text(json.dumps(config, indent=2))


if __name__ == "__main__":
    main()
