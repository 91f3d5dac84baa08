"""The client for asyncio. Everything the package does is done here; the blocking client only waits for it."""

from __future__ import annotations

import asyncio
import ssl
import uuid
from collections.abc import AsyncIterator, Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from .conversations import (
    AsyncConversation,
    ConversationOptions,
    ConversationState,
    PermissionReply,
    conversation_body,
)
from .errors import ApiError, NotFinished, Untrainable
from .events import follow
from .model import BatchSummary, Certificate, Event, GroupSummary, Json, Result, Sample, TokenSums, Transcript
from .request import Options, batch_body, rollout_body
from .row import AsyncRows, AsyncSource, Interventions, OnUntrainable
from .runs import AsyncBatch, AsyncGroup
from .task import EndpointLike, TaskLike
from .transport import Transport

if TYPE_CHECKING:
    from typing_extensions import Unpack

_WAIT_S = 30
"""One long poll; short enough for every proxy on the way."""


class AsyncClient:
    """
    A Paddock server, for asyncio.

    ``patience_s`` is how long the server may be away before a request gives up: connections that fail or break, 5xx
    and 429 (after ``Retry-After``) are tried again meanwhile. Requests that create something carry an idempotency
    key, so that a repeat makes nothing twice. A server that has never answered is given 10 s.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        patience_s: float = 300.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._transport = Transport(base_url, token, patience_s, tls)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is held between requests; ``async with`` is a matter of taste."""

    # What makes rollouts

    async def run(
        self, task: TaskLike, *, endpoint: EndpointLike, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> Result:
        """Starts one rollout and waits for its end. Raises NotFinished when ``timeout_s`` is over before."""
        return await self.wait(await self.start(task, endpoint=endpoint, **options), timeout_s=timeout_s)

    async def start(self, task: TaskLike, *, endpoint: EndpointLike, **options: Unpack[Options]) -> str:
        """Stores and queues one rollout; its id. From then on it survives anything."""
        made = await self._create("/rollouts", rollout_body(task, endpoint, 1, False, options), options)
        return str(made["rollouts"][0]["id"])

    async def group(self, task: TaskLike, n: int, *, endpoint: EndpointLike, **options: Unpack[Options]) -> AsyncGroup:
        """``n`` rollouts of one task. Iterate over it for the results as they come."""
        made = await self._create("/rollouts", rollout_body(task, endpoint, n, True, options), options)
        return AsyncGroup(self, made["group"]["id"], [rollout["id"] for rollout in made["rollouts"]])

    async def batch(
        self,
        tasks: Sequence[TaskLike],
        endpoints: Sequence[EndpointLike],
        n: int = 1,
        **options: Unpack[Options],
    ) -> AsyncBatch:
        """Tasks × endpoints × n: one group for each task and endpoint."""
        made = await self._create("/batches", batch_body(tasks, endpoints, n, options), options)
        return AsyncBatch(self, made["batch"]["id"])

    async def open_group(self, group_id: str) -> AsyncGroup:
        """A group that was made before, perhaps by another process."""
        summary = await self.group_summary(group_id)
        return AsyncGroup(self, summary.id, [member.id for member in summary.rollouts])

    async def open_batch(self, batch_id: str) -> AsyncBatch:
        """A batch that was made before, perhaps by another process."""
        return AsyncBatch(self, (await self.batch_summary(batch_id)).id)

    # What becomes of them

    async def wait(self, rollout_id: str, *, timeout_s: float | None = None) -> Result:
        """The result once it is there; a restart of the server in between is survived."""
        if timeout_s is None:
            return await self._wait(rollout_id)
        waiting = asyncio.ensure_future(self._wait(rollout_id))
        try:
            await asyncio.wait({waiting}, timeout=timeout_s)
            if waiting.done():
                return waiting.result()
            raise NotFinished(rollout_id, timeout_s)
        finally:
            waiting.cancel()

    async def result(self, rollout_id: str) -> Result:
        """As it stands; ``outcome`` is None while it is not finished."""
        return Result.from_json(await self._get(rollout_id, "/result"))

    async def rollout(self, rollout_id: str) -> Json:
        """The stored rollout with its request, as the server spells it."""
        stored: Json = await self._get(rollout_id, "")
        return stored

    async def rollouts(self, **filters: Any) -> AsyncIterator[Json]:
        """Rollouts, newest first unless ``order`` says otherwise (oldest, highest-reward, longest, most-tokens, …).

        Filters: status, outcome, task_id, group_id, batch_id, label, model, text, min_reward, max_reward,
        min_duration_s, max_duration_s, since, until (dates as ISO 8601, or milliseconds since 1970).
        """
        async for row in self._pages("/rollouts", filters):
            yield row

    async def events(self, rollout_id: str, *, after: int = 0) -> AsyncIterator[Event]:
        """Every event once and in order, live until the end event, over lost connections and restarts."""
        async for event in follow(self._transport, _path(rollout_id, "/events"), after):
            yield event

    async def messages(self, rollout_id: str) -> Transcript:
        """What was said, in OpenCode's own message shape."""
        return Transcript.from_json(await self._get(rollout_id, "/messages"))

    async def calls(self, rollout_id: str) -> AsyncIterator[Json]:
        """Every captured model call with its tokens, one at a time, in the order in which they ended."""
        async for call in self._transport.ndjson(_path(rollout_id, "/calls"), skip_by="after"):
            yield call

    async def samples(
        self,
        rollout_id: str,
        *,
        untrainable: Literal["refuse", "include"] = "refuse",
        interventions: Interventions = "keep",
    ) -> AsyncIterator[Sample]:
        """Training samples, one at a time. Raises Untrainable when the tokens cannot be vouched for."""
        query = {"untrainable": untrainable, "interventions": interventions}
        try:
            async for sample in self._transport.ndjson(_path(rollout_id, "/samples"), query):
                yield Sample.from_json(sample)
        except ApiError as error:
            if error.code != "untrainable":
                raise
            certificate = await self.certificate(rollout_id, interventions=interventions)
            raise Untrainable(rollout_id, certificate.reasons) from None

    async def certificate(self, rollout_id: str, *, interventions: Interventions = "keep") -> Certificate:
        """What can be proven about the rollout's tokens."""
        query = {"interventions": interventions}
        return Certificate.from_json(await self._transport.call("GET", _path(rollout_id, "/certificate"), query=query))

    async def abort(self, rollout_id: str) -> bool:
        """Stops it, queued or running; what was captured is kept. False when it had already ended."""
        return bool((await self._transport.call("POST", _path(rollout_id, "/abort")))["aborted"])

    # A say in what runs

    async def send(self, rollout_id: str, text: str, *, by: str = "python") -> None:
        """Says something more to a working agent; heard once, however often the line breaks."""
        body = {"text": text, "messageId": uuid.uuid4().hex, "by": by}
        await self._transport.call("POST", _path(rollout_id, "/messages"), body=body)

    async def interrupt(self, rollout_id: str, text: str | None = None, *, by: str = "python") -> None:
        """Stops what the agent is doing; with a text it goes on from there, without one its work is over."""
        body = {"by": by, **({} if text is None else {"text": text})}
        await self._transport.call("POST", _path(rollout_id, "/interrupt"), body=body)

    async def permit(
        self,
        rollout_id: str,
        request_id: str,
        reply: PermissionReply,
        *,
        message: str | None = None,
        by: str = "python",
    ) -> None:
        """Decides a permission request; the model reads the message of a rejection."""
        body = {"reply": reply, "by": by, **({} if message is None else {"message": message})}
        await self._transport.call("POST", _path(rollout_id, f"/permissions/{_quoted(request_id)}"), body=body)

    async def answer(
        self, rollout_id: str, request_id: str, answers: list[list[str]] | None, *, by: str = "python"
    ) -> None:
        """Answers a question: one list of labels for each; None declines."""
        body = {"answers": answers, "by": by}
        await self._transport.call("POST", _path(rollout_id, f"/questions/{_quoted(request_id)}"), body=body)

    # Live agents

    async def converse(
        self, *, endpoint: EndpointLike | None = None, **options: Unpack[ConversationOptions]
    ) -> AsyncConversation:
        """Stores and queues a live agent. From then on it survives anything. Only a ``kept_agent`` needs no endpoint."""
        key = options.get("idempotency_key") or uuid.uuid4().hex
        body, headers = conversation_body(endpoint, options), {"idempotency-key": key}
        made = await self._transport.call("POST", "/conversations", body=body, headers=headers)
        return AsyncConversation(self._transport, made["id"])

    def conversation(self, conversation_id: str) -> AsyncConversation:
        """One that was started before, perhaps by another process."""
        return AsyncConversation(self._transport, conversation_id)

    async def conversations(self, **filters: Any) -> AsyncIterator[ConversationState]:
        """Conversations, newest first. Filters: status, label."""
        async for row in self._pages("/conversations", filters):
            yield ConversationState.from_json(row)

    def rows(
        self,
        source: AsyncSource,
        *,
        untrainable: OnUntrainable = "skip",
        weights: Collection[str] | None = None,
        interventions: Interventions = "keep",
    ) -> AsyncRows:
        """Training rows of a group, a batch, or of rollouts by id or result; waits for what is not finished."""
        return AsyncRows(self, source, untrainable, weights, interventions)

    # Groups and batches by id

    async def group_summary(self, group_id: str) -> GroupSummary:
        return GroupSummary.from_json(await self._transport.call("GET", f"/groups/{_quoted(group_id)}"))

    async def group_tokens(self, group_id: str) -> TokenSums:
        return TokenSums.from_json(await self._transport.call("GET", f"/groups/{_quoted(group_id)}/tokens"))

    async def abort_group(self, group_id: str) -> list[str]:
        """The ids of those that were told to stop."""
        return list((await self._transport.call("POST", f"/groups/{_quoted(group_id)}/abort"))["ids"])

    async def batch_summary(self, batch_id: str) -> BatchSummary:
        return BatchSummary.from_json(await self._transport.call("GET", f"/batches/{_quoted(batch_id)}"))

    async def batch_tokens(self, batch_id: str) -> TokenSums:
        return TokenSums.from_json(await self._transport.call("GET", f"/batches/{_quoted(batch_id)}/tokens"))

    async def abort_batch(self, batch_id: str) -> list[str]:
        """The ids of those that were told to stop."""
        return list((await self._transport.call("POST", f"/batches/{_quoted(batch_id)}/abort"))["ids"])

    async def groups(self, *, batch_id: str | None = None) -> AsyncIterator[Json]:
        """Groups, as the server lists them."""
        async for group in self._pages("/groups", {"batch_id": batch_id}):
            yield group

    async def health(self) -> Json:
        """Whether the server answers, and its version."""
        answer: Json = await self._transport.call("GET", "/health")
        return answer

    async def set_weights(self, endpoint: str, version: str) -> None:
        """
        Says which weights an endpoint serves from now on, by its name in the catalog or its host and port. Every call that
        the server makes keeps it.
        """
        await self._transport.call("PUT", f"/endpoints/{_quoted(endpoint)}/weights", body={"version": version})

    # Credentials: no answer holds a secret

    async def credentials(self) -> list[Json]:
        """Stored keys and logins: label, kind, pool, state, who uses them."""
        return list((await self._transport.call("GET", "/credentials"))["items"])

    async def credential(self, label: str) -> Json:
        """One of them. Never its secret."""
        answer: Json = await self._transport.call("GET", f"/credentials/{_quoted(label)}")
        return answer

    async def add_api_key(self, label: str, api_key: str, *, base_url: str, model: str, **terms: Any) -> Json:
        """Stores a key, sealed. Rollouts use it as the endpoint ``cred:<label>``. ``terms``: dialect, capacity, pool."""
        body = {"label": label, "apiKey": api_key, "baseUrl": base_url, "model": model, **terms}
        answer: Json = await self._transport.call("POST", "/credentials", body=body)
        return answer

    async def add_login(
        self,
        label: str,
        *,
        provider: str,
        auth: Json,
        token_url: str,
        base_url: str,
        model: str,
        client_id: str | None = None,
        **terms: Any,
    ) -> Json:
        """Stores a login whose tokens rotate, sealed. ``auth``: refresh, access, expires. ``terms``: dialect, pool."""
        body = {"label": label, "provider": provider, "auth": auth, "baseUrl": base_url, "model": model, **terms}
        body["tokenUrl"] = token_url
        if client_id is not None:
            body["clientId"] = client_id
        answer: Json = await self._transport.call("POST", "/credentials/logins", body=body)
        return answer

    async def verify_credential(self, label: str) -> Json:
        """Asks its provider one small question with it; ``state`` says what came of it. Takes up to three minutes."""
        path = f"/credentials/{_quoted(label)}/verify"
        answer: Json = await self._transport.call("POST", path, silence_s=240)
        return answer

    async def free_credential(self, label: str, *, newest: bool = False) -> Json:
        """Ends a quarantine without asking the provider: what is stored is used again, or what was put aside last."""
        path = f"/credentials/{_quoted(label)}/free"
        answer: Json = await self._transport.call("POST", path, body={"newest": newest})
        return answer

    async def remove_credential(self, label: str, *, force: bool = False) -> None:
        """Forgets it; refused while it is in use, unless forced."""
        query = {"force": "true" if force else "false"}
        await self._transport.call("DELETE", f"/credentials/{_quoted(label)}", query=query)

    async def purge_credentials(self, *, pool: str | None = None, force: bool = False) -> Json:
        """Forgets the dead, or all of a pool: ``removed``, and ``inUse``, which stay unless forced."""
        body: dict[str, Any] = {"force": force, **({} if pool is None else {"pool": pool})}
        answer: Json = await self._transport.call("POST", "/credentials/purge", body=body)
        return answer

    async def hosts(self) -> list[Json]:
        """Other machines that boxes can be placed on, as the sandbox ``ssh:<name>``."""
        return list((await self._transport.call("GET", "/hosts"))["items"])

    async def check_host(self, name: str) -> Json:
        """Logs in there, looks it over, asks its agent for its version: ``ok``, and ``checks`` with what to do about each."""
        answer: Json = await self._transport.call("POST", f"/hosts/{_quoted(name)}/check", silence_s=240)
        return answer

    # Steps

    async def _create(self, path: str, body: dict[str, Any], options: Options) -> Any:
        key = options.get("idempotency_key") or uuid.uuid4().hex
        return await self._transport.call("POST", path, body=body, headers={"idempotency-key": key})

    async def _get(self, rollout_id: str, path: str) -> Any:
        return await self._transport.call("GET", _path(rollout_id, path))

    async def _wait(self, rollout_id: str) -> Result:
        path, query = _path(rollout_id, "/finalize"), {"wait_s": _WAIT_S}
        while True:
            result = Result.from_json(await self._transport.call("POST", path, query=query, silence_s=_WAIT_S + 60))
            if result.is_finished:
                return result
            # A closing server answers at once; it should not be asked in a tight loop.
            await asyncio.sleep(0.2)

    async def _pages(self, path: str, query: dict[str, Any]) -> AsyncIterator[Json]:
        cursor = None
        while True:
            page = await self._transport.call("GET", path, query={"limit": 500, **query, "cursor": cursor})
            for item in page["items"]:
                yield item
            cursor = page["next"]
            if cursor is None:
                return


def _path(rollout_id: str, rest: str) -> str:
    return f"/rollouts/{_quoted(rollout_id)}{rest}"


def _quoted(some_id: str) -> str:
    return quote(some_id, safe="")
