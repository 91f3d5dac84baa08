"""One HTTP/1.1 exchange on one connection, with asyncio's streams and nothing else."""

from __future__ import annotations

import asyncio
import http.client
import io
import ssl
from collections.abc import AsyncIterator, Awaitable, Mapping
from email.message import Message
from typing import TypeVar
from urllib.parse import SplitResult

from .errors import ConnectionLost

T = TypeVar("T")

_PIECE_BYTES = 64 * 1024
_MAX_HEADERS = 200


class _Wire:
    """A connection on which silence is noticed."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silence_s: float) -> None:
        self.reader = reader
        self.writer = writer
        self._silence_s = silence_s
        self._fell_silent = False

    async def heard(self, work: Awaitable[T]) -> T:
        """What ``work`` reads; raises ConnectionLost when that breaks or takes too long."""
        # A timer, not asyncio.wait_for: before Python 3.12 that one may swallow a cancellation.
        timer = asyncio.get_running_loop().call_later(self._silence_s, self._give_up)
        try:
            value = await work
        except (OSError, EOFError, ValueError) as error:
            if isinstance(error, ConnectionLost) and not self._fell_silent:
                raise
            raise ConnectionLost(self._silence() or str(error) or type(error).__name__) from error
        finally:
            timer.cancel()
        if self._fell_silent:
            raise ConnectionLost(self._silence())
        return value

    def close(self) -> None:
        self.writer.transport.abort()

    def _give_up(self) -> None:
        self._fell_silent = True
        self.close()

    def _silence(self) -> str:
        return f"the server was silent for {self._silence_s:g} s" if self._fell_silent else ""


class Response:
    """An answer whose body is read piece by piece; the caller closes it."""

    def __init__(self, status: int, headers: Message, refusal: bytes | None, wire: _Wire) -> None:
        self.status = status
        self.headers = headers
        self._refusal = refusal
        self._wire = wire

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes. Reading slowly slows the sender down; nothing piles up here."""
        if self.status == 204:
            return
        if self._refusal is not None:
            yield self._refusal
            return
        if "chunked" in (self.headers.get("transfer-encoding") or "").lower():
            async for piece in self._chunked():
                yield piece
            return
        length = self.headers.get("content-length")
        remaining = int(length) if length is not None else None
        while remaining is None or remaining > 0:
            piece = await self._read(_PIECE_BYTES if remaining is None else remaining)
            if not piece:
                if remaining is None:
                    return
                raise ConnectionLost(f"the answer broke off {remaining} bytes before its end")
            if remaining is not None:
                remaining -= len(piece)
            yield piece

    async def _chunked(self) -> AsyncIterator[bytes]:
        while True:
            line = await self._wire.heard(self._wire.reader.readline())
            if not line.endswith(b"\n"):
                raise ConnectionLost("the answer broke off between two chunks")
            remaining = _chunk_size(line)
            if remaining == 0:
                return
            while remaining > 0:
                piece = await self._read(remaining)
                if not piece:
                    raise ConnectionLost("the answer broke off within a chunk")
                remaining -= len(piece)
                yield piece
            await self._wire.heard(self._wire.reader.readline())

    async def _read(self, most: int) -> bytes:
        return await self._wire.heard(self._wire.reader.read(min(most, _PIECE_BYTES)))

    async def lines(self) -> AsyncIterator[str]:
        """The lines of the body without their ends, however the network cut it up."""
        rest = bytearray()
        async for piece in self.pieces():
            start = 0
            while (end := piece.find(b"\n", start)) >= 0:
                rest += piece[start:end]
                yield rest.decode().removesuffix("\r")
                rest.clear()
                start = end + 1
            rest += piece[start:]
        if rest:
            yield rest.decode()

    async def read(self) -> bytes:
        """The whole body."""
        return b"".join([piece async for piece in self.pieces()])

    async def aclose(self) -> None:
        """Ends the connection, whether or not the body was read to its end."""
        self._wire.close()


async def exchange(
    url: SplitResult,
    method: str,
    target: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None,
    silence_s: float,
    tls: ssl.SSLContext | None = None,
) -> Response:
    """Sends a request and reads the head of the answer. Whatever breaks on the way is a ConnectionLost."""
    wire = await _connect(url, silence_s, tls)
    try:
        # Listening begins at once: a server may refuse a large body before it has read it all.
        wire.writer.write(_head(url, method, target, headers, body) + (body or b""))
        return Response(*await wire.heard(_read_answer(wire.reader)), wire)
    except BaseException:
        wire.close()
        raise


async def _connect(url: SplitResult, silence_s: float, tls: ssl.SSLContext | None) -> _Wire:
    context = (tls or ssl.create_default_context()) if url.scheme == "https" else None
    port = url.port or (443 if context else 80)
    opening = asyncio.ensure_future(asyncio.open_connection(url.hostname, port, ssl=context, limit=_PIECE_BYTES))
    try:
        await asyncio.wait({opening}, timeout=silence_s)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_unused)
        opening.cancel()
        raise
    if not opening.done():
        opening.add_done_callback(_close_unused)
        opening.cancel()
        raise ConnectionLost(f"{url.hostname}:{port} did not answer within {silence_s:g} s")
    try:
        return _Wire(*opening.result(), silence_s)
    except OSError as error:
        raise ConnectionLost(f"{url.hostname}:{port} cannot be reached: {error}") from error


def _close_unused(opening: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> None:
    """Nobody waits any more for a connection that may still have come about."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result()[1].transport.abort()


def _head(url: SplitResult, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    lines = {"host": url.netloc.rpartition("@")[2], "connection": "close", "user-agent": "paddock-python", **headers}
    if body is not None:
        lines["content-length"] = str(len(body))
    for name, value in lines.items():
        # A line break in a value would start a header of its own.
        if "\r" in value or "\n" in value:
            raise ValueError(f"the header {name} may not contain a line break")
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {target} HTTP/1.1\r\n{text}\r\n".encode("latin-1")


async def _read_answer(reader: asyncio.StreamReader) -> tuple[int, Message, bytes | None]:
    """Status, headers, and of a refusal also the body: it must be read before the broken upload is noticed."""
    while True:
        line = await reader.readline()
        parts = line.decode("latin-1").split(None, 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdigit():
            raise ConnectionLost("the connection was closed without an answer" if not line else "this is not HTTP")
        status, headers = int(parts[1]), await _read_headers(reader)
        length = headers.get("content-length")
        if status >= 400 and length is not None and int(length) <= _PIECE_BYTES:
            return status, headers, await reader.readexactly(int(length))
        if status >= 200:
            return status, headers, None


async def _read_headers(reader: asyncio.StreamReader) -> Message:
    lines: list[bytes] = []
    while (line := await reader.readline()) not in (b"\r\n", b"\n"):
        if not line or len(lines) == _MAX_HEADERS:
            raise ConnectionLost("the answer broke off within its headers")
        lines.append(line)
    return http.client.parse_headers(io.BytesIO(b"".join(lines) + b"\r\n"))


def _chunk_size(line: bytes) -> int:
    try:
        return int(line.split(b";", 1)[0], 16)
    except ValueError:
        raise ConnectionLost("the answer is not chunked as it says") from None
