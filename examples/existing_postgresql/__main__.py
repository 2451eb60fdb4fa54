"""An existing PostgreSQL: `python -m examples.existing_postgresql`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from prosem_client import AsyncClient

from examples.existing_postgresql.shop import TENANTS, Shop
from examples.running import STOP_S, own_folder, own_server, run, say
from prosem.store.embedded import EmbeddedPostgres

# Neither query names a tenant: the key decides which rows there are.
TOTALS = "SELECT status, COUNT(*) AS orders, SUM(total) AS total FROM orders GROUP BY status"
LARGE = "SELECT * FROM payments WHERE amount >= :least"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.existing_postgresql", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=0, help="end after so many seconds (default: at Ctrl-C)"
    )
    parser.add_argument(
        "--source", default="", help="postgresql://… of an empty database (default: one of its own)"
    )
    parser.add_argument("--rate", type=float, default=2, help="transactions of the shop per second")
    options = parser.parse_args()
    admin_key = secrets.token_urlsafe(24)
    with own_folder() as folder, existing(options.source, folder) as source:
        shop = Shop(source)
        with own_server(folder, "--admin-key", admin_key) as url, attached(source, url, admin_key, folder):
            run(lambda: watch(url, admin_key, shop, options.rate), options.seconds)
        shop.close()


@contextlib.contextmanager
def existing(given: str, folder: Path) -> Iterator[str]:
    """The address of the application's database."""
    if given:
        yield given
        return
    postgres = EmbeddedPostgres(folder / "shop")
    yield postgres.start()
    postgres.stop()


@contextlib.contextmanager
def attached(source: str, url: str, key: str, folder: Path) -> Iterator[None]:
    """`prosem attach` beside the server: every transaction of the source becomes one of ProSem."""
    command = ["attach", source, "--tables", "orders,payments", "--url", url, "--api-key", key]
    with open(folder / "attach.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "api.commands.cli", *command],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_S)


async def watch(url: str, admin_key: str, shop: Shop, rate: float) -> None:
    await tables_there(url, admin_key)
    async with contextlib.AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        for tenant in TENANTS[:2]:
            key = await key_for(url, admin_key, tenant)
            client = await stack.enter_async_context(AsyncClient(url, api_key=key))
            tasks.create_task(show_totals(client, tenant))
            tasks.create_task(show_payments(client, tenant))
        while True:
            await asyncio.sleep(1 / rate)
            tenant, rows = await asyncio.to_thread(shop.sell)
            say(f"the shop commits {rows} rows of {tenant}")


async def tables_there(url: str, admin_key: str) -> None:
    """Until the tables are copied."""
    async with AsyncClient(url, api_key=admin_key) as client:
        while not {"orders", "payments"} <= {table["name"] for table in await client.tables()}:
            await asyncio.sleep(0.1)


async def key_for(url: str, admin_key: str, tenant: str) -> str:
    """A key that sees the rows of one tenant of the application, whatever it asks."""
    rows = {"*": f"tenant = '{tenant}'"}
    wanted = {"name": f"dashboard of {tenant}", "roles": ["subscriber"], "rows": rows}
    async with httpx.AsyncClient(trust_env=False, headers={"Authorization": f"Bearer {admin_key}"}) as http:
        made: dict[str, Any] = (await http.post(f"{url}/v1/keys", json=wanted)).raise_for_status().json()
    return str(made["secret"])


async def show_totals(client: AsyncClient, tenant: str) -> None:
    """One change per transaction of the shop, however many orders it holds."""
    async for change in client.subscribe(TOTALS, per="transaction", durable=False, snapshot=True):
        for group in (change.result or {})["groups"]:
            say(f"  {tenant} is notified: {group['orders']} orders, {group['total']} € ({group['status']})")


async def show_payments(client: AsyncClient, tenant: str) -> None:
    async for change in client.subscribe(LARGE, {"least": 400}, durable=False):
        for row in (change.change or {}).get("add", []):
            say(f"  {tenant} is notified: payment {row['no']} of {row['amount']} € ({row['tenant']})")


if __name__ == "__main__":
    main()
