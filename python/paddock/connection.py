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


class Response:
    """An answer whose body is read piece by piece; the caller closes it."""

    def __init__(
        self,
        status: int,
        headers: Message,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        silence_s: float,
    ) -> None:
        self.status = status
        self.headers = headers
        self._reader = reader
        self._writer = writer
        self._silence_s = silence_s

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes. Reading slowly slows the sender down; nothing piles up here."""
        if self.status == 204:
            return
        if "chunked" in (self.headers.get("transfer-encoding") or "").lower():
            async for piece in self._chunked():
                yield piece
            return
        length = self.headers.get("content-length")
        remaining = int(length) if length is not None else None
        while remaining is None or remaining > 0:
            wanted = _PIECE_BYTES if remaining is None else min(remaining, _PIECE_BYTES)
            piece = await _in_time(self._reader.read(wanted), self._silence_s)
            if not piece:
                if remaining is None:
                    return
                raise ConnectionLost(f"the answer broke off {remaining} bytes before its end")
            if remaining is not None:
                remaining -= len(piece)
            yield piece

    async def _chunked(self) -> AsyncIterator[bytes]:
        while True:
            line = await _in_time(self._reader.readline(), self._silence_s)
            if not line.endswith(b"\n"):
                raise ConnectionLost("the answer broke off between two chunks")
            remaining = _chunk_size(line)
            if remaining == 0:
                return
            while remaining > 0:
                piece = await _in_time(self._reader.read(min(remaining, _PIECE_BYTES)), self._silence_s)
                if not piece:
                    raise ConnectionLost("the answer broke off within a chunk")
                remaining -= len(piece)
                yield piece
            await _in_time(self._reader.readline(), self._silence_s)

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
        self._writer.transport.abort()


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
    context = (tls or ssl.create_default_context()) if url.scheme == "https" else None
    port = url.port or (443 if context else 80)
    reader, writer = await _in_time(
        asyncio.open_connection(url.hostname, port, ssl=context, limit=_PIECE_BYTES), silence_s
    )
    try:
        writer.write(_head(url, method, target, headers, body))
        if body:
            writer.write(body)
        status, answered = await _in_time(_read_head(writer, reader), silence_s)
        return Response(status, answered, reader, writer, silence_s)
    except BaseException:
        writer.transport.abort()
        raise


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


async def _read_head(writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> tuple[int, Message]:
    try:
        await writer.drain()
    except OSError:
        # A server may refuse a large body before it has read it all: its answer still counts.
        pass
    while True:
        line = await reader.readline()
        parts = line.decode("latin-1").split(None, 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdigit():
            raise ConnectionLost("the connection was closed without an answer" if not line else "this is not HTTP")
        headers = await _read_headers(reader)
        if int(parts[1]) >= 200:
            return int(parts[1]), headers


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


async def _in_time(work: Awaitable[T], seconds: float) -> T:
    try:
        return await asyncio.wait_for(work, seconds)
    except asyncio.TimeoutError:
        raise ConnectionLost(f"the server was silent for {seconds:g} s") from None
    except (OSError, EOFError, asyncio.LimitOverrunError, ValueError) as error:
        if isinstance(error, ConnectionLost):
            raise
        raise ConnectionLost(str(error) or type(error).__name__) from error
