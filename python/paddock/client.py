"""The blocking client: the same verbs as AsyncClient, for scripts, notebooks and trainers."""

from __future__ import annotations

import ssl
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from .aio import AsyncClient
from .bridge import BlockingIterator, run
from .conversations import AsyncConversation, ConversationOptions, ConversationState, PermissionReply
from .errors import Untrainable
from .model import BatchSummary, Certificate, Event, GroupSummary, Json, Result, Sample, TokenSums, Transcript
from .request import Options
from .row import AsyncRows, AsyncSource, Interventions, OnUntrainable, Row
from .runs import AsyncBatch, AsyncGroup
from .task import EndpointLike, TaskLike

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Client:
    """
    A Paddock server.

    ``patience_s`` is how long the server may be away before a request gives up: connections that fail or break, 5xx
    and 429 (after ``Retry-After``) are tried again meanwhile. Requests that create something carry an idempotency
    key, so that a repeat makes nothing twice. A server that has never answered is given 10 s. Safe to use from
    several threads, and after a fork.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        patience_s: float = 300.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._client = AsyncClient(base_url, token=token, patience_s=patience_s, tls=tls)

    def run(
        self, task: TaskLike, *, endpoint: EndpointLike, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> Result:
        """Starts one rollout and waits for its end. Raises NotFinished when ``timeout_s`` is over before."""
        return run(self._client.run(task, endpoint=endpoint, timeout_s=timeout_s, **options))

    def start(self, task: TaskLike, *, endpoint: EndpointLike, **options: Unpack[Options]) -> str:
        """Stores and queues one rollout; its id. From then on it survives anything."""
        return run(self._client.start(task, endpoint=endpoint, **options))

    def group(self, task: TaskLike, n: int, *, endpoint: EndpointLike, **options: Unpack[Options]) -> Group:
        """``n`` rollouts of one task. Iterate over it for the results as they come."""
        return Group(run(self._client.group(task, n, endpoint=endpoint, **options)))

    def batch(
        self,
        tasks: Sequence[TaskLike],
        endpoints: Sequence[EndpointLike],
        n: int = 1,
        **options: Unpack[Options],
    ) -> Batch:
        """Tasks × endpoints × n: one group for each task and endpoint."""
        return Batch(run(self._client.batch(tasks, endpoints, n, **options)))

    def open_group(self, group_id: str) -> Group:
        """A group that was made before, perhaps by another process."""
        return Group(run(self._client.open_group(group_id)))

    def open_batch(self, batch_id: str) -> Batch:
        """A batch that was made before, perhaps by another process."""
        return Batch(run(self._client.open_batch(batch_id)))

    def wait(self, rollout_id: str, *, timeout_s: float | None = None) -> Result:
        """The result once it is there; a restart of the server in between is survived."""
        return run(self._client.wait(rollout_id, timeout_s=timeout_s))

    def result(self, rollout_id: str) -> Result:
        """As it stands; ``outcome`` is None while it is not finished."""
        return run(self._client.result(rollout_id))

    def rollout(self, rollout_id: str) -> Json:
        """The stored rollout with its request, as the server spells it."""
        return run(self._client.rollout(rollout_id))

    def rollouts(self, **filters: Any) -> Iterator[Json]:
        """Rollouts, newest first unless ``order`` says otherwise (oldest, highest-reward, longest, most-tokens, …).

        Filters: status, outcome, task_id, group_id, batch_id, label, model, text, min_reward, max_reward,
        min_duration_s, max_duration_s, since, until (dates as ISO 8601, or milliseconds since 1970).
        """
        return BlockingIterator(self._client.rollouts(**filters))

    def events(self, rollout_id: str, *, after: int = 0) -> Iterator[Event]:
        """Every event once and in order, live until the end event, over lost connections and restarts."""
        return BlockingIterator(self._client.events(rollout_id, after=after))

    def messages(self, rollout_id: str) -> Transcript:
        """What was said, in OpenCode's own message shape."""
        return run(self._client.messages(rollout_id))

    def calls(self, rollout_id: str) -> Iterator[Json]:
        """Every captured model call with its tokens, one at a time, in the order in which they ended."""
        return BlockingIterator(self._client.calls(rollout_id))

    def samples(
        self,
        rollout_id: str,
        *,
        untrainable: Literal["refuse", "include"] = "refuse",
        interventions: Interventions = "keep",
    ) -> Iterator[Sample]:
        """Training samples, one at a time. Raises Untrainable when the tokens cannot be vouched for."""
        samples = self._client.samples(rollout_id, untrainable=untrainable, interventions=interventions)
        return BlockingIterator(samples)

    def certificate(self, rollout_id: str, *, interventions: Interventions = "keep") -> Certificate:
        """What can be proven about the rollout's tokens."""
        return run(self._client.certificate(rollout_id, interventions=interventions))

    def abort(self, rollout_id: str) -> bool:
        """Stops it, queued or running; what was captured is kept. False when it had already ended."""
        return run(self._client.abort(rollout_id))

    def send(self, rollout_id: str, text: str, *, by: str = "python") -> None:
        """Says something more to a working agent; heard once, however often the line breaks."""
        run(self._client.send(rollout_id, text, by=by))

    def interrupt(self, rollout_id: str, text: str | None = None, *, by: str = "python") -> None:
        """Stops what the agent is doing; with a text it goes on from there, without one its work is over."""
        run(self._client.interrupt(rollout_id, text, by=by))

    def permit(
        self,
        rollout_id: str,
        request_id: str,
        reply: PermissionReply,
        *,
        message: str | None = None,
        by: str = "python",
    ) -> None:
        """Decides a permission request; the model reads the message of a rejection."""
        run(self._client.permit(rollout_id, request_id, reply, message=message, by=by))

    def answer(
        self, rollout_id: str, request_id: str, answers: list[list[str]] | None, *, by: str = "python"
    ) -> None:
        """Answers a question: one list of labels for each; None declines."""
        run(self._client.answer(rollout_id, request_id, answers, by=by))

    def converse(self, *, endpoint: EndpointLike | None = None, **options: Unpack[ConversationOptions]) -> Conversation:
        """Stores and queues a live agent. From then on it survives anything."""
        return Conversation(run(self._client.converse(endpoint=endpoint, **options)))

    def conversation(self, conversation_id: str) -> Conversation:
        """One that was started before, perhaps by another process."""
        return Conversation(self._client.conversation(conversation_id))

    def conversations(self, **filters: Any) -> Iterator[ConversationState]:
        """Conversations, newest first. Filters: status, label."""
        return BlockingIterator(self._client.conversations(**filters))

    def rows(
        self,
        source: Source,
        *,
        untrainable: OnUntrainable = "skip",
        weights: Collection[str] | None = None,
        interventions: Interventions = "keep",
    ) -> Rows:
        """Training rows of a group, a batch, or of rollouts by id or result; waits for what is not finished."""
        given = self._client.rows(
            _to_async(source), untrainable=untrainable, weights=weights, interventions=interventions
        )
        return Rows(given)

    def set_weights(self, endpoint: str, version: str) -> None:
        """
        Says which weights an endpoint serves from now on, by its name in the catalog or its host and port. Every call that
        the server makes keeps it.
        """
        run(self._client.set_weights(endpoint, version))

    def credentials(self) -> list[Json]:
        """Stored keys and logins: label, kind, pool, state, who uses them. Never a secret."""
        return run(self._client.credentials())

    def credential(self, label: str) -> Json:
        """One of them. Never its secret."""
        return run(self._client.credential(label))

    def add_api_key(self, label: str, api_key: str, *, base_url: str, model: str, **terms: Any) -> Json:
        """Stores a key, sealed. Rollouts use it as the endpoint ``cred:<label>``. ``terms``: dialect, capacity, pool."""
        return run(self._client.add_api_key(label, api_key, base_url=base_url, model=model, **terms))

    def add_login(
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
        place = {"provider": provider, "token_url": token_url, "base_url": base_url, "model": model}
        return run(self._client.add_login(label, auth=auth, client_id=client_id, **place, **terms))

    def verify_credential(self, label: str) -> Json:
        """Asks its provider one small question with it; ``state`` says what came of it. Takes up to three minutes."""
        return run(self._client.verify_credential(label))

    def free_credential(self, label: str, *, newest: bool = False) -> Json:
        """Ends a quarantine without asking the provider: what is stored is used again, or what was put aside last."""
        return run(self._client.free_credential(label, newest=newest))

    def remove_credential(self, label: str, *, force: bool = False) -> None:
        """Forgets it; refused while it is in use, unless forced."""
        run(self._client.remove_credential(label, force=force))

    def purge_credentials(self, *, pool: str | None = None, force: bool = False) -> Json:
        """Forgets the dead, or all of a pool: ``removed``, and ``inUse``, which stay unless forced."""
        return run(self._client.purge_credentials(pool=pool, force=force))

    def hosts(self) -> list[Json]:
        """Other machines that boxes can be placed on, as the sandbox ``ssh:<name>``."""
        return run(self._client.hosts())

    def check_host(self, name: str) -> Json:
        """Logs in there, looks it over, asks its agent for its version: ``ok``, and ``checks`` with what to do about each."""
        return run(self._client.check_host(name))

    def health(self) -> Json:
        """Whether the server answers, and its version."""
        return run(self._client.health())


class Conversation:
    """A live agent. What is said to it while it waits for a worker is heard as soon as it has one."""

    def __init__(self, conversation: AsyncConversation) -> None:
        self._conversation = conversation
        self.id = conversation.id

    def state(self) -> ConversationState:
        """As it stands."""
        return run(self._conversation.state())

    def events(self, *, after: int = 0) -> Iterator[Event]:
        """Every event once and in order, live until it is closed, over lost connections and restarts."""
        return BlockingIterator(self._conversation.events(after=after))

    def messages(self) -> list[Json]:
        """What was said, in OpenCode's own message shape."""
        return run(self._conversation.messages())

    def send(self, text: str, *, message_id: str | None = None, by: str = "python") -> str:
        """Says something; while the agent works, it steers. Heard once, however often the line breaks."""
        return run(self._conversation.send(text, message_id=message_id, by=by))

    def ask(self, text: str, *, by: str = "python") -> Event:
        """Says something and waits for the end of the agent's turn: its ``turn-end`` event, or the end of it all."""
        return run(self._conversation.ask(text, by=by))

    def pending(self) -> list[Event]:
        """The permission requests and questions that wait for somebody."""
        return run(self._conversation.pending())

    def deliverables(self) -> list[Json]:
        """The declared files that have appeared: path, sizeBytes, sha256, at."""
        return run(self._conversation.deliverables())

    def deliverable(self, path: str) -> bytes:
        """One of them, as it was kept last."""
        return run(self._conversation.deliverable(path))

    def permit(
        self, request_id: str, reply: PermissionReply, *, message: str | None = None, by: str = "python"
    ) -> None:
        """Decides a permission request; the model reads the message of a rejection."""
        run(self._conversation.permit(request_id, reply, message=message, by=by))

    def answer(self, request_id: str, answers: list[list[str]] | None, *, by: str = "python") -> None:
        """Answers a question: one list of labels for each; None declines."""
        run(self._conversation.answer(request_id, answers, by=by))

    def interrupt(self, text: str | None = None, *, by: str = "python") -> None:
        """Stops what the agent is doing; with a text it goes on from there."""
        run(self._conversation.interrupt(text, by=by))

    def set_model(self, model: str, *, by: str = "python") -> None:
        """The model for what follows, as its endpoint calls it."""
        run(self._conversation.set_model(model, by=by))

    def close(self) -> ConversationState:
        """Ends it; what was said and done is kept."""
        return run(self._conversation.close())

    def reopen(self, *, api_key: str | None = None, by: str = "python") -> ConversationState:
        """Goes on with its history and its files. Keys are erased at the close: one that it came with is needed again."""
        return run(self._conversation.reopen(api_key=api_key, by=by))


class Group:
    """``n`` rollouts of one task. Iterate for the results as they finish."""

    def __init__(self, group: AsyncGroup) -> None:
        self._group = group
        self.id = group.id
        self.rollout_ids = group.rollout_ids
        """In order of creation."""

    def __iter__(self) -> Iterator[Result]:
        return BlockingIterator(self._group.__aiter__())

    def results(self) -> list[Result]:
        """All of them, in order of creation."""
        return run(self._group.results())

    def wait(self) -> GroupSummary:
        """The summary once every rollout has ended; fetches no result."""
        return run(self._group.wait())

    def summary(self) -> GroupSummary:
        """Progress, reward mean and spread, pass@k."""
        return run(self._group.summary())

    def tokens(self) -> TokenSums:
        """How many tokens can be trained on, in how many samples, and what broke; reads every trace."""
        return run(self._group.tokens())

    def rows(
        self,
        *,
        untrainable: OnUntrainable = "skip",
        weights: Collection[str] | None = None,
        interventions: Interventions = "keep",
    ) -> Rows:
        """Training rows, once all rollouts have ended: an advantage needs every reward."""
        return Rows(self._group.rows(untrainable=untrainable, weights=weights, interventions=interventions))

    def abort(self) -> list[str]:
        """Stops every unfinished rollout; their ids."""
        return run(self._group.abort())


class Batch:
    """Tasks × endpoints × n. Iterate for the results as they finish."""

    def __init__(self, batch: AsyncBatch) -> None:
        self._batch = batch
        self.id = batch.id

    def __iter__(self) -> Iterator[Result]:
        return BlockingIterator(self._batch.__aiter__())

    def groups(self) -> list[Group]:
        """One for each task and endpoint."""
        return [Group(group) for group in run(self._batch.groups())]

    def summary(self) -> BatchSummary:
        """Progress, outcomes and the mean reward."""
        return run(self._batch.summary())

    def tokens(self) -> TokenSums:
        """How many tokens can be trained on, in how many samples, and what broke; reads every trace."""
        return run(self._batch.tokens())

    def rows(
        self,
        *,
        untrainable: OnUntrainable = "skip",
        weights: Collection[str] | None = None,
        interventions: Interventions = "keep",
    ) -> Rows:
        """Training rows, group by group."""
        return Rows(self._batch.rows(untrainable=untrainable, weights=weights, interventions=interventions))

    def abort(self) -> list[str]:
        """Stops every unfinished rollout; their ids."""
        return run(self._batch.abort())


class Rows(BlockingIterator[Row]):
    """Rows, one at a time. What was left out is in ``skipped``, with its reasons."""

    def __init__(self, rows: AsyncRows) -> None:
        super().__init__(rows.__aiter__())
        self._rows = rows

    @property
    def skipped(self) -> list[Untrainable]:
        return self._rows.skipped


Source = Group | Batch | str | Result | Iterable[str | Result]


def rows(
    client: Client,
    source: Source,
    *,
    untrainable: OnUntrainable = "skip",
    weights: Collection[str] | None = None,
    interventions: Interventions = "keep",
) -> Rows:
    """
    Training rows for any trainer: ids, mask and logprobs of one length, the reward, and the advantage over the group.

    ``untrainable`` says what to do with rollouts whose tokens the server cannot vouch for, or that have no reward:
    ``skip`` (they are in ``.skipped`` with the reasons), ``raise`` (Untrainable), or ``include``. ``weights`` names the
    weights whose samples are not yet stale; others, and those of which nobody said it, are untrainable too.
    ``interventions`` says what becomes of calls after a person steered: ``keep``, ``mask`` (context without loss) or ``drop``.
    """
    return client.rows(source, untrainable=untrainable, weights=weights, interventions=interventions)


def _to_async(source: Source) -> AsyncSource:
    if isinstance(source, Group):
        return source._group
    return source._batch if isinstance(source, Batch) else source
