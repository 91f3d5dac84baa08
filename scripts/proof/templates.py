"""
The chat templates that TRL ships, behind the door where engines render: POST /tokenize with `model` naming a template.

    python templates.py            prints its address and the templates' names as one JSON object, then serves

There is no tokenizer: special marks are one token, everything else goes by characters.
"""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import trl
from transformers.utils.chat_template_utils import render_jinja_template

FOLDER = Path(trl.__file__).parent / "chat_templates"
MARKS = re.compile(r"<[|/｜]?[^<>\s]{1,40}>|\[/?[A-Z_]{2,}\]")
known: dict[str, int] = {}


def tokens_of(text: str) -> list[int]:
    ids, at = [], 0
    for mark in MARKS.finditer(text):
        ids += [1_000 + ord(character) for character in text[at : mark.start()]]
        ids.append(known.setdefault(mark.group(), len(known) + 1))
        at = mark.end()
    return ids + [1_000 + ord(character) for character in text[at:]]


def render(asked: dict) -> list[int]:
    rendered, _ = render_jinja_template(
        conversations=[[as_engines_see_it(message) for message in asked["messages"]]],
        tools=asked.get("tools"),
        chat_template=(FOLDER / f"{asked['model']}.jinja").read_text(),
        add_generation_prompt=True,
        bos_token="<bos>",
        eos_token="<eos>",
        **asked.get("chat_template_kwargs", {}),
    )
    return tokens_of(rendered[0])


def as_engines_see_it(message: dict) -> dict:
    """Arguments as an object, which is what engines hand to a template."""
    calls = [
        {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
        for call in message.get("tool_calls", [])
    ]
    return {**message, "tool_calls": calls} if calls else message


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        try:
            status, answer = 200, {"tokens": render(asked), "max_model_len": 1_000_000}
        except Exception as error:  # a template may refuse a conversation, in any way it likes
            status, answer = 400, {"error": {"message": str(error)}}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    names = sorted(path.stem for path in FOLDER.glob("*.jinja"))
    print(json.dumps({"origin": f"http://127.0.0.1:{server.server_port}", "names": names}), flush=True)
    server.serve_forever()
