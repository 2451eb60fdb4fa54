"""The parts of webhooks: which addresses are allowed, how frames become bodies, what a receiver believes."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prosem_client.webhooks import BadSignature, sign, verify

from api.webhooks import batches as cutting
from api.webhooks.batches import AttachError, batches
from api.webhooks.sending import Sender
from api.webhooks.targets import Targets, UnreachableError
from api.webhooks.worker import LONGEST_WAIT_S, RetryPolicy
from prosem.delivery.subscriber import Item
from prosem.store.webhooks import Delivery, Webhook
from prosem.values.access import Scope
from prosem.values.errors import BusyError, NotFoundError, SetupError
from prosem.values.wire import encode
from tests.support.receiver import Receiver

SECRET = "a-secret-of-these-tests"


# -- addresses -----------------------------------------------------------------------------------------------------
async def reached(host: str, allowed: str = "", is_local: bool = False) -> bool:
    targets = Targets(allowed, lambda: is_local)
    try:
        await targets.resolve(host, 80)
    except UnreachableError:
        return False
    finally:
        targets.close()
    return True


NEAR = [
    "127.0.0.1",
    "127.9.9.9",
    "::1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.0.1",
    "fd00::1",
    "::ffff:10.0.0.1",
]
NEVER = ["169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255"]
TRICKY = [
    "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "64:ff9b::e000:1",
    "192.0.0.8", "192.0.0.170", "192.0.0.9", "192.88.99.1", "100.64.0.1", "198.18.0.1", "192.0.2.1", "240.0.0.1",
    "fec0::1", "feff::1", "fe80::1%lo", "2606:4700:4700::1111%lo",
    "::127.0.0.1", "::10.0.0.1", "::93.184.215.14",  # IPv4-compatible
    "::ffff:0:127.0.0.1", "::ffff:0:10.0.0.1", "::ffff:0:93.184.215.14",  # IPv4-translated
    "64:ff9b:1::7f00:1", "64:ff9b:1::5db8:d70e", "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b::c000:8",
    "2001:0:7f00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe", "2002:7f00:1::", "2002:a00:1::1",
    "2001:db8::1", "3fff::1", "100::1", "5f00::1", "2001:10::1", "4000::1", "::ffff:100.64.0.1",
]  # fmt: skip
WRITTEN = ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost"]
FAR = ["93.184.215.14", "2606:4700:4700::1111", "::ffff:93.184.215.14", "64:ff9b::5db8:d70e", "192.0.1.1"]


@pytest.mark.parametrize("host", NEAR)
async def test_near_addresses_are_for_servers_of_this_machine_alone(host: str) -> None:
    assert not await reached(host)
    assert await reached(host, is_local=True)
    assert not await reached(host, "public", is_local=True), "a setting counts as it is written"


@pytest.mark.parametrize("host", [*NEVER, *TRICKY])
async def test_some_addresses_are_never_reached_by_default(host: str) -> None:
    assert not await reached(host)
    assert not await reached(host, is_local=True)


@pytest.mark.parametrize("host", WRITTEN)
async def test_other_notations_of_an_address_are_checked_like_it(host: str) -> None:
    assert not await reached(host)


@pytest.mark.parametrize("host", FAR)
async def test_public_addresses_are_reached_unless_others_are_named(host: str) -> None:
    assert await reached(host)
    assert await reached(host, "public,10.0.0.0/8")
    assert not await reached(host, "10.0.0.0/8")


async def test_networks_and_names_are_allowed_by_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await reached("10.1.2.3", "10.0.0.0/8")
    assert not await reached("11.1.2.3", "10.0.0.0/8")
    assert await reached("::ffff:10.1.2.3", "10.0.0.0/8")
    found = {
        "in.example.org": ["10.0.0.1"],
        "example.org": ["10.0.0.1"],
        "both.org": ["93.184.215.14", "10.0.0.1"],
    }
    look = lambda host, port, type: [(0, 0, 0, "", (each, port)) for each in found[host]]
    monkeypatch.setattr(socket, "getaddrinfo", look)
    assert not await reached("in.example.org")
    assert await reached("in.example.org", "*.example.org")
    assert await reached("IN.example.org".lower(), "IN.Example.org")
    assert not await reached("example.org", "*.example.org")
    assert not await reached("both.org"), "one of its addresses is private"


@pytest.mark.parametrize("allowed", ["10.0.0.0/99", "http://x", "a*b", "10.0.0.1/8"])
def test_a_setting_that_means_nothing_is_refused(allowed: str) -> None:
    with pytest.raises(SetupError, match="--webhook-hosts"):
        Targets(allowed, lambda: False)


# -- one attempt ---------------------------------------------------------------------------------------------------
async def attempted(
    url: str, tls: ssl.SSLContext | None = None, allowed: str = "127.0.0.0/8, ::1"
) -> str | None:
    """What went wrong with one attempt, None if nothing did."""
    now = datetime.now(UTC)
    webhook, delivery = (
        Webhook("hook", Scope(), url, SECRET, now),
        Delivery("id", 1, 1, 1, b"{}", 0, None, now, None),
    )

    targets = Targets(allowed, lambda: False)
    sender = Sender(targets, webhook, 5.0, tls or ssl.create_default_context())
    try:
        return (await sender.attempt(delivery)).error
    finally:
        await sender.close()
        targets.close()


async def test_the_certificate_must_be_for_the_name_and_trusted(tmp_path: Path) -> None:
    """The connection goes to an address that was checked, but the certificate is checked against the name."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command to make a certificate with")

    def made(name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        public, private = str(tmp_path / f"{name}.pem"), str(tmp_path / f"{name}-key.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
             "-addext", f"subjectAltName=DNS:{name}", "-out", public, "-keyout", private],
            check=True, capture_output=True,
        )  # fmt: skip
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(public, private)
        return serving, ssl.create_default_context(cafile=public)

    serving, trusting = made("localhost")
    with Receiver(SECRET, tls=serving) as receiver:
        assert await attempted(receiver.url, trusting) is None
        assert receiver.requests[0].headers["host"] == receiver.url.removeprefix("https://")
        assert "CERTIFICATE_VERIFY_FAILED" in str(await attempted(receiver.url)), "nobody has signed it"
        assert "mismatch" in str(await attempted(receiver.url.replace("localhost", "127.0.0.1"), trusting))
    other, trusting_other = made("other.example")
    with Receiver(SECRET, tls=other) as receiver:
        assert "mismatch" in str(await attempted(receiver.url, trusting_other))
        assert receiver.requests == []


async def test_an_attempt_that_fails_says_why() -> None:
    with Receiver(SECRET) as receiver:
        assert await attempted(receiver.url) is None
        assert "--webhook-hosts" in str(await attempted(receiver.url, allowed="public"))
        assert receiver.requests[1:] == []
    assert "ConnectError" in str(await attempted(receiver.url)), "nobody listens any more"


# -- bodies --------------------------------------------------------------------------------------------------------
@st.composite
def fetched(draw: st.DrawFn) -> list[Item]:
    """What a subscriber may be given: each subscription's items in order, mixed; a mark at the end, or not."""
    mixed = []
    for id in draw(st.sets(st.sampled_from("abcd"))):
        seqs = sorted(draw(st.sets(st.integers(0, 30), max_size=8)))
        items = [Item("change" if at else "snapshot", id, seq, b"%d" % seq) for at, seq in enumerate(seqs)]
        if draw(st.booleans()):
            items.append(Item("error", id, 0, encode(NotFoundError("deleted").problem())))
        mixed.append(items)
    found: list[Item] = []
    while mixed := [items for items in mixed if items]:
        found.append(draw(st.sampled_from(mixed)).pop(0))
    return [*found, Item("progress", None, 31, b"")] if draw(st.booleans()) else found


@given(fetched(), st.integers(1, 5), st.integers(40, 400))
def test_bodies_hold_everything_in_order(items: list[Item], most: int, size: int) -> None:
    limits = (cutting.MAX_FRAMES, cutting.MAX_BYTES)
    cutting.MAX_FRAMES, cutting.MAX_BYTES = most, size
    try:
        made = list(batches("hook", items, 1_000))
    finally:
        cutting.MAX_FRAMES, cutting.MAX_BYTES = limits
    frames: list[dict[str, Any]] = []
    for batch in made:
        body = json.loads(batch.body)
        assert (body["webhook"], body["delivery"]) == ("hook", str(batch.id))
        assert 0 < len(body["frames"]) == batch.frames <= most
        assert len(batch.body) < size + 200 or batch.frames == 1
        seqs = [frame["seq"] for frame in body["frames"] if "seq" in frame]
        assert (batch.first_seq, batch.last_seq) == ((seqs[0], seqs[-1]) if seqs else (0, 0))
        assert batch.moved == {frame["id"]: frame["seq"] for frame in body["frames"] if "seq" in frame}
        assert batch.gone == {frame["id"] for frame in body["frames"] if "error" in frame}
        frames += body["frames"]
    seqs = [frame["seq"] for frame in frames if "seq" in frame]
    assert seqs == sorted(seqs)
    for id in "abcd":
        given_seqs = [item.seq for item in items if item.id == id]
        assert [frame.get("seq", 0) for frame in frames if frame["id"] == id] == given_seqs
    assert len({batch.id for batch in made}) == len(made)


def test_a_subscription_that_cannot_be_attached_stops_after_the_others() -> None:
    busy = Item("error", "b", 0, encode(BusyError("full").problem()))
    cut = batches("hook", [busy, Item("snapshot", "a", 7, b"{}"), Item("progress", None, 9, b"")], 1_000)
    assert next(cut).moved == {"a": 7}
    with pytest.raises(AttachError, match="full"):
        next(cut)


def test_a_frame_that_is_too_large_says_where_the_answer_is() -> None:
    items = [Item("snapshot", "a", 7, b'"' + b"x" * 2_000 + b'"'), Item("change", "a", 8, b"{}")]
    (batch,) = batches("hook", items, 1_000)
    first, second = json.loads(batch.body)["frames"]
    assert (first["error"]["status"], "result" in first["error"]["detail"]) == (413, True)
    assert second == {"id": "a", "seq": 8, "change": {}}
    assert (batch.moved, batch.gone) == ({"a": 8}, set())


@given(st.integers(1, 60), st.floats(0, 1e6))
def test_waits_grow_and_end(attempts: int, asked_s: float) -> None:
    retry_policy = RetryPolicy(60, 0.5)
    wait_s = retry_policy.wait_s(attempts, asked_s)
    assert min(0.25 * 2 ** (attempts - 1), LONGEST_WAIT_S / 2) <= wait_s <= LONGEST_WAIT_S
    assert wait_s >= min(asked_s, LONGEST_WAIT_S)


# -- signatures ----------------------------------------------------------------------------------------------------
@given(st.binary(), st.text(min_size=1), st.integers(0, 2**33))
def test_what_was_signed_is_believed(content: bytes, secret: str, at: int) -> None:
    body = encode({"content": content})
    assert verify(body, sign(body, secret, at), secret, now=at + 299) == json.loads(body)


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("", "look like"),
        ("v1=00", "look like"),
        ("t=x,v1=00", "look like"),
        ("t=100,t=100,v1=00", "look like"),
        ("t=100", "not signed"),
        ("t=100,v1=", "not signed"),
        ("t=100,v1=é", "not signed"),
        (sign(b"{ }", SECRET, 100), "not signed"),
        (sign(b"{}", "another-secret", 100), "not signed"),
        (sign(b"{}", SECRET, 100).replace("t=100", "t=101"), "not signed"),
        (sign(b"{}", SECRET, 500), "ahead"),
    ],
)
def test_what_was_not_signed_is_not_believed(header: str, says: str) -> None:
    with pytest.raises(BadSignature, match=says):
        verify(b"{}", header, SECRET, now=100)


def test_one_of_several_signatures_is_enough() -> None:
    header = sign(b"{}", SECRET, 100) + ",v1=00"
    assert verify(b"{}", header, SECRET, now=100) == {}


def test_a_request_that_ends_early_is_no_forged_one() -> None:
    """A server that is killed while it sends has signed the whole body, of which a part has come."""
    with Receiver(SECRET) as receiver:
        port = int(receiver.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(
                b"POST /hook HTTP/1.1\r\nContent-Length: 9\r\nX-Prosem-Signature: t=1,v1=00\r\n\r\n{"
            )
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b"", "closed without an answer"
        assert (receiver.faults, receiver.requests) == ([], [])
