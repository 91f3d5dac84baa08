"""
Whether SGLang's own request classes take what the gateway sends. The package's classes alone: no engine runs here.

    python sglang.py WHEEL_FOLDER REQUESTS

REQUESTS holds one JSON object a line: {"path": …, "body": …}. Prints what was found as one JSON object.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    folder, requests = sys.argv[1:3]
    # This file has the package's name: it must not stand before it.
    sys.path[0] = folder
    from sglang.srt.entrypoints.openai import protocol
    from sglang.version import __version__

    classes = {"/v1/chat/completions": protocol.ChatCompletionRequest, "/v1/tokenize": protocol.TokenizeRequest}
    found = {"version": __version__, "accepted": 0, "unknown": [], "as_ids": 0, "renders": 0}
    for line in Path(requests).read_text().splitlines():
        request = json.loads(line)
        read = classes[request["path"]].model_validate(request["body"])
        found["accepted"] += 1
        found["unknown"] += [name for name in request["body"] if name not in type(read).model_fields]
        if getattr(read, "input_ids", None) is not None:
            assert read.input_ids == request["body"]["input_ids"]
            found["as_ids"] += 1
        if request["path"] == "/v1/tokenize":
            assert read.to_chat_completion_request().messages
            found["renders"] += 1
    print(json.dumps(found))


if __name__ == "__main__":
    main()
