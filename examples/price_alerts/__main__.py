"""Price alerts: `python -m examples.price_alerts`."""

from __future__ import annotations

import argparse
import asyncio
import csv
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
from prosem_client import AsyncClient

from examples.price_alerts.market import SYMBOLS, Market
from examples.price_alerts.receiver import Receiver
from examples.running import own_folder, own_server, run, say

HERE = Path(__file__).parent
PRICE = "SELECT price FROM prices WHERE symbol = :symbol"
Alert = dict[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.price_alerts", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=0, help="end after so many seconds (default: at Ctrl-C)"
    )
    parser.add_argument("--rate", type=float, default=20, help="steps of the market per second")
    parser.add_argument(
        "--backtest",
        type=float,
        default=0,
        metavar="ALERTS_PER_HOUR",
        help="after --seconds, find the percentage with so many alerts per hour for each symbol (needs Spark)",
    )
    options = parser.parse_args()
    with own_folder() as folder:
        with own_server(folder) as url:
            run(lambda: watch(url, options.rate), options.seconds)
            if options.backtest:
                refresh(folder)
        if options.backtest:
            backtest(folder, options.backtest)


async def watch(url: str, rate: float) -> None:
    """Move the market; alerts arrive at the receiver."""
    with open(HERE / "alerts.csv", encoding="utf-8") as file:
        alerts = {f"{row['user']}-{row['symbol']}": row for row in csv.DictReader(file)}

    def notify(id: str, change: dict[str, Any]) -> None:
        alert = alerts[id]
        moved = 100 * (float(change["value"]) / float(change["previous"]) - 1)
        say(
            f"{alert['user']}: {alert['symbol']} moved {moved:+.1f} % (alert at {alert['percent']} %):"
            f" {change['previous']} → {change['value']}"
        )

    secret = secrets.token_urlsafe(24)
    with Receiver(secret, notify) as receiver:
        async with AsyncClient(url) as client:
            market = Market()
            await client.create_table("prices", {"symbol": "text", "price": "numeric(12,2)"}, ["symbol"])
            await client.publish("prices", market.rows())
            await subscribe(client, alerts)
            await post_changes(url, list(alerts), receiver.url, secret)
            say(f"{len(alerts)} alerts, posted to {receiver.url}")
            await reject_forgery(receiver.url)
            async with client.publisher() as publisher:
                while True:
                    await publisher.publish("prices", market.step())
                    await asyncio.sleep(1 / rate)


async def subscribe(client: AsyncClient, alerts: dict[str, Alert]) -> None:
    """One durable subscription per alert. All are one template: the percentage is a parameter too."""
    rows = [
        {"id": id, "params": {"symbol": alert["symbol"], "percent": float(alert["percent"])}}
        for id, alert in alerts.items()
    ]
    await client.subscribe_many(PRICE, rows, notify={"percent": ":percent"})


async def post_changes(url: str, ids: list[str], address: str, secret: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as http:
        webhook = {"url": address, "subscriptions": ids, "secret": secret}
        (await http.post(f"{url}/v1/webhooks", json=webhook)).raise_for_status()


async def reject_forgery(address: str) -> None:
    """A request that the server has not signed changes nothing."""
    async with httpx.AsyncClient(trust_env=False) as http:
        forged = {"delivery": "x", "frames": [{"id": "ada-AUR", "change": {"value": "1", "previous": "2"}}]}
        signature = {"X-ProSem-Signature": "t=1,v1=" + 64 * "0"}
        answer = await http.post(address, json=forged, headers=signature)
    say(f"a forged request is answered {answer.status_code}")


# -- the backtest ----------------------------------------------------------------------------------------------------
def refresh(folder: Path) -> None:
    """Archive the event log of the running server."""
    _prosem("stats", "refresh", "--data-dir", str(folder / "data"))


def backtest(folder: Path, per_hour: float) -> None:
    """Which percentage would have made so many alerts? The server need not run for it."""
    population = folder / "symbols.csv"
    population.write_text("symbol\n" + "\n".join(SYMBOLS) + "\n", encoding="utf-8")
    _prosem(
        "backtest",
        PRICE,
        *("--params", str(population), "--notify", '{"percent": 1}', "--per-day", f"{24 * per_hour:g}"),
        *("--data-dir", str(folder / "data")),
    )


def _prosem(*arguments: str) -> None:
    say(f"$ prosem {' '.join(arguments[:2])} …")
    subprocess.run([sys.executable, "-m", "api.commands.cli", *arguments], check=True)


if __name__ == "__main__":
    main()
