"""A subscription under an update monitor: the server has a wider range, the user sees the exact one.

Parameters are told apart by where they stand: assigned (`_latest`), accepted (`_desired`), seen in the result
(`_shown`), and registered at the server (`_coverage`, which also says what the rows at hand suffice for). All four
are those of the registered text, where every end has a parameter of its own; `params` has those of the user.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from prosem_client.conditions import Condition
from prosem_client.coverage import Aim, Coverage
from prosem_client.errors import ConnectionLost, ProsemError
from prosem_client.feed import Frame
from prosem_client.held import HeldRows
from prosem_client.monitor import UpdateMonitor, Widening
from prosem_client.registration import Registration, registration
from prosem_client.subscription import Opening, Subscription
from prosem_client.values import Change, JsonObject, Result

CLOSING_S = 2.0  # for the last request of a subscription that is closed
AGAIN_S = 1.0  # until a request is repeated that may or may not have arrived


class MonitoredSubscription(Subscription):
    """The same to its user, but for the `seq` of a change that an assignment has made without the server:
    it is the seq of the change before it.

    Invariant: `result` is the answer of the query with `_shown` as of `seq`; every item leads from one
    result to the next. While it is open the server knows only the wider range, so it cannot be resumed by
    `seq`; `close()` gives the server the exact one.
    """

    def __init__(
        self,
        create: Callable[[str, JsonObject], Awaitable[Opening]],
        *arguments: Any,
        monitor: UpdateMonitor,
        condition: Condition,
        define: Callable[[str], Awaitable[JsonObject]],
        **named: Any,
    ) -> None:
        super().__init__(self._create_registered, *arguments, **named)
        self._create = create
        self._monitor = monitor
        self._condition = condition
        self._define = define
        self._registration = Registration("", (), frozenset())
        self._limits = self._registration.limits
        self._widening = Widening(monitor, self._limits)
        self._registering = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._must_send = self._is_calm = self._is_repeat = False
        self._looks_ahead = False
        self._owes_snapshot = False
        self._latest = self._desired = self._shown = Aim(0, {})
        self._position = -1  # the seq up to which the rows at hand are folded
        self._reached: str | None = None  # the timeline that it is of
        self._sent_at = 0.0
        self.updates = 0  # steps of the parameters that came into force
        self.patches = 0  # requests they took

    # -- opening and closing ---------------------------------------------------------------------------------
    async def _begin(self) -> None:
        if not self._limits.names:
            found = registration(self._condition, await self._define(self._condition.table))
            self._registration, self._limits = found, found.limits
            self._widening = Widening(self._monitor, found.limits)
        await super()._begin()

    async def _create_registered(self, values: JsonObject) -> Opening:
        began = await self._create(self._registration.sql, self._registration.exact(values))
        return began._replace(params=values)

    def _adopt(self, began: Opening) -> None:
        exact = self._registration.exact(began.params)
        self._coverage = Coverage(self._widening.covers, exact)
        self._latest = self._desired = self._shown = Aim(self._latest.number + 1, exact)
        self._position, self._reached = began.seq, began.timeline
        self._owes_snapshot = False
        super()._adopt(began)

    def _set_result(self, result: JsonObject | None) -> None:
        assert result is not None
        self._hold(result)
        self._result = self._held.result()

    def _hold(self, result: JsonObject) -> None:
        key, constants = self._opened().shape.key, self._limits.constants(self._shown.params)
        self._held = HeldRows(self._limits, key, result["rows"], constants)

    async def close(self) -> None:
        """Stop listening; a durable subscription stays at the server, with the exact range."""
        self._stop_timer()
        is_first = not self._is_closed
        await super().close()
        if not is_first or self._feed is None or self._is_renewable or self._is_deleted:
            return
        if self._coverage.is_unknown or self._coverage.at_server != self._desired.params:
            with contextlib.suppress(ProsemError, TimeoutError):
                async with asyncio.timeout(CLOSING_S):
                    await self._patch({"params": self._desired.params})

    # -- consuming -------------------------------------------------------------------------------------------
    async def _step(self) -> Change | None:
        feed = self._feed
        assert feed is not None
        self._arrive(self._position)
        if self._may_show_desired():
            self._show(self._desired)
        if self._coverage.holds(self._shown.params) and (item := self._told()):
            return item
        if self._arrive(feed.horizon):  # nothing more comes before it
            return None
        frame = feed.pop(hold=self._coverage.must_wait(self._shown.params))
        if frame is not None:
            return self._consume(frame)
        if not feed.is_wanted and not len(feed):  # all that was kept of an overflow is consumed
            self._stream.listen(feed)
        await feed.news()
        return None

    def _told(self) -> Change | None:
        """What the user is told of the rows at hand; None if nothing of it is new."""
        self._seq, self._timeline = self._position, self._reached
        change, is_snapshot = self._held.take(), self._owes_snapshot
        self._owes_snapshot = False
        if change is None and not is_snapshot:
            return None
        self._result = self._held.result()
        return self._item(None if is_snapshot else change, snapshot=is_snapshot)

    def _arrive(self, position: int) -> bool:
        """Put into force what takes effect up to there; whether anything does."""
        step = self._coverage.arrive(position)
        if step is None:
            return False
        assert step.seq is not None
        self._position = max(self._position, step.seq)
        if step.is_active:
            aim = self._desired if self._may_show_desired() else step.target
            if aim.number > self._shown.number:
                self._show(aim)
        return True

    def _may_show_desired(self) -> bool:
        is_new = self._desired.number > self._shown.number
        return is_new and self._is_active and self._coverage.will_hold(self._desired.params)

    def _show(self, aim: Aim) -> None:
        self._shown = aim
        self._held.show(self._limits.constants(aim.params))

    def _consume(self, frame: Frame) -> Change | None:
        """Fold it; the next step tells what the user sees of it."""
        self._position, self._reached = frame.seq, frame.timeline
        if frame.is_snapshot:
            self._hold(frame.payload)
            self._owes_snapshot = True
        else:
            seq, timeline = self._seq, self._timeline
            super()._consume(frame)
            self._seq, self._timeline = seq, timeline
        return None

    def _fold(self, change: JsonObject) -> None:
        self._held.apply(change)

    # -- assigning -------------------------------------------------------------------------------------------
    async def patch(self, **params: Any) -> Result:
        """Set parameters at the server; the new answer."""
        await self._ready()
        self._must_send = True
        return await super().patch(**params)

    def _set(self, name: str, value: Any) -> None:
        self._registration.exact({**self._updates.values, name: value})  # refused as the server would
        super()._set(name, value)
        if self._feed is not None and not self._looks_ahead:
            self._looks_ahead = True
            asyncio.get_running_loop().call_soon(self._look_ahead)

    def _look_ahead(self) -> None:
        """What was assigned in this tick need not wait for a request under way if that makes no difference."""
        self._looks_ahead = False
        try:
            aim = self._aim(self._registration.exact(self._updates.values))
        except ProsemError:
            return  # values that do not go together: the request that is due reports it
        self._widening.record(asyncio.get_running_loop().time(), aim.params)
        if self._is_active and self._coverage.will_hold(aim.params):
            self._desire(aim)

    def _aim(self, exact: JsonObject) -> Aim:
        """The parameters as last assigned, with their place in the order of all."""
        if exact != self._latest.params:
            self._latest = Aim(self._latest.number + 1, exact)
        return self._latest

    def _desire(self, aim: Aim) -> None:
        """These parameters are in force, or will be when the stream gets there."""
        if aim.number > self._desired.number:
            self.updates += 1
            self._desired = aim
        assert self._feed is not None
        self._feed.nudge()

    async def _register(self, values: JsonObject) -> Result | None:
        must_send, self._must_send = self._must_send, False
        exact = self._registration.exact(values)
        is_calm, self._is_calm = self._is_calm and exact == self._desired.params, False
        is_repeat, self._is_repeat = self._is_repeat, False
        aim = self._aim(exact)
        async with self._registering:
            now = asyncio.get_running_loop().time()
            if not is_calm and not is_repeat:
                self._widening.record(now, exact)
            wide = self._wanted(now, exact, must_send, is_calm)
            answer = None
            if wide is not None:
                try:
                    answer = await self._send(wide, aim)
                except ProsemError as error:
                    if isinstance(error, ConnectionLost):
                        self._later(AGAIN_S, "_is_repeat")
                    is_in_force = self._desired is aim and not must_send
                    if is_calm or is_repeat or is_in_force:  # the user need not care
                        return None
                    raise
            self._desire(aim)
            if self._coverage.at_server != exact:
                self._later(self._monitor.window_s, "_is_calm")
            else:
                self._stop_timer()
        if answer is None or not must_send:
            return answer
        rows = self._limits.select(answer.result["rows"], self._limits.constants(exact))
        return Result(answer.id, answer.seq, {"rows": rows})

    def _wanted(self, now: float, exact: JsonObject, must_send: bool, is_calm: bool) -> JsonObject | None:
        """The parameters to send, None if what the server has will do."""
        there = self._coverage.at_server
        if is_calm:
            return exact if self._coverage.is_unknown or there != exact else None
        if not must_send and not self._coverage.is_unknown and self._widening.covers(there, exact):
            is_due = now - self._sent_at >= self._monitor.window_s
            if not is_due or not self._widening.is_loose(now, there, exact):
                return None
        return self._widening.widen(now, exact)

    async def _send(self, wide: JsonObject, aim: Aim) -> Result:
        coverage, feed = self._coverage, self._feed
        assert feed is not None
        body: JsonObject = {"params": wide}
        if coverage.is_unknown:  # the request of unknown fate may have been one to suspend or resume
            body["active"] = self._is_active
        step = coverage.begin(wide, aim, self._is_active)
        self._sent_at = asyncio.get_running_loop().time()
        self.patches += 1
        try:
            answer = await self._patch(body)
        except ConnectionLost:
            raise  # it may have arrived: the step stays, with no known place
        except ProsemError:
            coverage.refuse(step)
            feed.nudge()
            raise
        step.seq = answer.seq
        self._stream.expect(feed, answer.seq)
        return answer

    async def _set_active(self, active: bool) -> None:
        await self._ready()
        async with self._registering:
            coverage, feed = self._coverage, self._feed
            assert feed is not None
            step = coverage.begin(coverage.at_server, self._desired, active)
            try:
                answer = await self._patch({"params": step.params, "active": active})
            except ConnectionLost:
                self._later(AGAIN_S, "_is_repeat")  # back to what it was
                raise
            except ProsemError:
                coverage.refuse(step)
                raise
            step.seq = answer.seq
            self._is_active = active
            self._stream.expect(feed, step.seq)
            feed.nudge()

    # -- the timer -------------------------------------------------------------------------------------------
    def _later(self, seconds: float, reason: str) -> None:
        """Go through the parameters again unless they are assigned before."""
        self._stop_timer()
        if not self._is_closed:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, self._again, reason)

    def _again(self, reason: str) -> None:
        setattr(self, reason, True)
        name, value = next(iter(self._updates.values.items()))
        self._updates.mark(name, value)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
