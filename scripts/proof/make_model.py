"""
A model small enough for any machine, which really solves the task of these transcripts and is not quite sure of it.

    python make_model.py OUT TRANSCRIPTS [--seconds 240]

TRANSCRIPTS is the output of `paddock run … --policy oracle --json`. The tokenizer is trained on the prompts, the weights on
the scripted answers; then the last layer is softened, so that what is sampled has logprobs worth comparing. The model's
generation_config.json sets temperature, top_k and top_p, as those of public models do.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

VOCABULARY = 4096
UNSURE_NATS = 0.02
"""Mean surprise at a scripted token once softened: now and then an answer goes wrong."""

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
    parser.add_argument("out", type=Path)
    parser.add_argument("transcripts", type=Path)
    parser.add_argument("--seconds", type=float, default=240)
    arguments = parser.parse_args()
    conversations = [conversation_of(json.loads(line)) for line in arguments.transcripts.read_text().splitlines()]
    tokenizer = train_tokenizer(conversations)
    model = Qwen3ForCausalLM(config_for(tokenizer)).to(torch.float32)
    samples = [to_sample(tokenizer, **conversation) for conversation in conversations]
    teach(model, samples, arguments.seconds)
    soften(model, samples)
    tokenizer.save_pretrained(arguments.out)
    model.save_pretrained(arguments.out)
    write_generation_config(arguments.out, tokenizer)


def conversation_of(result: dict) -> dict:
    last = result["proxy_turns"][-1]
    messages = [*last["request"]["messages"], last["response"]["message"]]
    return {"messages": [as_engines_see_it(message) for message in messages], "tools": last["request"]["tools"]}


def as_engines_see_it(message: dict) -> dict:
    """Content as text and arguments as an object, which is what an engine hands to the template."""
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    calls = [
        {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
        for call in message.get("tool_calls") or []
    ]
    return {**message, "content": content, **({"tool_calls": calls} if calls else {})}


def train_tokenizer(conversations: list[dict]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator((json.dumps(conversation) for conversation in conversations), trainer)
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in ("<|pad|>", "<|start|>", "<|end|>")])
    tokenizer.add_tokens([AddedToken(mark) for mark in ("<tool_call>", "</tool_call>")])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|pad|>")
    fast.chat_template = TEMPLATE
    return fast


def config_for(tokenizer: PreTrainedTokenizerFast) -> Qwen3Config:
    torch.manual_seed(0)
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


def to_sample(tokenizer: PreTrainedTokenizerFast, messages: list[dict], tools: list) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids, and which of them the model has to say: everything between the mark of an answer and its end."""
    text = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    mark = tokenizer("<|start|>assistant\n", add_special_tokens=False)["input_ids"]
    spoken, speaks = [], False
    for at, token in enumerate(ids):
        spoken.append(speaks)
        if speaks and token == tokenizer.eos_token_id:
            speaks = False
        elif ids[at + 1 - len(mark) : at + 1] == mark:
            speaks = True
    return torch.tensor(ids), torch.tensor(spoken)


def surprise(model: Qwen3ForCausalLM, ids: torch.Tensor, spoken: torch.Tensor, scale: float = 1) -> torch.Tensor:
    """Mean nats at the tokens that the model has to say."""
    hidden = model.model(ids[None]).last_hidden_state[0, :-1][spoken[1:]]
    return torch.nn.functional.cross_entropy(model.lm_head(hidden) * scale, ids[1:][spoken[1:]])


def teach(model: Qwen3ForCausalLM, samples: list, seconds: float) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0)
    started, steps = time.monotonic(), 0
    while True:
        losses = []
        for ids, spoken in samples:
            loss = surprise(model, ids, spoken)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
            optimizer.step()
            losses.append(loss.item())
        steps += 1
        print(f"step {steps}: {max(losses):.4f} nats, {time.monotonic() - started:.0f} s", flush=True)
        if max(losses) < 1e-3 or time.monotonic() - started > seconds:
            return


@torch.no_grad()
def soften(model: Qwen3ForCausalLM, samples: list) -> None:
    """Less contrast in the last layer, down to the surprise that is wanted."""
    low, high = 0.02, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        mean = sum(surprise(model, *sample, scale=middle).item() for sample in samples) / len(samples)
        low, high = (middle, high) if mean > UNSURE_NATS else (low, middle)
    model.lm_head.weight.mul_(high)
    print(f"softened by {high:.3f}", flush=True)


def write_generation_config(out: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    config = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95}
    config |= {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    (out / "generation_config.json").write_text(json.dumps(config, indent=2))


if __name__ == "__main__":
    main()
