"""A broker renews its lease in a thread of its own: a loop that has much to deliver is busy, not dead."""

from __future__ import annotations

import threading
from collections.abc import Callable, MutableMapping
from typing import Any

import httpx

from api.broker.forward import Forwarder
from prosem.runtime.supervise import supervise_thread
from prosem.runtime.tls import verified

RENEWALS = 5  # within one lease


class Renewal:
    """Renews the lease of the broker at the server until it is closed.

    `report` returns the body, `answered` is called with the status and the answer; both in the thread. The status is 0
    when the server did not answer, and the answer then says why. `address` is asked for before each request.
    """

    def __init__(
        self,
        address: Callable[[], str],
        lease_s: float,
        report: Callable[[], dict[str, Any]],
        answered: Callable[[int, dict[str, Any]], None],
        forwarder: Forwarder,
        restarts: MutableMapping[str, int],
    ) -> None:
        self._forwarder = forwarder
        self._address, self._pause_s, self._report, self._answered = (
            address,
            lease_s / RENEWALS,
            report,
            answered,
        )
        self._closed = threading.Event()
        supervise_thread("lease-renewal", self._run, restarts, self._closed, self._pause_s).start()

    def close(self) -> None:
        """Renew no more; does not wait for a request that is under way."""
        self._closed.set()

    def _run(self) -> None:
        key, tls = self._forwarder.own, self._forwarder.tls
        with httpx.Client(trust_env=False, timeout=5.0, headers=key, verify=verified(tls)) as client:
            while not self._closed.wait(self._pause_s):
                try:
                    response = client.put(self._address(), json=self._report())
                    status, answer = response.status_code, response.json()
                except (httpx.HTTPError, ValueError) as error:
                    status, answer = 0, {"detail": str(error) or type(error).__name__}
                if not self._closed.is_set():
                    self._answered(status, answer)
