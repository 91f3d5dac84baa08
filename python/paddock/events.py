"""A rollout's events, live, over however many connections that takes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing

from .connection import Response
from .errors import ApiError, ConnectionLost
from .model import Event
from .transport import Transport

_SILENCE_S = 45.0
"""The server speaks at least every 15 s; a line silent for longer is dead, whatever TCP thinks."""


async def follow(transport: Transport, path: str, after: int = 0) -> AsyncIterator[Event]:
    """Every event once and in order, until the end event; what breaks is taken up where it broke."""
    last = after
    patience = transport.patience()
    while True:
        try:
            headers = {"accept": "text/event-stream", "last-event-id": str(last)}
            # Text as it is being written is for people who look on; programs get what is stored.
            query = {"live": "false"}
            opened = await transport.open("GET", path, query=query, headers=headers, silence_s=_SILENCE_S)
            async with aclosing(opened) as response:
                if response.status == 204:
                    return
                patience.alive()
                async for event in _events_of(response):
                    if event.seq <= last:
                        continue
                    last = event.seq
                    patience.progress()
                    yield event
                    if event.type == "rollout-end":
                        return
            raise ConnectionLost("the stream of events ended before the rollout did")
        except (ConnectionLost, ApiError) as error:
            await patience.endure(error)


async def _events_of(response: Response) -> AsyncIterator[Event]:
    """Only whole events: one that was cut comes again."""
    data: list[str] = []
    async for line in response.lines():
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif line == "" and data:
            yield Event.from_json(json.loads("\n".join(data)))
            data = []
