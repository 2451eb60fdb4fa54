"""What is shown of the network: what links have carried, brokers and links for GET /v1/network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cn.model.frames import Data, Frame, Staged, Straight
from cn.networks.contents import PayloadNode
from cn.networks.node import Node
from cn.networks.stages import StageNode
from prosem.brokers.dispatcher import Dispatcher


class Carried:
    """What a link has carried."""

    def __init__(self) -> None:
        self.frames = self.messages = self.bytes = self.last_seq = 0

    def add(self, frame: Frame, data: bytes) -> None:
        self.frames += 1
        self.bytes += len(data)
        if isinstance(frame, Data | Straight | Staged):
            self.messages += 1
            self.last_seq = frame.message.seq

    def report(self) -> dict[str, int]:
        counts = {"messages": self.messages, "frames": self.frames, "bytes": self.bytes}
        return counts | {"last_seq": self.last_seq}


def report(dispatcher: Dispatcher, carried: Mapping[str, Carried]) -> dict[str, Any]:
    """Brokers, and links with what they carried; `carried` has the server's own links, by node."""
    server = dispatcher.root.name
    members = list(dispatcher.members.values())
    names = {server: server, **{member.node: member.name for member in members}}
    links = []
    for member in members:
        if member.parent == server or carried[member.node].messages:
            links.append({"from": server, "to": member.name, **carried[member.node].report()})
        for link in member.report.links:
            shown = {**msgspec.to_builtins(link), "from": member.name, "to": names.get(link.to, link.to)}
            if link.to in dispatcher.members:
                shown["latency_us"] = dispatcher.ways.link_us(link.to)
            links.append(shown)
    return {
        "brokers": [
            {
                "name": member.name,
                "url": member.url,
                "advertised": member.advertised,
                "parent": names[member.parent],
                "hosted": len(member.tokens),
                "sockets": member.report.sockets,
                "backlog_bytes": member.backlog_bytes(),
                "behind": dispatcher.position - member.position,
                "latency_us": dispatcher.ways.latency_us(member.node),
                **_contents(member.report.contents),
                **_stage(member.report.stage),
            }
            for member in members
        ],
        "links": links,
        "ways": dict(dispatcher.ways.counts),
        "redirected": dispatcher.redirects.count,
        **_contents(contents_of(dispatcher.root)),
        **_stage(stage_of(dispatcher.root)),
        **({"stage_order": dispatcher.stage_orders} if dispatcher.stage_orders else {}),
    }


def stage_of(node: Node | None) -> int | None:
    """The stage of a node of multi-stage filtering."""
    inner = node.inner if isinstance(node, PayloadNode) else node
    return inner.height() if isinstance(inner, StageNode) else None


def _stage(stage: int | None) -> dict[str, Any]:
    return {} if stage is None else {"stage": stage}


def contents_of(node: Node | None) -> dict[str, int] | None:
    """What a node that remembers contents (CN*) says of them."""
    return node.report() if isinstance(node, PayloadNode) else None


def _contents(report: Mapping[str, int] | None) -> dict[str, Any]:
    return {"contents": report} if report else {}
