"""Calls that are repeated until they are answered: each of them has the same effect once or twice."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx

PATIENCE_S = 120.0
AGAIN_S = 0.1
BUSY = (429, 503)


class Caller:
    def __init__(self, url: str) -> None:
        self._http = httpx.AsyncClient(base_url=url, timeout=20, trust_env=False)
        self.repeated = 0

    async def aclose(self) -> None:
        await self._http.aclose()

    async def call(
        self, method: str, path: str, body: Any = None, *, key: str = "", accept: tuple[int, ...] = ()
    ) -> Any:
        """The response; a status that is not a success must be among `accept`, and gives None."""
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
        content = None if body is None else json.dumps(body)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                answer = await self._http.request(method, path, content=content, headers=headers)
            except httpx.TransportError as error:
                problem = repr(error)
            else:
                if answer.is_success:
                    return answer.json() if answer.content else None
                if answer.status_code in accept:
                    return None
                problem = f"{answer.status_code} {answer.text[:500]}"
                assert answer.status_code in BUSY, f"{method} {path}: {problem}"
            assert time.monotonic() < deadline, f"{method} {path} was not answered: {problem}"
            self.repeated += 1
            await asyncio.sleep(AGAIN_S)
