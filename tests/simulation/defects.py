"""Defects that the product once had, put back as patches: each must be found by the simulation.

The numbers are those of the list in which they were reported.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import psycopg

from api.broker.session import Session as BrokerSession
from cn.transport.consumer import Consumer
from cn.transport.nats import NatsTransport
from cn.transport.packets import Incoming, read_packet
from prosem.engine.pipeline import Pipeline
from prosem.store import log as store_log
from prosem.store import session as store_session
from prosem.store.heartbeat import Heartbeat
from prosem.store.session import Session
from prosem.values.errors import CommitError
from tests.simulation.plan import POISON, Plan


@dataclass(frozen=True)
class Defect:
    """`concerns` says which plans can show it at all, `shown_by` is a part of what the judge then says."""

    patch: Callable[[], contextlib.AbstractContextManager[None]]
    concerns: Callable[[Plan], bool]
    shown_by: tuple[str, ...]

    def is_shown(self, problems: list[str]) -> bool:
        return any(part in problem for problem in problems for part in self.shown_by)


def _has(*kinds: str) -> Callable[[Plan], bool]:
    return lambda plan: any(step.kind in kinds for step in plan.steps)


@contextlib.contextmanager
def _every_refusal_is_a_failure() -> Iterator[None]:
    def failed(error: psycopg.Error) -> CommitError:
        return CommitError(str(error))

    with (
        mock.patch.object(store_log, "refusal", failed),
        mock.patch.object(store_session, "refusal", failed),
    ):
        yield


def _is_poisoned(plan: Plan) -> bool:
    events = [event for step in plan.steps if step.kind == "publish" for event in step.args["events"]]
    return plan.is_calm and any(event["row"].get("y") == POISON for event in events)


@contextlib.contextmanager
def _a_shutdown_goes_on_after_a_failure() -> Iterator[None]:
    following = Pipeline.next

    def next_step(self: Pipeline) -> Any:
        if self._closing and self.committer.job is None:
            self.committer.take_failure()
        return following(self)

    with mock.patch.object(Pipeline, "next", next_step):
        yield


@contextlib.contextmanager
def _no_heartbeat() -> Iterator[None]:
    with (
        mock.patch.object(Session, "is_proven", property(lambda self: True)),
        mock.patch.object(Heartbeat, "beat", _nothing),
    ):
        yield


def _nothing(*_: object) -> None: ...


def _is_cut_for_long(plan: Plan) -> bool:
    return plan.servers > 1 and any(
        step.kind in ("cut_database", "stop_process") and step.args["for_s"] > 3 for step in plan.steps
    )


@contextlib.contextmanager
def _a_lost_answer_means_not_committed() -> Iterator[None]:
    def settle(self: Session, token: int, error: psycopg.Error) -> None:
        with contextlib.suppress(psycopg.Error):
            self.require().rollback()
        raise store_session.refusal(error) from error

    with mock.patch.object(Session, "settle", settle):
        yield


@contextlib.contextmanager
def _consumers_are_not_checked() -> Iterator[None]:
    async def check(self: NatsTransport) -> None: ...

    with (
        mock.patch.object(NatsTransport, "check", check),
        mock.patch.object(BrokerSession, "find_hang", _nothing),
    ):
        yield


@contextlib.contextmanager
def _a_number_counts_before_its_packet_is_applied() -> Iterator[None]:
    async def apply(self: Consumer, data: bytes) -> bool:
        packet = read_packet(data)
        if not self._is_known(packet.sender):
            return True
        incoming = self._senders.setdefault(packet.sender, Incoming())
        for body in list(incoming.take(packet)):
            with contextlib.suppress(Exception):
                await self._receive(packet.sender, body)
        return packet.number <= incoming.number

    with mock.patch.object(Consumer, "_apply", apply):
        yield


DEFECTS = {
    "1 a refused request fails others": Defect(
        _every_refusal_is_a_failure, _is_poisoned, ("without a fault",)
    ),
    "3 a commit fails during shutdown": Defect(
        _a_shutdown_goes_on_after_a_failure, _has("close_failing"), ("neither an event", "by the log")
    ),
    "6 a server without its session answers": Defect(
        _no_heartbeat, _is_cut_for_long, ("was acknowledged before",)
    ),
    "7 a lost answer is reported as not committed": Defect(
        _a_lost_answer_means_not_committed, _has("fail_commit"), ("are stored",)
    ),
    "8 consumers are lost for good": Defect(
        _consumers_are_not_checked, _has("drop_consumers"), ("has come to",)
    ),
    "9 a packet that fails is dropped": Defect(
        _a_number_counts_before_its_packet_is_applied,
        _has("fail_packet"),
        ("without the changes", "folded", "has come to"),
    ),
}
