"""Bytes from outside: whatever a parser is given, it returns a value or refuses with its own error.

Seeds are in `corpus/<target>/`. Each is tried as it is; Hypothesis then changes them: bytes replaced, cut out, repeated,
inserted, two seeds joined. An input that was handled wrongly belongs in the corpus, as a file with a name that says what it
is.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.attach import pgoutput
from api.http import json_slices
from api.poll.formats import FeedError, read_csv, read_json, read_rss
from cn.model import frames
from cn.transport.packets import Incoming, read_packet
from prosem.language.parse import parse
from prosem.language.view_parse import parse_view
from prosem.store.backup_file import BackupReader
from prosem.values.errors import InputError, ProsemError, SetupError
from tests.support.effort import examples

CORPUS = Path(__file__).parent / "corpus"


class Target(NamedTuple):
    """A parser, and the errors with which it refuses."""

    read: Callable[[bytes], Any]
    refusals: tuple[type[Exception], ...]


def read_broker_frames(data: bytes) -> None:
    """What can be read can be sent on: a broker does so."""
    found = frames.decode_many(data)
    again = [frames.decode(frames.encode(frame)) for frame in found]
    assert repr(again) == repr(found)


def read_packets(data: bytes) -> None:
    list(Incoming().take(read_packet(data)))


def read_body(data: bytes) -> None:
    """A large body is read in pieces: the same value, or the same refusal."""
    whole = _outcome(lambda: json_slices.decode(data))
    pieces = _outcome(lambda: asyncio.run(json_slices.decode_large(data, 8)))
    assert (whole is None) == (pieces is None)
    assert whole is None or repr(whole) == repr(pieces)


def _outcome(read: Callable[[], Any]) -> Any:
    try:
        return (read(),)
    except InputError:
        return None


def read_backup(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.backup"
        path.write_bytes(data)
        with BackupReader.open(path) as opened:
            opened.verify(lambda *_: None)


TARGETS = {
    "sql": Target(lambda data: parse(data.decode(errors="replace")), (ProsemError,)),
    "views": Target(lambda data: parse_view(data.decode(errors="replace")), (ProsemError,)),
    "json": Target(read_body, (InputError,)),
    "replication": Target(pgoutput.frame, (SetupError,)),
    "broker-frames": Target(read_broker_frames, (msgspec.MsgspecError, ValueError)),
    "packets": Target(read_packets, (msgspec.MsgspecError, ValueError)),
    "feed-json": Target(lambda data: read_json(data, ()), (FeedError,)),
    "feed-csv": Target(lambda data: read_csv(data, ","), (FeedError,)),
    "feed-rss": Target(read_rss, (FeedError,)),
    "backups": Target(read_backup, (InputError,)),
}
SEEDS = {name: sorted((CORPUS / name).iterdir()) for name in TARGETS}
TOKENS = [
    *(b"\0", b"\xff" * 4, b"\x7f\xff\xff\xff", b'"', b"'", b"(" * 50, b"[" * 5_000, b"1e9999", b"NaN"),
    *(b"<!DOCTYPE a [", b"&a;", b"\xc3\x28", b"\xdd\xff\xff\xff\xff", b" UNION ", b"/*", b"--", b"\\u0000"),
    *(b"\r\n", b"\xc7\x08\x05"),
]


@st.composite
def mutated(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """A seed after some changes."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 12)))
        middle = draw(
            st.one_of(
                st.just(b""),
                st.just(data[start:end] * 2),
                st.binary(min_size=end - start, max_size=end - start),
                st.sampled_from(TOKENS),
                st.sampled_from(seeds),
            )
        )
        data = data[:start] + middle + data[end:]
    return data


def attempt(target: Target, data: bytes) -> None:
    with contextlib.suppress(*target.refusals):
        target.read(data)


@pytest.mark.parametrize("name", TARGETS)
def test_seeds(name: str) -> None:
    assert SEEDS[name], "a target without seeds"
    for path in SEEDS[name]:
        attempt(TARGETS[name], path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
@settings(suppress_health_check=list(HealthCheck))
@given(st.data())
def test_changed_seeds(name: str, data: st.DataObject) -> None:
    attempt(TARGETS[name], data.draw(mutated([path.read_bytes() for path in SEEDS[name]])))


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=examples(1_000), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_changed_seeds_for_long(name: str, data: st.DataObject) -> None:
    attempt(TARGETS[name], data.draw(mutated([path.read_bytes() for path in SEEDS[name]])))


def test_every_folder_of_the_corpus_has_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} == TARGETS.keys()
