"""What serves starts and stops with the application around it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from fastapi import FastAPI


class Served(Protocol):
    """The server, or a broker."""

    def start(self) -> None: ...
    async def close(self) -> None: ...


def lifespan_of(made: Served) -> Callable[[FastAPI], contextlib.AbstractAsyncContextManager[None]]:
    """The life of an application that serves this."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        made.start()
        try:
            yield
        finally:
            await made.close()

    return lifespan
