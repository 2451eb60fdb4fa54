"""Request models of brokers: joining, and renewing a lease. Members of newer protocols are ignored."""

from __future__ import annotations

from typing import Annotated, ClassVar

from prosem.values.errors import InputError
from prosem.values.model import JsonObject
from prosem.values.request_model import RequestModel, expected

SERVER, CONTROL = "server", "control"  # the server's node, and where brokers send requests
_NAME = "expected a name of 1 to 64 letters, digits, - and _, and not server"
POSITION_EXPECTED = "expected the position that the broker has come to"
_NUMBER = "expected the number of a protocol"


class JoinBroker(RequestModel, frozen=True, forbid_unknown_fields=False):
    """A broker that joins the network."""

    example: ClassVar[JsonObject | None] = {
        "name": "broker-1",
        "url": "http://127.0.0.1:8081",
        "protocol": 2,
        "version": "0.1.0",
    }
    name: Annotated[str, expected(_NAME, min_length=1, max_length=64, pattern="^[A-Za-z0-9_-]+$")]
    url: Annotated[
        str, expected("expected the broker's address", description="where subscribers reach the broker")
    ] = ""
    advertised: Annotated[
        str,
        expected(
            "expected an address",
            description="where clients may be redirected to; empty if they may not",
            pattern="^(https?://[^/?#\\s]+)?$",
        ),
    ] = ""
    protocol: (
        Annotated[int, expected(_NUMBER, ge=1, description="the newest brokers' protocol that it speaks")]
        | None
    ) = None
    oldest_protocol: (
        Annotated[int, expected(_NUMBER, ge=1, description="the oldest one that it still speaks")] | None
    ) = None
    version: (
        Annotated[str, expected("expected the version as text", description="of its release, for messages")]
        | None
    ) = None

    def __post_init__(self) -> None:
        if self.name in (SERVER, CONTROL) or self.name.endswith("\n"):  # which `$` of the pattern allows
            raise InputError(_NAME, "/name")


_COUNT = "expected a number from 0 on"
Count = Annotated[int, expected(_COUNT, ge=0)]


class LinkReport(RequestModel, frozen=True, forbid_unknown_fields=False):
    """What a broker's link to another one has carried."""

    to: Annotated[str, expected("expected the node that the link leads to")]
    latency_us: Annotated[float, expected(_COUNT, ge=0)] | None = None
    messages: Count = 0
    frames: Count = 0
    bytes: Count = 0
    last_seq: Count = 0


class LeaseRenewal(RequestModel, frozen=True, forbid_unknown_fields=False):
    """The state of a broker that renews its lease; GET /v1/network shows it."""

    expected = "expected what the broker says of itself"
    node: Annotated[str, expected("expected the node that the broker got when it joined")] | None = None
    position: Annotated[int, expected(POSITION_EXPECTED)] | None = None
    sockets: Count = 0
    leg_us: Annotated[float, expected(_COUNT, ge=0, description="from NATS to it")] | None = None
    links: Annotated[tuple[LinkReport, ...], expected("expected a list of links")] = ()
    contents: Annotated[dict[str, Count], expected("expected counts by name")] | None = None
    stage: Annotated[int, expected(_COUNT, ge=0)] | None = None
