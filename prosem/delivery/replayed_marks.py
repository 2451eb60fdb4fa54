"""What subscriptions with marks had been notified of before the first step of a replay.

A mark says it as of its own seq only. What was notified between the last mark and the first step is looked up in the
messages between them, backwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prosem.delivery.replay_steps import ReplayRequest, read_mark
from prosem.store.lookback import Lookback, LookbackPoint
from prosem.store.replay import HistoryRow
from prosem.types.base import ReplayStep
from prosem.values.model import PlaceMark

NOTHING = b"null"


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
        """What must be looked up: what was notified before the first step, where that is a message."""
        wanted: list[LookbackPoint] = []
        for sid, some in requests.items():
            for request in some:
                mine = request.steps(steps[sid])
                if not request.stream.host.form.replay.looks_back or not mine or not mine[0].messages:
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

    def notified_before(self, request: ReplayRequest, found: Mapping[int, bytes]) -> bytes:
        """As JSON: by what was looked up, else by the last mark."""
        if not request.stream.host.form.replay.looks_back:
            return NOTHING
        for number, other in self._looked_up.items():
            if other is request and number in found:
                return found[number]
        return bytes(self._last(request.stream.host.sid, request.after)[1].last_notified)
