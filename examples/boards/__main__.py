"""A leaderboard and an order board: `python -m examples.boards`, then open the address that it prints."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
from pathlib import Path

from prosem_client import AsyncClient

from examples.boards.game import TABLES, WORTH, World
from examples.running import Pages, own_folder, own_server, run, say

HERE = Path(__file__).parent
REACT = HERE.parents[1] / "clients" / "react"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.boards", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=0, help="end after so many seconds (default: at Ctrl-C)"
    )
    parser.add_argument("--port", type=int, default=8091, help="port of the page")
    parser.add_argument("--rate", type=float, default=2, help="steps per second")
    options = parser.parse_args()
    with own_folder() as folder:
        bundle(folder / "page")
        with Pages(folder / "page", options.port) as pages, own_server(folder, "--origins", pages.url) as url:
            pages.config = {"server": url}
            run(lambda: play(url, pages.url, options.rate), options.seconds)


def bundle(folder: Path) -> None:
    """The page as one script, by esbuild; a project of your own has its own bundler."""
    esbuild = REACT / "node_modules" / ".bin" / "esbuild"
    if not esbuild.exists():
        raise SystemExit("React is not installed: run make example-boards, or npm ci in clients/react")
    folder.mkdir()
    for name in ("index.html", "style.css"):
        (folder / name).write_bytes((HERE / name).read_bytes())
    subprocess.run(
        [
            *(esbuild, HERE / "page.jsx", "--bundle", "--jsx=automatic", "--log-level=error", "--format=esm"),
            *(f"--alias:@prosem/react={REACT / 'src' / 'index.js'}", f"--outfile={folder / 'page.js'}"),
            *(f"--alias:react={REACT / 'node_modules' / 'react'}",),
            *(f"--alias:react-dom={REACT / 'node_modules' / 'react-dom'}",),
        ],
        check=True,
    )


async def play(url: str, page: str, rate: float) -> None:
    async with AsyncClient(url) as client:
        world = World()
        for name, (columns, key) in TABLES.items():
            await client.create_table(name, columns, key)
        for table, events in world.begin().items():
            await client.publish(table, events)
        await client.create_view("order_lines", WORTH)
        say(f"open {page}/")
        while True:
            await client.publish("players", world.scores())
            await client.transact(world.order())
            await asyncio.sleep(1 / rate)


if __name__ == "__main__":
    main()
