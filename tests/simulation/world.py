"""One run of a plan: servers, brokers, database, NATS and clients on a virtual clock, until everything has settled."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Iterator
from contextvars import Context
from dataclasses import dataclass, replace
from typing import Any

from prosem.engine import commands as c
from prosem.engine.views import ViewBuild
from prosem.language.parse import parse
from prosem.values.errors import (
    BusyError,
    ConflictError,
    NotFoundError,
    ProsemError,
    RefusedError,
    UnknownOutcomeError,
)
from prosem.values.wire import decode, encode
from tests.simulation.brokers import Broker, simulated_brokers
from tests.simulation.judge import Patched, Read, Record, Request, judge
from tests.simulation.listener import Listener
from tests.simulation.machine import StuckError, VirtualLoop, virtual_time
from tests.simulation.nats import Nats, simulated_nats
from tests.simulation.plan import POISON, QUERIES, TABLES, VIEWS, Plan, Query
from tests.simulation.postgres import Database
from tests.simulation.server import Server, simulated_database

SETTLE_S = 180.0  # within which everything must have arrived, once all faults are over
LOOK_S = 0.25
LOST = object()  # the connection was lost before the answer
FAULTS = logging.getLogger("prosem")


@dataclass
class Verdict:
    problems: list[str]
    steps: int
    """callbacks that were carried out"""
    last_seq: int


class World:
    def __init__(self, plan: Plan, loop: VirtualLoop) -> None:
        self.plan, self.loop = plan, loop
        self.chance = random.Random(plan.seed ^ 0x5EED)
        self.record = Record()
        self.database = Database(loop, self.chance, lambda table, row: table == "t" and row[2] == POISON)
        self.nats = Nats(loop, self.chance) if plan.brokers else None
        self.servers: list[Server | None] = [None] * plan.servers
        self.brokers: list[Broker | None] = [None] * plan.brokers
        self.ended: list[Any] = []  # kept until the run is over
        self._is_over = False
        self.listeners = [
            Listener(loop, random.Random(plan.seed + at), self._endpoints, self._retained) for at in range(3)
        ]
        self._open: set[asyncio.Task[None]] = set()
        self.acknowledged = 0
        self._tasks: list[asyncio.Task[None]] = []

    # -- processes -----------------------------------------------------------------------------------------------
    def _start_server(self, at: int) -> None:
        if self._is_over:
            return
        made = Server(
            self.loop,
            f"server-{at}",
            self.database,
            nats=f"nats://server-{at}" if self.nats is not None else "",
            network=self.plan.network,
            retention=self.plan.retention,
        )
        self.servers[at] = made
        made.process.on_death.append(lambda: self._restart(self.servers, at, self._start_server))

    def _start_broker(self, at: int) -> None:
        if self._is_over:
            return
        made = Broker(self.loop, f"broker-{at}", self)
        self.brokers[at] = made
        made.process.on_death.append(lambda: self._restart(self.brokers, at, self._start_broker))

    def _restart(self, some: list[Any], at: int, start: Any) -> None:
        self.ended.append(some[at])
        some[at] = None
        self.loop.call_later(self.chance.uniform(0.1, 3.0), start, at, context=Context())

    def primary(self) -> Server | None:
        """What a load balancer chooses: a server that says that it is ready."""
        ready = [
            server
            for server in self.servers
            if server is not None
            and server.pipeline is not None
            and server.pipeline.ready
            and server.writer is not None
            and server.writer.session.is_proven
        ]
        return self.chance.choice(ready) if ready else None

    def _endpoints(self) -> list[Any]:
        brokers = [broker for broker in self.brokers if broker is not None]
        if brokers and self.chance.random() < 0.8:
            return brokers
        return [server for server in self.servers if server is not None and server.edge is not None]

    def _retained(self) -> int:
        return self.database.data.retained_after

    # -- requests ------------------------------------------------------------------------------------------------
    async def call(self, command: Any, server: Server | None = None) -> Any:
        """The answer of a server, or its error; LOST if the connection was lost before."""
        server = server or self.primary()
        await asyncio.sleep(self.chance.uniform(0.0, 0.01))
        if server is None or not server.process.is_alive:
            return BusyError("no server answers")
        answered = self.loop.create_future()

        def settle(what: Any) -> None:
            if not answered.done():
                answered.set_result(what)

        def reply(what: Any) -> None:
            if isinstance(what, UnknownOutcomeError):
                what = LOST
            elif isinstance(what, BaseException) and not isinstance(what, ProsemError):
                self.record.problems.append(f"a command failed: {what!r}")
            elif type(what) is ProsemError:
                self.record.problems.append(f"a command was answered 500: {what}")
            delay_s = self.chance.uniform(0.0, 0.01)
            self.loop.call_later(delay_s, settle, what, context=Context())

        def serve() -> None:
            try:
                future = server.submit(command)
            except ProsemError as error:
                reply(error)
            else:
                future.add_done_callback(lambda done: reply(done.exception() or done.result()))

        server.process.on_death.append(lambda: self.loop.call_later(0.02, settle, LOST, context=Context()))
        server.process.call(serve)
        return await answered

    async def insist(self, command: Any) -> Any:
        """Until there is an answer that is not a 503."""
        while True:
            answer = await self.call(command)
            if answer is not LOST and not isinstance(answer, BusyError):
                return answer
            await asyncio.sleep(self.chance.uniform(0.1, 0.5))

    def publish(self, events: list[dict[str, Any]]) -> None:
        self._begin(self._publish(events))

    async def _publish(self, events: list[dict[str, Any]]) -> Request:
        request = Request(events)
        self.record.requests.append(request)
        answer = await self.call(c.Transact([_event(event) for event in events]))
        if isinstance(answer, ProsemError):
            request.outcome, request.answer = "refused", answer
            self._judge_refusal(request, answer)
        elif answer is not LOST:
            request.outcome, request.answer = "acknowledged", answer
            self.acknowledged = max(self.acknowledged, answer["last_seq"])
        return request

    def _judge_refusal(self, request: Request, answer: ProsemError) -> None:
        """Without a fault of the store a request is refused for its own data alone."""
        is_poisoned = any(event["row"].get("y") == POISON for event in request.events)
        if isinstance(answer, RefusedError) and not is_poisoned:
            self.record.problems.append(f"a request was refused for the data of another: {answer}")
        if self.plan.is_calm and not isinstance(answer, ConflictError | NotFoundError | RefusedError):
            self.record.problems.append(f"a request was answered {answer!r} without a fault")

    def subscribe(self, id: str, query: int, params: dict[str, Any]) -> None:
        self.record.queries[id] = QUERIES[query]
        self._begin(self._subscribe(id, QUERIES[query], params))

    async def _subscribe(self, id: str, query: Query, params: dict[str, Any]) -> None:
        if query.view:
            await self._define(query.view)
        parsed = replace(parse(query.sql), per=query.per)
        answer = await self.insist(c.Subscribe(parsed, query.notify, [(id, params)]))
        if isinstance(answer, ConflictError):
            return  # a request whose answer was lost had made it
        if isinstance(answer, ProsemError):
            self.record.problems.append(f"the subscription {query.sql} was refused: {answer!r}")
        else:
            self.record.created[id] = answer["seq"], _travelled(answer["result"])

    async def _define(self, name: str) -> None:
        """As the route of views does: built beside the engine, then put into place. Repeated until the view is there."""
        while True:
            server = self.primary()
            prepared = await self.call(c.PrepareView(name, VIEWS[name]), server)
            if isinstance(prepared, c.PreparedView):
                if prepared.build is None or await self._build(prepared.build, server):
                    return
            elif prepared is not LOST and not isinstance(prepared, BusyError | ConflictError):
                self.record.problems.append(f"the view {name} was refused: {prepared!r}")
                return
            await asyncio.sleep(self.chance.uniform(0.1, 0.5))

    async def _build(self, build: ViewBuild, server: Server | None) -> bool:
        """Whether the view is known to be there."""
        await asyncio.sleep(self.chance.choice((0.0, 0.02, 0.5)))  # events are processed meanwhile
        build.fill()
        build.catch_up()
        installed = await self.call(c.InstallView(build), server)
        build.is_abandoned = installed is LOST or isinstance(installed, ProsemError)
        return not build.is_abandoned

    def listen(self, id: str, listener: int) -> None:
        if id in self.record.queries:
            self.listeners[listener].listen(id, self.record.queries[id])

    def patch(self, id: str, params: dict[str, Any]) -> None:
        self._begin(self._patch(c.Patch(id, params)))

    def suspend(self, id: str, active: bool) -> None:
        self._begin(self._patch(c.Patch(id, active=active)))

    async def _patch(self, command: c.Patch) -> None:
        answer = await self.call(command)
        if isinstance(answer, dict):
            result = _travelled(answer["result"])
            self.record.patches.append(Patched(command.id, answer["seq"], result))

    def read(self, id: str) -> None:
        self._begin(self._read(id))

    async def _read(self, id: str) -> None:
        known = self.acknowledged
        servers = [server for server in self.servers if server is not None]
        answer = await self.call(c.Result(id), self.chance.choice(servers) if servers else None)
        if isinstance(answer, dict):
            self.record.reads.append(Read(id, known, answer["seq"], _travelled(answer["result"])))

    def _begin(self, work: Any) -> None:
        task = self.loop.create_task(work, context=Context())
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    # -- faults of servers and their database --------------------------------------------------------------------
    def _server(self, at: int) -> Server | None:
        return self.servers[at % len(self.servers)]

    def kill(self, server: int) -> None:
        if (found := self._server(server)) is not None:
            found.process.kill()

    def kill_in(self, server: int, steps: int) -> None:
        """After so many steps of whatever it does then."""
        if (found := self._server(server)) is not None:
            found.process.countdown = steps

    def close(self, server: int) -> None:
        if (found := self._server(server)) is not None:
            found.process.call(found.close)

    def close_failing(self, server: int, how: str) -> None:
        """SIGTERM in a commit that fails."""
        self.database.faults.append(how)
        self.database.at_commit = lambda: self.close(server)

    def stop_process(self, server: int, for_s: float) -> None:
        if (found := self._server(server)) is not None:
            found.process.stop(for_s)

    def fail_commit(self, how: str) -> None:
        self.database.faults.append(how)

    def terminate(self, server: int) -> None:
        """The operator ends the sessions of a server: pg_terminate_backend."""
        if (found := self._server(server)) is not None:
            for session in [one for one in self.database.sessions if one.process is found.process]:
                session.end()

    def cut_database(self, server: int, for_s: float) -> None:
        """No packet passes between a server and the database; that notices by its keepalives."""
        name = f"server-{server % len(self.servers)}"
        self.database.cut[name] = self.loop.now + for_s
        found = self._server(server)
        if found is not None:
            for session in [one for one in self.database.sessions if one.process is found.process]:
                self.loop.call_later(self.chance.uniform(2.0, 8.0), session.end, context=Context())

    def restart_database(self, for_s: float) -> None:
        self.database.restart(for_s)

    def fill_disk(self, for_s: float) -> None:
        self.database.full_until = self.loop.now + for_s

    def jump(self, for_s: float) -> None:
        """The machine was suspended."""
        self.loop.now += for_s

    # -- faults of clients and brokers ---------------------------------------------------------------------------
    def stall(self, listener: int, for_s: float) -> None:
        self.listeners[listener].stalled_until = self.loop.now + for_s

    def hang_up(self, listener: int) -> None:
        self.listeners[listener].hang_up()

    def kill_broker(self, broker: int) -> None:
        if (found := self._broker(broker)) is not None:
            found.process.kill()

    def _broker(self, at: int) -> Broker | None:
        return self.brokers[at % len(self.brokers)] if self.brokers else None

    def fail_packet(self, broker: int) -> None:
        """The next packet meets a fault of the broker."""
        if (found := self._broker(broker)) is not None:
            found.fail_next()

    def cut_nats(self, node: int, for_s: float) -> None:
        names = [f"broker-{at}" for at in range(len(self.brokers))] + ["server-0"]
        if self.nats is not None:
            self.nats.cut(names[node % len(names)], for_s)

    def lose_packets(self, for_s: float) -> None:
        if self.nats is not None:
            self.nats.lossy_until = self.loop.now + for_s

    def drop_consumers(self) -> None:
        if self.nats is not None:
            self.nats.drop_consumers()

    def drop_stream(self) -> None:
        if self.nats is not None:
            self.nats.drop_streams()

    def restart_nats(self, for_s: float) -> None:
        if self.nats is not None:
            self.nats.restart(for_s)

    # -- a run ---------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        for at in range(len(self.servers)):
            self._start_server(at)
        for at in range(len(self.brokers)):
            self._start_broker(at)
        for table in TABLES.values():
            await self.insist(c.CreateTable(table))
        start = self.loop.now
        for step in self.plan.steps:
            await asyncio.sleep(max(0.0, start + step.at - self.loop.now))
            getattr(self, step.kind)(**step.args)
        await asyncio.sleep(1.0)
        self._heal()
        await self._settle()
        self._is_over = True
        for listener in self.listeners:
            listener.task.cancel()
        for task in [listener.task for listener in self.listeners] + [*self._open]:
            task.cancel()
        await asyncio.sleep(0)

    def _heal(self) -> None:
        """From here on nothing fails."""
        database, now = self.database, self.loop.now
        database.cut, database.faults, database.full_until, database.at_commit = {}, [], now, None
        database.down_until = min(database.down_until, now)
        if self.nats is not None:
            self.nats.heal()
        for process in [one.process for one in (*self.servers, *self.brokers) if one is not None]:
            process.stopped_until, process.countdown = now, None
        for broker in self.brokers:
            if broker is not None:
                broker.heal()
        for listener in self.listeners:
            listener.stalled_until = now

    async def _settle(self) -> None:
        """One more event of each table, and all subscribers have come as far."""
        deadline = self.loop.now + SETTLE_S
        last = 0
        tag = 1_000_000
        while not last:
            tag += 2
            request = await self._publish(
                [
                    {"table": "t", "op": "upsert", "row": {"k": 0, "x": 5, "y": 5, "tag": tag}},
                    {"table": "u", "op": "upsert", "row": {"k": 0, "x": 5, "z": 5, "tag": tag + 1}},
                ]
            )
            last = request.answer["last_seq"] if request.outcome == "acknowledged" else 0
            if self.loop.now > deadline:
                self.record.problems.append("no server takes a request, long after the last fault")
                return
            await asyncio.sleep(LOOK_S)
        while self._open or not all(listener.is_at(last) for listener in self.listeners):
            if self.loop.now > deadline:
                self._report_hang(last)
                return
            await asyncio.sleep(LOOK_S)

    def _report_hang(self, last: int) -> None:
        if self._open:
            self.record.problems.append(f"{len(self._open)} requests are never answered")
        for at, listener in enumerate(self.listeners):
            if not listener.is_at(last):
                self.record.problems.append(
                    f"listener {at} has come to {listener.progress}, not to {last}; {listener.problems}"
                )

    def verdict(self) -> Verdict:
        for listener in self.listeners:
            self.record.attached += listener.attached
        problems = [*self.loop.unhandled, *judge(self.record, self.database.data)]
        return Verdict(problems, self.loop.steps, self.database.data.last_seq)


def _event(event: dict[str, Any]) -> dict[str, Any]:
    row = event["row"]
    if event["op"] == "delete":
        return {"table": event["table"], "op": "delete", "key": {"k": row["k"]}}
    if event["op"] == "update":
        changed = {name: value for name, value in row.items() if name != "k"}
        return {"table": event["table"], "op": "update", "key": {"k": row["k"]}, "set": changed}
    return event


def _travelled(result: Any) -> Any:
    return decode(encode(result))


class _Faults(logging.Handler):
    """What the product says of faults of its own, which no run may cause."""

    def __init__(self, record: Record) -> None:
        super().__init__(logging.ERROR)
        self._record = record

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and "injected" not in str(record.exc_info[1]):
            self._record.problems.append(f"logged: {record.getMessage()}: {record.exc_info[1]!r}")


@contextlib.contextmanager
def _watched(record: Record) -> Iterator[None]:
    handler, level, propagate = _Faults(record), FAULTS.level, FAULTS.propagate
    FAULTS.addHandler(handler)
    FAULTS.setLevel(logging.ERROR)
    FAULTS.propagate = False
    try:
        yield
    finally:
        FAULTS.removeHandler(handler)
        FAULTS.setLevel(level)
        FAULTS.propagate = propagate


def run(plan: Plan) -> Verdict:
    """Carry a plan out, and judge it. The same plan gives the same verdict."""
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    try:
        with virtual_time(loop, plan.seed):
            world = World(plan, loop)
            with (
                simulated_database(world.database),
                simulated_nats(world.nats),
                simulated_brokers(),
                _watched(world.record),
            ):
                try:
                    loop.run_until_complete(loop.create_task(world.run(), context=Context()))
                except StuckError as error:
                    world.record.problems.append(str(error))
                return world.verdict()
    finally:
        asyncio.set_event_loop(None)
        loop.end()
