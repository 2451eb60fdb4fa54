"""What a subscriber was given, cut into bodies that a receiver can take."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from prosem.delivery.stream_frames import frame
from prosem.delivery.subscriber import Item
from prosem.values.errors import BusyError, NotFoundError, TooLargeError
from prosem.values.wire import encode

MAX_FRAMES = 1_000
MAX_BYTES = 1 << 20  # beyond it a body holds one frame alone


class Batch(NamedTuple):
    """One body. `moved`: how far it takes each subscription; `gone`: those that were deleted."""

    id: uuid.UUID
    body: bytes
    frames: int
    first_seq: int
    last_seq: int
    moved: dict[str, int]
    gone: set[str]
    timeline: str = ""


class AttachError(BusyError):
    """A subscription could not be attached, though it exists: begin again."""


def batches(webhook: str, items: Sequence[Item], largest: int) -> Iterator[Batch]:
    """Bodies with the frames of one timeline in the order of their seqs; a frame larger than `largest` becomes an error.

    The sort is stable and each subscription's items are in order, so its order is kept. A subscription that cannot be
    attached for another reason than its absence ends the last batch with an AttachError.
    """
    failed: list[bytes] = []
    chosen = []
    for item in items:
        if item.kind == "error" and not _is_gone(item):
            failed.append(item.body)
        elif item.id is not None:
            chosen.append(item)
    for run in _runs(chosen):
        yield from _cut(webhook, run, largest)
    if failed:
        raise AttachError(msgspec.json.decode(failed[0])["detail"])


def _runs(items: Sequence[Item]) -> list[list[Item]]:
    """Cut where another timeline begins; what names none belongs to the one before."""
    runs: list[list[Item]] = []
    timeline = None
    for item in items:
        if not runs or (item.timeline and item.timeline != timeline):
            timeline = item.timeline
            runs.append([])
        runs[-1].append(item)
    return runs


def _cut(webhook: str, chosen: list[Item], largest: int) -> Iterator[Batch]:
    latest = max((item.seq for item in chosen), default=0)
    chosen.sort(key=lambda item: latest if item.kind == "error" else item.seq)  # a deletion has no seq
    taken: list[tuple[Item, bytes]] = []
    size = 0
    for item in chosen:
        text = frame(item)
        if len(text) > largest:
            text = frame(Item("error", item.id, 0, encode(_too_large(item, largest).problem())))
        if taken and (size + len(text) > MAX_BYTES or len(taken) == MAX_FRAMES):
            yield _batch(webhook, taken)
            taken, size = [], 0
        taken.append((item, text))
        size += len(text)
    if taken:
        yield _batch(webhook, taken)


def _is_gone(item: Item) -> bool:
    return bool(msgspec.json.decode(item.body)["status"] == NotFoundError.status)


def _too_large(item: Item, largest: int) -> TooLargeError:
    return TooLargeError(
        f"the {item.kind} at seq {item.seq} is larger than the {largest} bytes of a body:"
        " read the answer at /v1/subscriptions/{id}/result"
    )


def _batch(webhook: str, taken: Sequence[tuple[Item, bytes]]) -> Batch:
    id = uuid.uuid4()
    head = b'{"webhook":%b,"delivery":"%b","frames":[' % (encode(webhook), str(id).encode())
    moved = {item.id: item.seq for item, _ in taken if item.id is not None and item.kind != "error"}
    gone = {item.id for item, _ in taken if item.id is not None and item.kind == "error"}
    seqs = [item.seq for item, _ in taken if item.kind != "error"]
    body = head + b",".join(text for _, text in taken) + b"]}"
    timeline = max(item.timeline for item, _ in taken)  # of errors it is empty
    return Batch(id, body, len(taken), min(seqs, default=0), max(seqs, default=0), moved, gone, timeline)
