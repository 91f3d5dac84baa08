"""Says every word of the client once to a real server. Exits non-zero when an answer is not as it should be."""

from __future__ import annotations

import asyncio
import sys

from paddock import ApiError, AsyncClient, Client, Conversation, Endpoint, Event, Task, Untrainable

HELLO = Task(
    id="hello",
    instruction="Write hello into hello.txt",
    files={"note.txt": "be quick"},
    verify=["grep -q hello hello.txt"],
    solution=["echo hello > hello.txt"],
    clocks={"agent_s": 300},
    budget={"max_calls": 20},
    box={"memory_mb": 2048},
)
ENDLESS = Task(id="endless", instruction="Wait", solution=["sleep 100000"])


def main(url: str, base_url: str, model: str, api_key: str) -> None:
    """The model runs a command, asks a question, says *first*; runs a command without end, says *second*."""
    client = Client(url)
    assert client.health()["status"] == "ok"
    one_rollout(client)
    one_that_never_ends(client)
    a_batch(client)
    refusals(client)
    credentials(client)
    a_conversation(client, model, Endpoint.url(base_url, model, api_key=api_key))
    asyncio.run(at_once(AsyncClient(url)))


def one_rollout(client: Client) -> None:
    result = client.run(
        HELLO, endpoint="scripted", sampling={"max_tokens_cap": 2048}, agent={"output_tokens": 4096}, labels={"a": "b"}
    )
    assert (result.outcome, result.reward) == ("completed", 1), result.error
    assert result.workdir_files["/home/user/workdir/hello.txt"] == "hello\n"
    assert result.verify_results[0].exit_code == 0
    assert len(result.proxy_turns[0].completion_token_ids) == len(result.proxy_turns[0].per_token_logps) > 0
    rollout_id = result.rollout_id
    assert client.result(rollout_id) == result
    events = list(client.events(rollout_id))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].type == "rollout-end" and events[-1].data["reward"] == 1
    assert list(client.events(rollout_id, after=len(events))) == []
    assert len(client.messages(rollout_id).messages) >= 2
    calls = list(client.calls(rollout_id))
    assert len(calls) == len(result.proxy_turns)
    certificate = client.certificate(rollout_id)
    assert certificate.trainable, certificate.reasons
    samples = list(client.samples(rollout_id))
    assert len(samples) == certificate.samples
    assert sum(sum(sample.mask) for sample in samples) == certificate.trained_tokens
    assert [row.advantage for row in client.rows(result)] == [None] * len(samples)
    assert client.rollout(rollout_id)["request"]["labels"] == {"a": "b"}
    assert [row["id"] for row in client.rollouts(label="a=b")] == [rollout_id]


def one_that_never_ends(client: Client) -> None:
    rollout_id = client.start(ENDLESS, endpoint=Endpoint.policy("oracle"), idempotency_key="endless")
    assert client.start(ENDLESS, endpoint=Endpoint.policy("oracle"), idempotency_key="endless") == rollout_id
    assert not client.result(rollout_id).is_finished
    next(event for event in client.events(rollout_id) if event.type == "call-end")
    assert client.abort(rollout_id)
    result = client.wait(rollout_id)
    assert (result.outcome, result.reward) == ("aborted", None)
    assert not client.abort(rollout_id)
    rows = client.rows(rollout_id)
    assert list(rows) == [] and rows.skipped[0].rollout_id == rollout_id and rows.skipped[0].reasons
    try:
        list(client.rows(rollout_id, untrainable="raise"))
    except Untrainable as error:
        print(f"untrainable, as expected: {'; '.join(error.reasons)}")
    else:
        raise AssertionError("an aborted rollout has no rows")


def a_batch(client: Client) -> None:
    batch = client.batch([HELLO], ["scripted", Endpoint.policy("noop")], labels={"batch": "1"})
    results = {result.rollout_id: result.reward for result in batch}
    assert sorted(results.values(), key=str) == [0, 1], results
    assert (batch.summary().done, batch.summary().outcomes) == (2, {"completed": 2})
    tokens = batch.tokens()
    assert (tokens.rollouts, tokens.trainable) == (2, 2) and tokens.trained_tokens > 0, tokens
    groups = client.open_batch(batch.id).groups()
    assert {group.rollout_ids[0] for group in groups} == set(results)
    assert {row.rollout_id for row in batch.rows()} <= set(results)
    assert batch.abort() == [] and groups[0].abort() == []


def refusals(client: Client) -> None:
    for task, status in [({"id": "a"}, 422), ({**HELLO.to_json(), "verfy": []}, 422)]:
        try:
            client.start(task, endpoint="scripted")
        except ApiError as error:
            assert error.status == status and error.issues, error
        else:
            raise AssertionError("a wrong task is refused")
    try:
        client.result("ro_unknown")
    except ApiError as error:
        assert error.status == 404
    else:
        raise AssertionError("an unknown rollout is refused")


def credentials(client: Client) -> None:
    added = client.add_api_key(
        "team", "sk-canary-python-1", base_url="http://127.0.0.1:9/v1", model="m", dialect="plain", pool="all"
    )
    assert client.credentials() == [added] and "canary" not in str(added)
    assert client.credential("team") == added
    assert client.hosts() == []
    try:
        client.check_host("nobody")
    except ApiError as error:
        assert error.code == "unknown_host", error
    else:
        raise AssertionError("an unknown machine is refused")
    verdict = client.verify_credential("team")
    assert verdict["state"] == "unknown" and "canary" not in str(verdict), verdict
    rollout_id = client.start(HELLO, endpoint="cred:team")
    assert client.rollout(rollout_id)["request"]["endpoint"]["name"] == "cred:team"
    client.abort(rollout_id)
    assert client.wait(rollout_id).outcome == "aborted"
    for wrong in ["cred:nobody", "pool:nobody", "resolve:somebody"]:
        try:
            client.start(HELLO, endpoint=wrong)
        except ApiError as error:
            assert error.code in ("unknown_credential", "unknown_pool", "credential_unresolved"), error
        else:
            raise AssertionError(f"{wrong} is refused")
    assert client.free_credential("team")["state"] == "unknown"
    client.remove_credential("team", force=True)
    assert client.credentials() == []
    login = client.add_login(
        "ada",
        provider="acme",
        auth={"refresh": "canary-refresh", "access": "canary-access", "expires": 0},
        token_url="http://127.0.0.1:9/token",
        client_id="opencode",
        base_url="http://127.0.0.1:9/v1",
        model="m",
        pool="team",
    )
    assert (login["kind"], login["capacity"], login["pool"]) == ("login", 1, "team") and "canary" not in str(login)
    assert client.purge_credentials() == {"removed": [], "inUse": []}
    assert client.purge_credentials(pool="team") == {"removed": ["ada"], "inUse": []}
    try:
        client.credential("ada")
    except ApiError as error:
        assert (error.status, error.code) == (404, "unknown_credential"), error
    else:
        raise AssertionError("an unknown credential is refused")


def a_conversation(client: Client, model: str, endpoint: Endpoint) -> None:
    talk = client.converse(endpoint=endpoint, agent={"permission": "ask"}, labels={"talk": "1"})
    assert [state.id for state in client.conversations(label="talk=1")] == [talk.id]
    assert talk.send("Begin.", message_id="m1") == talk.send("Begin.", message_id="m1") == "m1"
    command = until(talk, "permission-ask")
    assert [ask.seq for ask in talk.pending()] == [command.seq]
    talk.permit(command.data["requestId"], "reject", message="not that")
    question = until(talk, "question-ask")
    talk.answer(question.data["requestId"], [["red"]])
    assert until(talk, "turn-end").data["text"] == "first"
    assert "not that" in str(talk.messages())
    talk.set_model(model)
    talk.send("Go on.")
    endless = until(talk, "permission-ask", after=question.seq)
    talk.permit(endless.data["requestId"], "once")
    next(event for event in talk.events(after=endless.seq) if "'running'" in str(event.data))
    talk.interrupt("Leave that.")
    until(talk, "turn-end", after=until(talk, "interrupted").seq, text="second")
    assert talk.close().status in ("open", "closed")
    told = [event for event in talk.events()]
    assert told[-1].data["reason"] == "asked", told[-1]
    said = [event.data["text"] for event in told if event.type == "message-sent"]
    assert said == ["Begin.", "Go on.", "Leave that."], said
    decided = [event.data["reply"] for event in told if event.type == "permission-end"]
    assert decided == ["reject", "once"], decided
    deeds = {"message-sent", "interrupted", "model-set", "permission-end", "question-end"}
    assert {event.data["by"] for event in told if event.type in deeds} == {"python"}
    for word in [talk.interrupt, lambda: talk.send("Still there?"), lambda: talk.set_model("other")]:
        try:
            word()
        except ApiError as error:
            assert (error.status, error.code) == (409, "conversation_closed"), error
        else:
            raise AssertionError("a closed conversation hears nothing")


def until(talk: Conversation, kind: str, *, after: int = 0, text: str | None = None) -> Event:
    events = (event for event in talk.events(after=after) if event.type == kind)
    return next(event for event in events if text in (None, event.data.get("text")))


async def at_once(client: AsyncClient) -> None:
    group = await client.group(HELLO, 2, endpoint="scripted")
    followed = [event async for event in client.events(group.rollout_ids[0])]
    assert followed[-1].type == "rollout-end"
    assert {result.reward async for result in group} == {1}
    assert (await group.summary()).pass_at == {1: 1, 2: 1}
    tokens = await group.tokens()
    assert (tokens.rollouts, tokens.trainable, tokens.breaks) == (2, 2, {}), tokens
    rows = [row async for row in group.rows(untrainable="raise")]
    assert [row.rollout_id for row in rows] == group.rollout_ids


if __name__ == "__main__":
    main(*sys.argv[1:])
    print("All as it should be.")
