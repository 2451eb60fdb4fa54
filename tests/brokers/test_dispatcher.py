"""The server's side of brokers without processes: how many attaches are under way at a time, and when marks are sent."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from cn.model.frames import Data, Direct, PositionMark
from cn.model.message import Message
from cn.model.network import Space
from cn.networks.local import LocalNetwork
from cn.networks.unicast import UNICAST
from prosem.brokers import control
from prosem.brokers.dispatcher import UNDER_WAY, Dispatcher
from prosem.brokers.member import Member, RemoteSink
from prosem.brokers.protocol import WITH_PARTS
from prosem.delivery.edge import Edge
from prosem.engine import commands as c
from prosem.runtime.metrics import Metrics
from prosem.runtime.slices import complete
from prosem.types.base import Bound, NetworkPlace, Part
from prosem.values.access import WHOLE
from prosem.values.errors import BusyError, ConflictError
from prosem.values.model import Statement
from tests.types.test_join import form as join_form

SPACE = Space(1, 1, True)


class Order:
    """In the place of the engine: takes commands, and answers them on request."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.open: list[Future[Any]] = []
        self.is_busy = False

    def submit(self, command: c.Command) -> Future[Any]:
        assert isinstance(command, c.Attach)
        if self.is_busy:
            raise BusyError("too much waits")
        self.taken.append(command.id)
        self.open.append(Future())
        return self.open[-1]

    def answer(self) -> None:
        answered, self.open = self.open, []
        for future in answered:
            future.set_result(None)


def made() -> tuple[Dispatcher, Order, Member, list[object]]:
    sent: list[object] = []
    order = Order()
    replay, orphan = lambda stream, frame: None, lambda sid: None
    dispatcher = Dispatcher(
        Edge(Metrics(), LocalNetwork, replay, orphan),
        UNICAST.root("server", {}),
        lambda to, frame, data: sent.append(frame),
        100,
        order.submit,
        replay,
        orphan,
        lambda: None,
    )
    member = Member("one", "one-1", "http://one", 1 << 20, "server")
    dispatcher.join(member)
    return dispatcher, order, member, sent


def ask(dispatcher: Dispatcher, member: Member, number: int) -> None:
    dispatcher.take(member, control.attach(number, c.Attach(str(number), 5, None, number, WHOLE)))


def test_streams_that_come_back_together_take_turns() -> None:
    dispatcher, order, member, _ = made()
    number = 3 * UNDER_WAY + 7
    for at in range(number):
        ask(dispatcher, member, at)
    while order.open:
        assert len(order.open) <= UNDER_WAY
        order.answer()
    assert order.taken == [str(at) for at in range(number)]


def test_who_is_gone_is_not_attached() -> None:
    dispatcher, order, member, _ = made()
    for at in range(UNDER_WAY + 10):
        ask(dispatcher, member, at)
    assert dispatcher.drop(member) == [member]
    other = Member("two", "two-1", "http://two", 1 << 20, "server")
    dispatcher.join(other)
    ask(dispatcher, other, 1)
    order.answer()
    assert order.taken == [*(str(at) for at in range(UNDER_WAY)), "1"]


async def test_a_busy_engine_refuses() -> None:
    dispatcher, order, member, sent = made()
    order.is_busy = True
    ask(dispatcher, member, 1)
    order.is_busy = False
    ask(dispatcher, member, 2)
    assert order.taken == ["2"]
    (refused,) = [frame for frame in sent if isinstance(frame, Direct)]
    notice = control.read_notice(refused.body)
    assert isinstance(notice, control.Refused)
    assert (notice.token, notice.code) == (1, BusyError.code)


async def test_a_broker_that_is_too_old_for_parts_is_refused() -> None:
    """It would host the subscription where no message comes."""
    dispatcher, _, member, sent = made()
    form = join_form("SELECT * FROM r JOIN s USING (b) JOIN t USING (d)")
    statement = Statement(1, form.query.sql, None)
    parts = (Part(1, Space(8, 1, True), (0,)), Part(2, Space(9, 1, True), (0,)))
    bound = Bound(b"", (3,))

    def hosted(token: int) -> c.Hosted:
        sink = RemoteSink(member)
        return c.Hosted(
            *(7, "seven", sink, form, SPACE, bound, 5, None, 1, b"", True, token, None, statement),
            parts=parts,
        )

    member.protocol = WITH_PARTS - 1
    complete(dispatcher.release([hosted(1)], 5))
    (refused,) = [control.read_notice(frame.body) for frame in sent if isinstance(frame, Direct)]
    assert isinstance(refused, control.Refused)
    assert (refused.token, refused.code) == (1, ConflictError.code)
    assert not dispatcher.hosts(7)
    member.protocol = WITH_PARTS
    sent.clear()
    complete(dispatcher.release([hosted(2)], 6))
    notices = [control.read_notice(frame.body) for frame in sent if isinstance(frame, Direct)]
    assert [one.parts for one in notices if isinstance(one, control.Hosted)] == [parts]
    for part in parts:  # messages of a part name its subscriptions by their ids there
        assert dispatcher._place_of(part.id(7)) == NetworkPlace(part.space, part.id(7), b"", (3,))
    assert dispatcher._place_of(parts[0].id(8)) is None


def test_no_mark_comes_between_the_messages_of_an_event() -> None:
    """A broker applies what came before a mark: of half an event's messages it would make a change of their own."""
    dispatcher, _, member, sent = made()
    for sid in (1, 2):
        dispatcher.post(dispatcher.root.place(member.node, SPACE, sid, b"", (sid,)))
        dispatcher._hosts[sid] = [member]
    del sent[:]
    messages: list[c.Frame] = [Message(1, part, SPACE.id, "change", targets=(1 + part,)) for part in (0, 1)]
    for number, _ in enumerate(dispatcher.release(messages, 1)):
        dispatcher.join(Member("later", f"later-{number}", "http://later", 1 << 20, "server"))
    kinds = [type(frame) for frame in sent if isinstance(frame, Data | PositionMark)]
    first = kinds.index(PositionMark)
    assert kinds[:first] == [Data, Data]
