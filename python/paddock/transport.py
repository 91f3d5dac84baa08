"""Requests that outlast lost connections, full queues and restarts of the server."""

from __future__ import annotations

import asyncio
import json
import math
import random
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

from .connection import Response, exchange
from .errors import ApiError, ConnectionLost

API = "/api/v1"
NDJSON = "application/x-ndjson"

_FIRST_DELAY_S = 0.1
_LAST_DELAY_S = 5.0
_BUSY = {429, 502, 503, 504}
_TRIES_ON_BUG = 5
"""A 500 may come from a server that is going down; one that keeps coming is a bug there, and waiting is in vain."""
_FIRST_CONTACT_S = 10.0
"""A server that never answered is more likely a wrong address than one that restarts."""


class Transport:
    """Where the server is and how long to believe in it."""

    def __init__(self, base_url: str, token: str | None, patience_s: float, tls: ssl.SSLContext | None) -> None:
        self.url = urlsplit(base_url.rstrip("/"))
        if self.url.scheme not in ("http", "https") or not self.url.hostname:
            raise ValueError(f"base_url must look like http://127.0.0.1:8000, not {base_url!r}")
        self._token = token
        self._patience_s = patience_s
        self._tls = tls
        self._was_reached = False

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        silence_s: float = 60.0,
    ) -> Any:
        """The JSON reply. The request may be sent several times, so it must do no harm when repeated."""
        patience = self.patience()
        while True:
            try:
                async with aclosing(
                    await self.open(method, path, query=query, body=body, headers=headers, silence_s=silence_s)
                ) as response:
                    return _parse(await response.read())
            except (ConnectionLost, ApiError) as error:
                await patience.endure(error)

    async def ndjson(
        self, path: str, query: Mapping[str, Any] | None = None, *, skip_by: str | None = None
    ) -> AsyncIterator[Any]:
        """
        One value after the other, never all in memory. After a cut the stream is opened again and what was already
        handed out is skipped: by the server when it knows the query parameter ``skip_by``, else here.
        """
        patience = self.patience()
        seen = 0
        while True:
            try:
                skipping = {skip_by: seen} if skip_by else {}
                response = await self.open("GET", path, query={**(query or {}), **skipping}, headers={"accept": NDJSON})
                async with aclosing(response):
                    to_skip = 0 if skip_by else seen
                    async for line in response.lines():
                        if not line:
                            continue
                        if to_skip > 0:
                            to_skip -= 1
                            continue
                        value = _parse(line)
                        seen += 1
                        patience.progress()
                        yield value
                return
            except (ConnectionLost, ApiError) as error:
                await patience.endure(error)

    async def open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        silence_s: float = 60.0,
    ) -> Response:
        """One try. Whatever is not a success is raised as ApiError; redirects are never followed."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = f"{self.url.path}{API}{path}" + (f"?{urlencode(given)}" if given else "")
        sent = {"accept": "application/json", **(headers or {})}
        if self._token:
            sent["authorization"] = f"Bearer {self._token}"
        payload = None
        if body is not None:
            payload = json.dumps(body, allow_nan=False).encode()
            sent["content-type"] = "application/json"
        elif method == "POST":
            payload = b""
        response = await exchange(
            self.url, method, target, headers=sent, body=payload, silence_s=silence_s, tls=self._tls
        )
        self._was_reached = True
        if 200 <= response.status < 300:
            return response
        async with aclosing(response):
            raise _to_api_error(response, await response.read())

    def patience(self) -> Patience:
        """A fresh one; its clock starts with the first failure."""
        return Patience(lambda: self._patience_s if self._was_reached else min(self._patience_s, _FIRST_CONTACT_S))


class Patience:
    """Sleeps between tries, longer each time; raises when waiting is in vain or has lasted too long."""

    def __init__(self, limit_s: Callable[[], float]) -> None:
        self._limit_s = limit_s
        self._failing_since: float | None = None
        self._delay_s = _FIRST_DELAY_S
        self._bugs = 0

    def alive(self) -> None:
        """The server is there: the clock stops, though the next pause is as long as it was."""
        self._failing_since = None

    def progress(self) -> None:
        """It got further: everything starts afresh."""
        self._failing_since = None
        self._delay_s = _FIRST_DELAY_S
        self._bugs = 0

    async def endure(self, error: ConnectionLost | ApiError) -> None:
        """Returns when it is time for the next try."""
        if isinstance(error, ApiError):
            self._bugs += error.status == 500
            if error.status not in _BUSY and not (error.status == 500 and self._bugs < _TRIES_ON_BUG):
                raise error
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        asked = error.retry_after_s if isinstance(error, ApiError) else None
        # Not all at the same moment: a group of waiters would otherwise come back as one burst.
        pause = asked if asked is not None else self._delay_s * random.uniform(0.5, 1.0)
        if now + pause - self._failing_since > self._limit_s():
            raise error
        self._delay_s = min(self._delay_s * 2, _LAST_DELAY_S)
        await asyncio.sleep(pause)


def _parse(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ApiError(200, "not_paddock", "the answer is not JSON; is this a Paddock server?") from None


def _to_api_error(response: Response, body: bytes) -> ApiError:
    retry_after_s = _seconds(response.headers.get("retry-after"))
    try:
        problem = json.loads(body)
        issues = [(issue["path"], issue["message"]) for issue in problem.get("issues", [])]
        return ApiError(response.status, problem["code"], problem["detail"], issues=issues, retry_after_s=retry_after_s)
    except (ValueError, KeyError, TypeError, AttributeError):
        text = body[:200].decode("utf8", "replace")
        return ApiError(response.status, "not_paddock", f"HTTP {response.status}: {text}", retry_after_s=retry_after_s)


def _seconds(retry_after: str | None) -> float | None:
    """A number of seconds, or a date."""
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            at = parsedate_to_datetime(retry_after)
        except (TypeError, ValueError):
            return None
        seconds = (at.replace(tzinfo=at.tzinfo or timezone.utc) - datetime.now(timezone.utc)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None
