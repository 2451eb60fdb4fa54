"""Replay of subscriptions with marks: what they had been told before, and the changes from there on.

A form with marks knows what was told as of each mark only. What was told between the last mark and the first step of a
replay is looked up in the messages between them, backwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from prosem.delivery.replay_steps import ReplayedChanges, ReplayRequest, ReplayStep
from prosem.store.lookback import Lookback, LookbackPoint
from prosem.store.replay import HistoryRow
from prosem.types.base import MarkedForm
from prosem.values.model import PlaceMark

read_mark = msgspec.json.Decoder(PlaceMark).decode


class ReplayedMarks:
    """The marks of the subscriptions that one pass serves; a mark holds from its seq on, until the next one."""

    def __init__(self, history: Mapping[int, Sequence[HistoryRow]]) -> None:
        self._marks = {
            sid: [(entry[0], read_mark(entry[5])) for entry in entries if entry[5] is not None]
            for sid, entries in history.items()
        }
        self._looked_up: dict[int, ReplayRequest] = {}

    def lookback(
        self,
        requests: Mapping[int, Sequence[ReplayRequest]],
        steps: Mapping[int, Sequence[ReplayStep]],
        retained_after: int,
    ) -> Lookback:
        """What must be looked up before the end: what was told before the first step, where that is a message."""
        wanted: list[LookbackPoint] = []
        for sid, some in requests.items():
            for request in some:
                mine = request.steps(steps[sid])
                if not isinstance(request.stream.host.form, MarkedForm) or not mine or not mine[0].messages:
                    continue
                number = len(self._looked_up)
                self._looked_up[number] = request
                since, mark = self._last(sid, request.after)
                if mark.place is not None:
                    since = max(since, retained_after)
                    wanted.append(LookbackPoint(number, since, request.after, mark.topic, mark.place, sid))
        return Lookback(wanted)

    def _last(self, sid: int, upto: int) -> tuple[int, PlaceMark]:
        return [entry for entry in self._marks[sid] if entry[0] <= upto][-1]

    def retold(
        self,
        form: MarkedForm,
        steps: Sequence[ReplayStep],
        request: ReplayRequest,
        found: Mapping[int, bytes],
    ) -> ReplayedChanges:
        """The changes of a subscription: on from what it was told before; each mark says it again."""
        state, told = form.marked_state(self._told_before(request, found)), []
        for step in request.steps(steps):
            if step.messages:
                body, state = form.change(step.messages, step.bound, state)
                told.append((step.seq, body))
            elif step.mark is not None:
                state = form.marked_state(bytes(step.mark.told))
        return told

    def _told_before(self, request: ReplayRequest, found: Mapping[int, bytes]) -> bytes:
        for number, other in self._looked_up.items():
            if other is request and number in found:
                return found[number]
        return bytes(self._last(request.stream.host.sid, request.after)[1].told)
