"""`prosem demo`: a stock market that moves, some dozens of subscriptions, and their answers live in the terminal."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from prosem_client import AsyncClient, Change, ProsemError
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from api.commands.process import free_port, start_server, wait_ready
from api.server.settings import Settings
from prosem.runtime.supervise import end

SECTORS = ("tech", "bank", "energy", "health")
COLUMNS = {
    "symbol": "text",
    "sector": "text",
    "risk": "integer",
    "per": "double precision",
    "price": "numeric(12,2)",
}
REVIEWS = {"id": "integer", "symbol": "text", "author": "text", "stars": "integer"}
AUTHORS = ("ada", "bo", "cleo", "dan", "eve")
STOCKS, OPINIONS = 300, 400
# query, parameters, and when to notify
SHOWN: list[tuple[Any, ...]] = [
    ("SELECT MIN(per) FROM stocks WHERE risk BETWEEN 20 AND 40", None),
    ("SELECT MAX(price) FROM stocks WHERE risk <= 15", None),
    ("SELECT MIN(per) FROM stocks WHERE risk BETWEEN :lo AND :hi AND sector = 'tech'", {"lo": 10, "hi": 60}),
    ("SELECT AVG(per) FROM stocks WHERE sector = 'health' AND risk < 50", None),
    ("SELECT COUNT(*) FROM stocks WHERE per BETWEEN 8 AND 9 AND price > 100", None),
    ("SELECT DISTINCT sector FROM stocks WHERE per < 4", None),
    ("SELECT MAX(per) FROM stocks WHERE sector = 'bank'", None),
    ("SELECT MIN(price) FROM stocks", None),
    ("SELECT symbol, price FROM stocks WHERE per < 5 AND risk > 80", None),
    ("SELECT * FROM stocks WHERE symbol LIKE 'A%' AND price > 150", None),
    ("SELECT price FROM stocks WHERE symbol = 'VS'", None, {"percent": 3}),
    ("SELECT * FROM stocks JOIN reviews USING (symbol) WHERE stars = 5 AND price > 150", None),
]  # fmt: skip
CROWD = 1000  # subscriptions of each query, without a stream


@dataclass
class Line:
    """One subscription as it is shown."""

    sql: str
    answer: str = ""
    changes: int = 0
    at: float = 0.0


def demo(settings: Settings, seconds: float | None, rate: float) -> int:
    """Start a server of our own, let the market move until Ctrl-C, and stop everything."""
    console = Console()
    if not _is_free(settings.port):
        settings = replace(settings, port=free_port())
    folder = settings.folder / "demo"
    folder.mkdir(parents=True, exist_ok=True)
    url = f"http://127.0.0.1:{settings.port}"
    _say(console, f"Console: [link]{url}/[/link] (in a few seconds)")
    _say(console, f"Starting a server with its own PostgreSQL in [cyan]{folder}[/cyan] …")
    process = start_server(settings.port, folder, folder / "server.log")
    try:
        if not wait_ready(url, process):
            _say(console, f"[red]The server did not start.[/red] Its log: {folder / 'server.log'}")
            return 1
        _say(console, f"Ready. API documentation: [link]{url}/docs[/link]")
        example = "SELECT MIN(per) FROM stocks WHERE risk < 50"
        _say(console, f'In another terminal: [green]prosem subscribe --url {url} "{example}"[/green]')
        asyncio.run(_market(url, seconds, rate, console))
    except KeyboardInterrupt:
        pass
    finally:
        console.print("Stopping …")
        process.send_signal(signal.SIGTERM)
        process.wait(40)
    return 0


def _say(console: Console, text: str) -> None:
    """A line that is not wrapped: an address can be copied, also from a file."""
    console.print(text, soft_wrap=True, highlight=False)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


# -- the market ----------------------------------------------------------------------------------------------------
async def _market(url: str, seconds: float | None, rate: float, console: Console) -> None:
    async with AsyncClient(url) as client:
        await client.create_table("stocks", COLUMNS, ["symbol"])
        await client.create_table("reviews", REVIEWS, ["id"])
        market = Market(random.Random(7))
        await client.publish("stocks", [{"op": "upsert", "row": row} for row in market.rows.values()])
        await client.publish("reviews", [market.review(number) for number in range(OPINIONS)])
        lines = [Line(_shown(*shown)) for shown in SHOWN]
        watchers = [
            asyncio.create_task(_watch(client, line, console, *shown))
            for line, shown in zip(lines, SHOWN, strict=True)
        ]
        await _crowd(client, market)
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        started = time.monotonic()
        moving = asyncio.create_task(_move(client, market, rate))
        try:
            if console.is_terminal:
                with Live(console=console, auto_refresh=False) as live:
                    while not stop.is_set() and (seconds is None or time.monotonic() - started < seconds):
                        picture = _picture(lines, market.events, time.monotonic() - started, console.height)
                        live.update(picture, refresh=True)
                        await asyncio.sleep(0.25)
            else:
                try:
                    async with asyncio.timeout(seconds):
                        await stop.wait()
                except TimeoutError:
                    pass
                console.print(_picture(lines, market.events, time.monotonic() - started))
        finally:
            await end(moving, *watchers)


async def _crowd(client: AsyncClient, market: Market) -> None:
    """Subscriptions of the queries that the console's first page shows, each with parameters of its own."""
    for name, (sql, params) in CROWDS.items():
        rows = [{"id": f"crowd-{name}-{number}", "params": params(market)} for number in range(CROWD)]
        try:
            await client.subscribe_many(sql, rows)
        except ProsemError as error:
            if error.status != 409:  # else they are there since an earlier demo
                raise


class Market:
    """Prices that walk at random, with a crash or a rally now and then."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.events = 0
        self.rows: dict[str, dict[str, Any]] = {}
        while len(self.rows) < STOCKS:
            symbol = "".join(chance.choices("ABCDEFGHIKLMNOPRSTUVWX", k=chance.choice([2, 3, 3, 4])))
            self.rows[symbol] = {
                "symbol": symbol,
                "sector": chance.choice(SECTORS),
                "risk": chance.randint(1, 100),
                "per": round(chance.lognormvariate(2.6, 0.5), 1),
                "price": f"{chance.lognormvariate(4, 0.7):.2f}",
            }

    def risk(self, least: int = 0, most: int = 85) -> int:
        return self._chance.randint(least, most)

    def sector(self) -> str:
        return self._chance.choice(SECTORS)

    def ranges(self) -> dict[str, Any]:
        low = self.risk()
        return {"lo": low, "hi": low + self.risk(3, 40)}

    def review(self, number: int) -> dict[str, Any]:
        """A rating of a stock, the first or another one."""
        row = {
            "id": number,
            "symbol": self._chance.choice(list(self.rows)),
            "author": self._chance.choice(AUTHORS),
            "stars": self._chance.randint(1, 5),
        }
        return {"op": "upsert", "row": row}

    def opinion(self) -> dict[str, Any]:
        self.events += 1
        return self.review(self._chance.randrange(OPINIONS))

    def step(self) -> dict[str, Any]:
        symbol = self._chance.choice(list(self.rows))
        row = self.rows[symbol]
        factor = (
            self._chance.choice([0.5, 1.9]) if self._chance.random() < 0.02 else self._chance.gauss(1, 0.02)
        )
        row["per"] = round(min(90.0, max(1.0, row["per"] * factor)), 1)
        row["price"] = f"{min(900.0, max(1.0, float(row['price']) * factor)):.2f}"
        self.events += 1
        return {"op": "update", "key": {"symbol": symbol}, "set": {"per": row["per"], "price": row["price"]}}


CROWDS: dict[str, tuple[str, Callable[[Market], dict[str, Any]]]] = {
    "cheapest": ("SELECT MIN(per) FROM stocks WHERE risk BETWEEN :lo AND :hi", Market.ranges),
    "average": (
        "SELECT AVG(price) FROM stocks WHERE sector = :sector AND risk < :most",
        lambda market: {"sector": market.sector(), "most": market.risk(10, 100)},
    ),
    "dearest": (
        "SELECT symbol, price FROM stocks WHERE risk BETWEEN :lo AND :hi ORDER BY price DESC LIMIT 5",
        Market.ranges,
    ),
    "sectors": (
        "SELECT sector, COUNT(*) AS n, MIN(per) AS low FROM stocks WHERE risk BETWEEN :lo AND :hi GROUP BY sector",
        Market.ranges,
    ),
}


async def _move(client: AsyncClient, market: Market, rate: float) -> None:
    async with client.publisher() as publisher:
        while True:
            count = max(1, round(rate / 10))
            await publisher.publish("stocks", [market.step() for _ in range(count)])
            await publisher.publish("reviews", [market.opinion()])
            await asyncio.sleep(count / rate)


async def _watch(
    client: AsyncClient,
    line: Line,
    console: Console,
    sql: str,
    params: dict[str, Any] | None,
    notify: dict[str, Any] | None = None,
) -> None:
    async for change in client.subscribe(sql, params, notify=notify, durable=False, snapshot=True):
        line.answer = _answer(change)
        if not change.snapshot:
            line.changes += 1
            line.at = time.monotonic()
            if not console.is_terminal and line.changes <= 3:
                _say(console, f"seq {change.seq}: {line.sql}\n    → {line.answer}")


def _shown(sql: str, params: dict[str, Any] | None, notify: dict[str, Any] | None = None) -> str:
    for name, value in (params or {}).items():
        sql = sql.replace(f":{name}", repr(value))
    return sql + (f"  — when it moved {notify['percent']} %" if notify else "")


def _answer(change: Change) -> str:
    result = change.result or {}
    if "rows" in result:
        rows = result["rows"]
        names = ", ".join(str(row.get("stocks", row)["symbol"]) for row in rows[:6])
        return f"{len(rows)} rows: {names}{' …' if len(rows) > 6 else ''}" if rows else "no rows"
    if "values" in result:
        return ", ".join(map(str, result["values"])) or "none"
    row = result.get("row")
    return f"{result.get('value')}" + (f"  ({row['symbol']})" if row else "")


def _picture(lines: list[Line], events: int, seconds: float, height: int | None = None) -> Table:
    """A subscription has the same number of lines all the time, and no more of them are drawn than a terminal of this
    height shows: the table stays where it is.
    """
    table = Table(
        title=f"{events:,} events in {seconds:.0f} s — Ctrl-C ends it", title_justify="left", expand=True
    )
    table.add_column("subscription", ratio=3, overflow="fold")
    table.add_column("answer now", ratio=2, no_wrap=True, overflow="ellipsis")
    table.add_column("changes", justify="right")
    for line in lines if height is None else lines[: max(1, (height - 6) // 2)]:
        is_fresh = time.monotonic() - line.at < 0.6 and line.changes
        table.add_row(
            line.sql, Text(line.answer, style="bold black on green" if is_fresh else ""), str(line.changes)
        )
    return table
