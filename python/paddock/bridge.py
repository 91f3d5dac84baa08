"""Lets blocking code use what is written for asyncio: one event loop on a thread of its own for each process."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_running: asyncio.AbstractEventLoop | None = None


def run(work: Coroutine[Any, Any, T]) -> T:
    """Waits for ``work``; an interrupt of the waiting thread cancels it."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


class BlockingIterator(Iterator[T], Generic[T]):
    """Pulls one item at a time. Ends its work when it is closed or forgotten."""

    def __init__(self, items: AsyncIterator[T]) -> None:
        self._items = items
        self._loop = _loop()

    def __iter__(self) -> BlockingIterator[T]:
        return self

    def __next__(self) -> T:
        item = run(_next(self._items))
        if isinstance(item, _End):
            raise StopIteration
        return item

    def close(self) -> None:
        """Lets go of the connection, if any."""
        run(_close(self._items))

    def __del__(self) -> None:
        # A fork inherits the object, not the loop that it lives on; at exit the loop may be gone.
        if self._loop is _running and not sys.is_finalizing():
            asyncio.run_coroutine_threadsafe(_close(self._items), self._loop)


class _End:
    pass


async def _next(items: AsyncIterator[T]) -> T | _End:
    try:
        return await items.__anext__()
    except StopAsyncIteration:
        return _End()


async def _close(items: AsyncIterator[Any]) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()


def _loop() -> asyncio.AbstractEventLoop:
    global _running
    with _lock:
        if _running is None:
            _running = asyncio.new_event_loop()
            threading.Thread(target=_running.run_forever, name="paddock", daemon=True).start()
        return _running


def _forget_loop() -> None:
    """Threads do not survive a fork, and data loaders fork."""
    global _lock, _running
    _lock, _running = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_loop)
