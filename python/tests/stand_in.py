"""A small server that speaks Paddock's HTTP and fails on request. What it made outlives its restarts."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .wire import Json, Rollout, certificate_json, group_summary_json, result_json, sample_of

MAX_BODY_BYTES = 16 * 1024 * 1024


@dataclass
class Fault:
    """What goes wrong, once, with the next request that fits."""

    method: str
    ending: str
    """How its path ends."""
    status: int | None = None
    """Refuse with this."""
    headers: dict[str, str] = field(default_factory=dict)
    code: str = "queue_full"
    lose_answer: bool = False
    """Do the work, then hang up."""
    cut_after: int | None = None
    """Hang up in the middle of the piece after so many pieces of a stream."""
    then: Callable[[], None] = lambda: None
    """Called after the client has lost its connection."""


class StandIn:
    """The state and the server. ``requests`` holds what came in: (method, path, headers, body)."""

    def __init__(self) -> None:
        self.rollouts: dict[str, Rollout] = {}
        self.groups: dict[str, list[str]] = {}
        self.batches: dict[str, list[str]] = {}
        self.by_key: dict[str, Json] = {}
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.faults: list[Fault] = []
        self.on_create: Callable[[Rollout, int], None] = lambda rollout, index: None
        """Settles how the index-th rollout of a request will go."""
        self.on_look: Callable[[], None] = lambda: None
        """Called whenever somebody asks how a group or a rollout stands."""
        self.bytes_written = 0
        self.hung_up = threading.Event()
        """A client went away in the middle of a stream."""
        self.lock = threading.RLock()
        self.port = 0
        self._server: _Server | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._server = _Server(("127.0.0.1", self.port), self)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """As a kill would: every connection breaks."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            server.break_connections()

    def restart(self) -> None:
        self.stop()
        self.start()

    def made(self, method: str, ending: str) -> list[tuple[dict[str, str], Any]]:
        """The requests of one kind."""
        found = [
            (headers, body)
            for verb, path, headers, body in list(self.requests)
            if verb == method and path.endswith(ending)
        ]
        return found

    def new_rollout(self, **settings: Any) -> Rollout:
        rollout = Rollout(id=f"ro_{len(self.rollouts)}", **settings)
        self.rollouts[rollout.id] = rollout
        return rollout

    def create(self, body: Json, key: str | None) -> Json:
        with self.lock:
            if key is not None and key in self.by_key:
                return self.by_key[key]
            group_id = self._new_group() if body["group"] or body["n"] > 1 else None
            made = self._make(body["task"]["id"], body["n"], group_id, None)
            reply = {
                "rollouts": [{"id": rollout.id} for rollout in made],
                "group": None if group_id is None else {"id": group_id},
            }
            if key is not None:
                self.by_key[key] = reply
            return reply

    def create_batch(self, body: Json) -> Json:
        batch_id = f"ba_{len(self.batches)}"
        made: list[Rollout] = []
        for task in body["tasks"]:
            for _ in body["endpoints"]:
                made += self._make(task["id"], body["n"], self._new_group(), batch_id)
        self.batches[batch_id] = [rollout.id for rollout in made]
        return {"batch": {"id": batch_id}, "rolloutIds": self.batches[batch_id]}

    def _new_group(self) -> str:
        group_id = f"gr_{len(self.groups)}"
        self.groups[group_id] = []
        return group_id

    def _make(self, task_id: str, n: int, group_id: str | None, batch_id: str | None) -> list[Rollout]:
        made = []
        for index in range(n):
            rollout = self.new_rollout(task_id=task_id, group_id=group_id, batch_id=batch_id)
            self.on_create(rollout, index)
            if group_id is not None:
                self.groups[group_id].append(rollout.id)
            made.append(rollout)
        return made


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], stand_in: StandIn) -> None:
        self.stand_in = stand_in
        self._sockets: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._sockets.add(request)
        super().process_request(request, client_address)

    def break_connections(self) -> None:
        for connection in self._sockets:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that break are what this is for."""


class _HungUp(Exception):
    pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self, method: str) -> None:
        self.close_connection = True
        stand_in = self.server.stand_in
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        length = int(self.headers.get("content-length") or 0)
        if length > MAX_BODY_BYTES:
            self._problem(413, "body_too_large", {})
            return
        text = self.rfile.read(length)
        body = json.loads(text) if text else None
        with stand_in.lock:
            stand_in.requests.append((method, url.path, {k.lower(): v for k, v in self.headers.items()}, body))
            self.fault = next((f for f in stand_in.faults if f.method == method and url.path.endswith(f.ending)), None)
            if self.fault is not None:
                stand_in.faults.remove(self.fault)
        if self.fault is not None and self.fault.status is not None:
            self._problem(self.fault.status, self.fault.code, self.fault.headers)
            return
        try:
            self._route(method, url.path.removeprefix("/api/v1").strip("/").split("/"), query, body)
        except _HungUp:
            self._hang_up()

    def _hang_up(self) -> None:
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        if self.fault is not None:
            self.fault.then()

    def _route(self, method: str, path: list[str], query: dict[str, str], body: Any) -> None:
        stand_in = self.server.stand_in
        if path == ["health"]:
            self._json({"status": "ok", "version": "0.1.0"})
        elif method == "POST" and path == ["rollouts"]:
            self._json(stand_in.create(body, self.headers.get("idempotency-key")), 201)
        elif method == "POST" and path == ["batches"]:
            self._json(stand_in.create_batch(body), 201)
        elif path == ["rollouts"]:
            self._list(query)
        elif path == ["groups"]:
            found = {r.group_id: None for r in stand_in.rollouts.values() if r.batch_id == query["batch_id"]}
            self._json({"items": [{"id": group_id} for group_id in found], "next": None})
        elif path[0] == "groups":
            self._group(path)
        elif path[0] == "batches":
            self._batch(path[1])
        elif path[1] in stand_in.rollouts:
            self._rollout(stand_in.rollouts[path[1]], path[2] if len(path) > 2 else "", query)
        else:
            self._problem(404, "unknown_rollout", {})

    def _rollout(self, rollout: Rollout, what: str, query: dict[str, str]) -> None:
        stand_in = self.server.stand_in
        if what in ("result", "finalize"):
            stand_in.on_look()
            self._json(result_json(rollout))
        elif what == "events":
            self._events(rollout)
        elif what == "samples":
            if rollout.reasons and query["untrainable"] == "refuse":
                self._problem(409, "untrainable", {})
                return
            lines = (json.dumps(sample) + "\n" for sample in (rollout.samples or (lambda: [sample_of(rollout)]))())
            self._stream("application/x-ndjson", lines)
        elif what == "calls":
            calls = [{"index": index} for index in range(5)][int(query.get("after", 0)) :]
            self._stream("application/x-ndjson", (json.dumps(call) + "\n" for call in calls))
        elif what == "certificate":
            self._json(certificate_json(rollout))
        elif what == "messages":
            self._json({"rolloutId": rollout.id, "sessionId": None, "messages": [], "note": "it has not begun"})
        elif what == "abort":
            ended = rollout.outcome is not None
            rollout.outcome, rollout.reward = (rollout.outcome, rollout.reward) if ended else ("aborted", None)
            self._json({"aborted": not ended, "ids": [] if ended else [rollout.id], "reason": None})
        else:
            self._json({"id": rollout.id, "taskId": rollout.task_id})

    def _events(self, rollout: Rollout) -> None:
        after = int(self.headers.get("last-event-id") or 0)
        fresh = [event for event in rollout.events if event["seq"] > after]
        if not fresh:
            self.send_response(204)
            self.end_headers()
            return
        pieces = ["retry: 1000\n\n", ": keep-alive\n\n"]
        pieces += [f"id: {event['seq']}\ndata: {json.dumps(event)}\n\n" for event in fresh]
        self._stream("text/event-stream", pieces)

    def _list(self, query: dict[str, str]) -> None:
        """Two on a page, so that paging is needed."""
        stand_in = self.server.stand_in
        found = [
            {"id": rollout.id, "taskId": rollout.task_id}
            for rollout in stand_in.rollouts.values()
            if rollout.batch_id == query.get("batch_id") and (rollout.outcome is not None or "status" not in query)
        ]
        start = int(query.get("cursor", 0))
        more = start + 2 < len(found)
        self._json({"items": found[start : start + 2], "next": str(start + 2) if more else None})

    def _group(self, path: list[str]) -> None:
        stand_in = self.server.stand_in
        rollouts = [stand_in.rollouts[rollout_id] for rollout_id in stand_in.groups[path[1]]]
        if path[2:] == ["abort"]:
            running = [rollout for rollout in rollouts if rollout.outcome is None]
            for rollout in running:
                rollout.outcome, rollout.reward = "aborted", None
            self._json({"aborted": bool(running), "ids": [rollout.id for rollout in running], "reason": None})
            return
        stand_in.on_look()
        self._json(group_summary_json(path[1], rollouts))

    def _batch(self, batch_id: str) -> None:
        stand_in = self.server.stand_in
        stand_in.on_look()
        rollouts = [stand_in.rollouts[rollout_id] for rollout_id in stand_in.batches[batch_id]]
        done = sum(rollout.outcome is not None for rollout in rollouts)
        self._json(
            {
                **{"id": batch_id, "size": len(rollouts), "done": done, "running": len(rollouts) - done, "queued": 0},
                **{"outcomes": {"completed": done}, "rewardMean": 1.0, "labels": {}},
            }
        )

    def _json(self, value: Json, status: int = 200) -> None:
        if self.fault is not None and self.fault.lose_answer:
            raise _HungUp
        self._send(status, "application/json", json.dumps(value).encode(), {})

    def _problem(self, status: int, code: str, headers: dict[str, str]) -> None:
        problem = {
            "type": f"urn:paddock:{code}",
            "title": "No",
            "status": status,
            "code": code,
            "detail": f"it is {code}",
        }
        self._send(status, "application/problem+json", json.dumps(problem).encode(), headers)

    def _send(self, status: int, media: str, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"content-type": media, "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, media: str, pieces: Iterable[str]) -> None:
        self.send_response(200)
        self.send_header("content-type", media)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        stand_in = self.server.stand_in
        try:
            for count, piece in enumerate(pieces):
                data = piece.encode()
                if self.fault is not None and self.fault.cut_after == count:
                    self.wfile.write(b"%x\r\n%s" % (len(data), data[: len(data) // 2]))
                    raise _HungUp
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                stand_in.bytes_written += len(data)
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            stand_in.hung_up.set()
