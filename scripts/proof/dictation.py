"""Makes vLLM say what a request tells it to (`vllm_xargs.dictated`: the ids). For lessons; nothing that is measured runs with it."""

from __future__ import annotations

import torch
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor


class Dictation(AdapterLogitsProcessor):
    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params):
        dictated = (params.extra_args or {}).get("dictated")
        if not dictated:
            return None

        def dictate(said: list[int], logits: torch.Tensor) -> torch.Tensor:
            word = dictated[min(len(said), len(dictated) - 1)]
            logits.fill_(float("-inf"))
            logits[word] = 0
            return logits

        return dictate
