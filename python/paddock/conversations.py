"""Live agents: started, talked to, closed, opened again."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict
from urllib.parse import quote

from .events import follow
from .model import Event, Failure, Json
from .task import EndpointLike, Files, camel_keys, endpoint_to_json, files_to_json

if TYPE_CHECKING:
    from .transport import Transport

PermissionReply = Literal["once", "always", "reject"]


class ConversationOptions(TypedDict, total=False):
    """What may be said of a conversation besides its endpoint; the server has defaults for all of it."""

    text: str
    """The first message."""
    files: Files
    before: Sequence[str]
    """Shell commands in the box, run before the agent exists."""
    after: Sequence[str]
    """Shell commands in the box, run after it has ended."""
    deliverables: Sequence[str]
    """Patterns of files in the workdir that are announced when they appear."""
    folder: str
    """A folder of the worker's machine to work in, where the operator allows it."""
    kept_agent: str
    """A kept agent of the worker's machine, by name, instead of one in a box; it has an endpoint of its own."""
    idle_s: float
    lifetime_s: float
    sandbox: str
    mode: str
    agent: Mapping[str, Any]
    sampling: Mapping[str, Any]
    box: Mapping[str, Any]
    budget: Mapping[str, Any]
    clocks: Mapping[str, Any]
    priority: int
    labels: Mapping[str, str]
    max_attempts: int
    idempotency_key: str
    by: str
    """Who says it; goes on the record."""


@dataclass(frozen=True)
class ConversationState:
    """Where a conversation stands."""

    id: str
    status: str
    """queued, open or closed"""
    phase: str
    """agent: it can be talked to"""
    closed: str | None
    """Why it is over: asked, idle, lifetime, budget, failed."""
    failure: Failure | None
    attempt: int
    last_seq: int
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, value: Json) -> ConversationState:
        return cls(
            id=value["id"],
            status=value["status"],
            phase=value["phase"],
            closed=value["closed"],
            failure=Failure.from_json(value["failure"]),
            attempt=value["attempt"],
            last_seq=value["lastSeq"],
            raw=value,
        )


class AsyncConversation:
    """A live agent. What is said to it while it waits for a worker is heard as soon as it has one."""

    def __init__(self, transport: Transport, conversation_id: str) -> None:
        self._transport = transport
        self.id = conversation_id

    async def state(self) -> ConversationState:
        """As it stands."""
        return ConversationState.from_json(await self._transport.call("GET", self._path("")))

    async def events(self, *, after: int = 0) -> AsyncIterator[Event]:
        """Every event once and in order, live until it is closed, over lost connections and restarts."""
        async for event in follow(self._transport, self._path("/events"), after):
            yield event

    async def messages(self) -> list[Json]:
        """What was said, in OpenCode's own message shape."""
        return list((await self._transport.call("GET", self._path("/messages")))["messages"])

    async def send(self, text: str, *, message_id: str | None = None, by: str = "python") -> str:
        """Says something; while the agent works, it steers. Heard once, however often the line breaks."""
        body = {"text": text, "messageId": message_id or uuid.uuid4().hex, "by": by}
        return str((await self._transport.call("POST", self._path("/messages"), body=body))["messageId"])

    async def ask(self, text: str, *, by: str = "python") -> Event:
        """Says something and waits for the end of the agent's turn: its ``turn-end`` event, or the end of it all."""
        after = (await self.state()).last_seq
        name = await self.send(text, by=by)
        mine = None
        async for event in self.events(after=after):
            if event.type == "message-sent" and event.data.get("id") == name:
                mine = event.data.get("messageId")
            if event.type == "turn-end" and event.data["messageId"] == mine:
                return event
        return event

    async def pending(self) -> list[Event]:
        """The permission requests and questions that wait for somebody."""
        items = (await self._transport.call("GET", self._path("/pending")))["items"]
        return [Event.from_json(item) for item in items]

    async def deliverables(self) -> list[Json]:
        """The declared files that have appeared: path, sizeBytes, sha256, at."""
        return list((await self._transport.call("GET", self._path("/deliverables")))["items"])

    async def deliverable(self, path: str) -> bytes:
        """One of them, as it was kept last."""
        where, query = self._path("/deliverable"), {"path": path}
        async with aclosing(await self._transport.open("GET", where, query=query)) as response:
            return await response.read()

    async def permit(
        self, request_id: str, reply: PermissionReply, *, message: str | None = None, by: str = "python"
    ) -> None:
        """Decides a permission request; the model reads the message of a rejection."""
        body = {"reply": reply, "by": by, **({} if message is None else {"message": message})}
        await self._transport.call("POST", self._path(f"/permissions/{quote(request_id, safe='')}"), body=body)

    async def answer(self, request_id: str, answers: list[list[str]] | None, *, by: str = "python") -> None:
        """Answers a question: one list of labels for each; None declines."""
        body = {"answers": answers, "by": by}
        await self._transport.call("POST", self._path(f"/questions/{quote(request_id, safe='')}"), body=body)

    async def interrupt(self, text: str | None = None, *, by: str = "python") -> None:
        """Stops what the agent is doing; with a text it goes on from there."""
        body = {"by": by, **({} if text is None else {"text": text})}
        await self._transport.call("POST", self._path("/interrupt"), body=body)

    async def set_model(self, model: str, *, by: str = "python") -> None:
        """The model for what follows, as its endpoint calls it."""
        await self._transport.call("POST", self._path("/model"), body={"model": model, "by": by})

    async def close(self) -> ConversationState:
        """Ends it; what was said and done is kept."""
        return ConversationState.from_json(await self._transport.call("POST", self._path("/close")))

    async def reopen(self, *, api_key: str | None = None, by: str = "python") -> ConversationState:
        """Goes on with its history and its files. Keys are erased at the close: one that it came with is needed again."""
        body = {"by": by, **({} if api_key is None else {"apiKey": api_key})}
        return ConversationState.from_json(await self._transport.call("POST", self._path("/reopen"), body=body))

    def _path(self, rest: str) -> str:
        return f"/conversations/{quote(self.id, safe='')}{rest}"


def conversation_body(endpoint: EndpointLike | None, options: ConversationOptions) -> dict[str, Any]:
    known = ConversationOptions.__annotations__
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise TypeError(f"unknown option {', '.join(unknown)}; there are {', '.join(known)}")
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    given.pop("idempotency_key", None)
    if "files" in given:
        given["files"] = files_to_json(given["files"])
    for name in {"agent", "sampling", "box", "budget", "clocks"} & given.keys():
        given[name] = camel_keys(given[name])
    where = {} if endpoint is None else {"endpoint": endpoint_to_json(endpoint)}
    return {**where, "by": "python", **camel_keys(given)}
