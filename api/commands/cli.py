"""The command line. Every option is also an environment variable PROSEM_…"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from api import VERSION
from api.server.settings import BrokerSettings, Settings
from prosem.values.errors import ProsemError
from prosem.values.redaction import redacted

app = typer.Typer(
    name="prosem",
    help="Live SQL subscriptions by the million: every subscriber gets exactly the changes of its own answer.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"prosem {VERSION}")
        raise typer.Exit


def _load_settings(path: str) -> None:
    if path:
        from api.commands.settings_file import load

        load(Path(path))


@app.callback()
def options(
    settings: Annotated[
        str,
        typer.Option(
            help="a file of settings, as prosem init writes it",
            envvar="PROSEM_SETTINGS",
            callback=_load_settings,
            is_eager=True,
        ),
    ] = "",
    version: Annotated[
        bool,
        typer.Option("--version", help="show the version and exit", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Of the program itself."""


def with_settings(run: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command one option for each setting, and the settings themselves as its first argument."""
    first, *own = inspect.signature(run, eval_str=True).parameters.values()
    kind_of_settings: Any = first.annotation

    def command(**options: Any) -> Any:
        chosen = {field.name: options.pop(field.name) for field in fields(kind_of_settings)}
        return run(kind_of_settings(**chosen), **options)

    parameters = []
    for field in fields(kind_of_settings):
        assert field.default is not MISSING
        kind = {"str": str, "int": int, "bool": bool}[str(field.type)]
        variable = "PROSEM_" + field.name.upper()
        option = typer.Option(help=field.metadata["help"], envvar=variable, show_default=bool(field.default))
        parameters.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=Annotated[kind, option],
            )
        )
    command.__signature__ = inspect.Signature([*(p.replace(kind=p.KEYWORD_ONLY) for p in own), *parameters])  # type: ignore[attr-defined]
    command.__name__, command.__doc__ = run.__name__, run.__doc__
    command.__annotations__ = {p.name: p.annotation for p in command.__signature__.parameters.values()}  # type: ignore[attr-defined]
    return command


@app.command("init")
def init_command(
    path: Annotated[str, typer.Argument(help="the file to write")] = "prosem.env",
) -> None:
    """Write a file with every setting, its meaning and its default, for prosem --settings."""
    from api.commands.settings_file import init

    raise typer.Exit(init(Path(path)))


@app.command("serve")
@with_settings
def serve_command(settings: Settings) -> None:
    """Run the server (on an embedded PostgreSQL unless --database is given)."""
    from api.commands.serve import serve

    raise typer.Exit(serve(settings))


@app.command("broker")
@with_settings
def broker_command(settings: BrokerSettings) -> None:
    """Hold subscribers' sockets for a server that runs with --nats; a client needs only this address."""
    from api.commands.serve import serve_broker

    raise typer.Exit(serve_broker(settings))


@app.command()
def migrate(
    database: Annotated[
        str, typer.Option(help="postgresql://… of your own PostgreSQL", envvar="PROSEM_DATABASE")
    ],
) -> None:
    """Bring the schema of your own PostgreSQL up to date (the embedded one does so by itself)."""
    from prosem.store.schema import HEAD
    from prosem.store.schema import migrate as run

    before = run(database)
    if before == HEAD:
        typer.echo(f"the schema is up to date ({HEAD})")
    else:
        typer.echo(f"migrated from {before or 'an empty database'} to {HEAD}")


@app.command()
@with_settings
def demo(
    settings: Settings,
    seconds: Annotated[float, typer.Option(help="end after so many seconds (0: at Ctrl-C)")] = 0.0,
    rate: Annotated[float, typer.Option(help="events per second")] = 100.0,
) -> None:
    """A live stock market on a server of its own: subscriptions and their changes in the terminal."""
    from api.commands.demo import demo as run

    raise typer.Exit(run(settings, seconds or None, rate))


@app.command()
def health(
    host: Annotated[str, typer.Option(help="address it listens on", envvar="PROSEM_HOST")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="port it listens on", envvar="PROSEM_PORT")] = 8080,
    tls_certificate: Annotated[
        str, typer.Option(help="its certificate, if it serves HTTPS", envvar="PROSEM_TLS_CERTIFICATE")
    ] = "",
) -> None:
    """Whether the server or broker of this machine is ready, by the settings it has: for health checks."""
    from api.commands.health import check

    raise typer.Exit(check(host, port, bool(tls_certificate)))


@app.command()
@with_settings
def doctor(settings: Settings) -> None:
    """Report what is wrong with this installation."""
    from api.commands.doctor import doctor as run

    raise typer.Exit(run(settings))


Database = Annotated[
    str, typer.Option(help="postgresql://… (default: the PostgreSQL of --data-dir)", envvar="PROSEM_DATABASE")
]
DataDir = Annotated[str, typer.Option(help="folder of the embedded PostgreSQL", envvar="PROSEM_DATA_DIR")]


@app.command()
def backup(
    output: Annotated[
        str, typer.Option(help="file to write (default: prosem-<time>.backup in this folder)")
    ] = "",
    database: Database = "",
    data_dir: DataDir = "",
) -> None:
    """Save the whole database as of one moment in a file; a server may run meanwhile."""
    from api.commands.backup import backup as run

    raise typer.Exit(run(database, Settings(data_dir=data_dir).folder, output))


@app.command()
def restore(
    source: Annotated[str, typer.Argument(help="the file that prosem backup wrote")],
    replace: Annotated[
        bool, typer.Option("--replace", help="drop what the database holds of prosem first")
    ] = False,
    database: Database = "",
    data_dir: DataDir = "",
) -> None:
    """Make the database of a backup again, in an empty one; its server begins a new timeline."""
    from api.commands.backup import restore as run

    raise typer.Exit(run(database, Settings(data_dir=data_dir).folder, source, replace))


Url = Annotated[str, typer.Option(help="address of the server", envvar="PROSEM_URL")]
ApiKey = Annotated[str, typer.Option(help="key, if the server needs one", envvar="PROSEM_API_KEY")]
Param = Annotated[list[str], typer.Option("--param", "-p", help="name=value, the value as JSON or a text")]
Notify = Annotated[str, typer.Option(help='as JSON, for example {"change": 1.5}')]


@app.command()
def subscribe(
    sql: Annotated[
        str, typer.Argument(help='the query, for example "SELECT MIN(per) FROM stocks WHERE risk < 50"')
    ],
    param: Param = [],  # noqa: B006
    notify: Notify = "",
    per: Annotated[
        str, typer.Option(help="event, or transaction: at most one change per request of a publisher")
    ] = "event",
    limit: Annotated[int, typer.Option(help="end after so many changes (0: at Ctrl-C)")] = 0,
    json_lines: Annotated[
        bool, typer.Option("--json", help="one JSON object per line also on a terminal")
    ] = False,
    url: Url = "http://127.0.0.1:8080",
    api_key: ApiKey = "",
) -> None:
    """Show a query's answer and every change of it: a table on a terminal, otherwise one JSON object per line."""
    from api.commands.terminal import subscribe as run

    raise typer.Exit(run(url, api_key, sql, _params(param), _notify(notify), per, limit, json_lines))


def _params(items: list[str]) -> dict[str, object]:
    params = {}
    for item in items:
        name, separator, text = item.partition("=")
        if not separator:
            raise typer.BadParameter(f"{item!r} is not of the form name=value", param_hint="--param")
        params[name] = _value(text)
    return params


def _notify(text: str) -> dict[str, object] | None:
    try:
        return json.loads(text) if text else None
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint="--notify") from None


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


@app.command()
def publish(
    table: Annotated[str, typer.Argument(help="the table")],
    source: Annotated[
        str, typer.Argument(help="an NDJSON file with one event per line, or - for standard input")
    ],
    url: Url = "http://127.0.0.1:8080",
    api_key: ApiKey = "",
) -> None:
    """Send events from a file, with progress."""
    from api.commands.terminal import publish as run

    raise typer.Exit(run(url, api_key, table, source))


view = typer.Typer(
    help="Views: derived tables that the server keeps up to date, for subscriptions of every type.",
    no_args_is_help=True,
)
app.add_typer(view, name="view")
ViewName = Annotated[str, typer.Argument(help="the view")]


@view.command("create")
def view_create(
    name: ViewName,
    sql: Annotated[
        str,
        typer.Argument(help='for example "SELECT sector, COUNT(*) AS n FROM stocks GROUP BY sector"'),
    ],
    url: Url = "http://127.0.0.1:8080",
    api_key: ApiKey = "",
) -> None:
    """Create a view."""
    from api.commands.views import create

    raise typer.Exit(create(url, api_key, name, sql))


@view.command("list")
def view_list(
    json_lines: Annotated[bool, typer.Option("--json", help="as JSON")] = False,
    url: Url = "http://127.0.0.1:8080",
    api_key: ApiKey = "",
) -> None:
    """All views, with what they use and what uses them."""
    from api.commands.views import listing

    raise typer.Exit(listing(url, api_key, json_lines))


@view.command("show")
def view_show(
    name: ViewName,
    json_lines: Annotated[bool, typer.Option("--json", help="as JSON")] = False,
    url: Url = "http://127.0.0.1:8080",
    api_key: ApiKey = "",
) -> None:
    """The definition of a view, its columns, and what uses it."""
    from api.commands.views import show

    raise typer.Exit(show(url, api_key, name, json_lines))


@view.command("drop")
def view_drop(name: ViewName, url: Url = "http://127.0.0.1:8080", api_key: ApiKey = "") -> None:
    """Drop a view that nothing uses."""
    from api.commands.views import drop

    raise typer.Exit(drop(url, api_key, name))


@app.command("attach")
def attach_command(
    source: Annotated[
        str, typer.Argument(help="postgresql://… of the database to follow", envvar="PROSEM_SOURCE")
    ],
    tables: Annotated[
        str, typer.Option(help="tables with commas; schema.table=name gives one another name on the server")
    ] = "",
    leave_out: Annotated[list[str], typer.Option(help="a column not to follow, as table.column")] = [],  # noqa: B006
    slot: Annotated[str, typer.Option(help="name of the replication slot")] = "prosem",
    publication: Annotated[
        str, typer.Option(help="name of the publication (default: that of the slot)")
    ] = "",
    metrics_port: Annotated[int, typer.Option(help="serve metrics for Prometheus on this port (0: no)")] = 0,
    report: Annotated[float, typer.Option(help="seconds between two lines about progress")] = 10.0,
    again: Annotated[bool, typer.Option("--again", help="copy the tables anew")] = False,
    once: Annotated[
        bool, typer.Option("--once", help="end when everything that was there at the start is applied")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="drop the slot and the publication of the source instead")
    ] = False,
    url: Url = "http://127.0.0.1:8080",
    api_key: ApiKey = "",
) -> None:
    """Follow tables of an existing PostgreSQL: a copy first, then every transaction exactly once."""
    from api.attach import command

    options = command.Options(
        source,
        url,
        tables,
        slot,
        publication or slot,
        tuple(leave_out),
        metrics_port,
        report,
        again,
        once,
        api_key,
    )
    raise typer.Exit(command.detach(options) if detach else command.attach(options))


@app.command("poll")
def poll_command(
    source: Annotated[str, typer.Argument(help="http(s)://… of the feed, or a file")],
    table: Annotated[str, typer.Option(help="the table that its items become rows of")],
    form: Annotated[
        str, typer.Option("--format", help="json, csv or rss (also Atom); default: by the name's ending")
    ] = "",
    every: Annotated[str, typer.Option(help="how often to look, as 30s, 5m or 1h")] = "30s",
    path: Annotated[str, typer.Option(help="where a JSON feed has its items, as $.data.items")] = "$",
    chosen: Annotated[
        list[str],
        typer.Option("--map", help="column=field, or a path like $.quote.last; default: the column's name"),
    ] = [],  # noqa: B006
    delimiter: Annotated[str, typer.Option(help="between the fields of a CSV feed")] = ",",
    complete: Annotated[
        bool, typer.Option("--complete", help="the feed is the whole: rows that have vanished are deleted")
    ] = False,
    state: Annotated[
        str, typer.Option(help="file that remembers what was published (default: in the user's state folder)")
    ] = "",
    max_mb: Annotated[int, typer.Option(help="largest feed in MiB", min=1)] = 64,
    once: Annotated[bool, typer.Option("--once", help="look once and end")] = False,
    url: Url = "http://127.0.0.1:8080",
    api_key: ApiKey = "",
) -> None:
    """Publish the items of a JSON, CSV, RSS or Atom feed as rows, and then what changes in it."""
    from api.poll import command

    options = command.Options(
        source,
        url,
        table,
        form,
        every,
        path,
        tuple(chosen),
        delimiter,
        complete,
        state,
        max_mb,
        once,
        api_key,
    )
    raise typer.Exit(command.poll(options))


stats = typer.Typer(
    help="The optimizer's statistics: compute and show them, list the runs, go back to one.",
    no_args_is_help=True,
)
app.add_typer(stats, name="stats")


@stats.command("refresh")
def stats_refresh(
    since: Annotated[
        str, typer.Option(help="count only events from this moment on (ISO 8601, or a span like 7d or 12h)")
    ] = "",
    master: Annotated[str, typer.Option(help="Spark's master (default: all cores of this machine)")] = "",
    archive: Annotated[
        str, typer.Option(help="folder of the Parquet archive (default: archive in the data folder)")
    ] = "",
    training: Annotated[int, typer.Option(help="entries of the training set a group", min=1)] = 1_000,
    keep: Annotated[
        int, typer.Option(help="newest runs that stay in the database, besides the active one", min=1)
    ] = 7,
    database: Database = "",
    data_dir: DataDir = "",
) -> None:
    """Compute the statistics anew with Spark; a running server takes them over at once."""
    from api.commands.database import address
    from api.commands.statistics import refresh

    folder = Settings(data_dir=data_dir).folder
    raise typer.Exit(
        refresh(address(database, folder), archive or str(folder / "archive"), since, master, training, keep)
    )


@stats.command("list")
def stats_list(database: Database = "", data_dir: DataDir = "") -> None:
    """The runs of the job, and which one is active."""
    from api.commands.database import address
    from api.commands.statistics import show_runs

    raise typer.Exit(show_runs(address(database, Settings(data_dir=data_dir).folder)))


@stats.command("show")
def stats_show(
    table: Annotated[str, typer.Argument(help="only the columns of this table")] = "",
    tenant: Annotated[str, typer.Option(help="whose tables and groups")] = "default",
    database: Database = "",
    data_dir: DataDir = "",
) -> None:
    """What the active run says of columns, joins and groups."""
    from api.commands.database import address
    from api.commands.statistics import show_figures

    raise typer.Exit(show_figures(address(database, Settings(data_dir=data_dir).folder), tenant, table))


@stats.command("use")
def stats_use(
    run: Annotated[int, typer.Argument(help="the run's number, from prosem stats list")],
    database: Database = "",
    data_dir: DataDir = "",
) -> None:
    """Make another run the active one, such as the one before."""
    from api.commands.database import address
    from api.commands.statistics import use_run

    raise typer.Exit(use_run(address(database, Settings(data_dir=data_dir).folder), run))


@app.command()
def backtest(
    sql: Annotated[
        str, typer.Argument(help='the query, for example "SELECT price FROM stocks WHERE symbol = :s"')
    ],
    param: Param = [],  # noqa: B006
    params: Annotated[
        str, typer.Option(help="a CSV file with one subscription a line; its head names the parameters")
    ] = "",
    notify: Notify = "",
    per: Annotated[str, typer.Option(help="event or transaction")] = "event",
    since: Annotated[
        str,
        typer.Option(help="from this moment on (ISO 8601, or a span like 30d; default: all of the archive)"),
    ] = "",
    per_day: Annotated[
        float,
        typer.Option(help="find the radius or threshold with about so many notifications per day", min=0),
    ] = 0,
    tune: Annotated[
        str, typer.Option(help="the parameter that --per-day finds, where there are several")
    ] = "",
    output: Annotated[
        str, typer.Option(help="folder for the notifications and the counts of subscriptions, as Parquet")
    ] = "",
    plot: Annotated[str, typer.Option(help="an image of the counts, for example counts.png")] = "",
    tenant: Annotated[str, typer.Option(help="whose tables they are")] = "default",
    master: Annotated[str, typer.Option(help="Spark's master (default: all cores of this machine)")] = "",
    archive: Annotated[
        str, typer.Option(help="folder of the Parquet archive (default: archive in the data folder)")
    ] = "",
    archive_of: Annotated[str, typer.Option(help="the database, where the archive has several")] = "",
    data_dir: DataDir = "",
) -> None:
    """How often subscriptions would have been notified: the server's own engine over the archive, on Spark."""
    from api.commands.backtest import Options
    from api.commands.backtest import backtest as run
    from pipeline.backtest.request import Request

    request = Request(
        sql,
        archive or str(Settings(data_dir=data_dir).folder / "archive"),
        archive_of,
        _notify(notify),
        per,
        tenant,
        since,
        per_day,
        tune,
        output,
    )
    raise typer.Exit(run(Options(request, _params(param), params, plot, master)))


archive_app = typer.Typer(
    help="The Parquet archive of the statistics job: verify it, compact its small files.",
    no_args_is_help=True,
)
app.add_typer(archive_app, name="archive")
ArchiveFolder = Annotated[
    str, typer.Option(help="folder of the Parquet archive (default: archive in the data folder)")
]
Master = Annotated[str, typer.Option(help="Spark's master (default: all cores of this machine)")]


@archive_app.command("verify")
def archive_verify(
    archive: ArchiveFolder = "",
    archive_of: Annotated[str, typer.Option(help="the database, where the archive has several")] = "",
    master: Master = "",
    database: Annotated[
        str,
        typer.Option(
            envvar="PROSEM_DATABASE", help="postgresql://… whose log it is compared with (default: none)"
        ),
    ] = "",
    data_dir: DataDir = "",
) -> None:
    """Whether the archive holds what its manifests say, without a gap; says what to do if it does not."""
    from api.commands.archive import Options, verify

    folder = archive or str(Settings(data_dir=data_dir).folder / "archive")
    raise typer.Exit(verify(Options(folder, database, archive_of, master)))


@archive_app.command("compact")
def archive_compact(
    archive: ArchiveFolder = "",
    master: Master = "",
    database: Database = "",
    data_dir: DataDir = "",
) -> None:
    """Make one segment of small ones that follow each other, with one file per table and day."""
    from api.commands.archive import Options, compact
    from api.commands.database import address

    folder = Settings(data_dir=data_dir).folder
    options = Options(archive or str(folder / "archive"), address(database, folder), master=master)
    raise typer.Exit(compact(options))


keys = typer.Typer(
    help="Keys, with which a server listens beyond this machine: make, list and revoke them.",
    no_args_is_help=True,
)
app.add_typer(keys, name="keys")


@keys.command("create")
def keys_create(
    name: Annotated[str, typer.Argument(help="what the key is for")],
    role: Annotated[
        list[str], typer.Option(help="admin, publisher, subscriber, metrics or broker; may be given again")
    ],
    tenant: Annotated[str, typer.Option(help="whose tables and subscriptions it reaches")] = "default",
    rows: Annotated[
        list[str], typer.Option(help="\"stocks: sector = 'tech'\": the rows of a table that it sees")
    ] = [],  # noqa: B006
    limit: Annotated[
        list[str],
        typer.Option(
            help="name=number: subscriptions, events_per_second, sockets, frame_bytes, comparisons, webhooks"
        ),
    ] = [],  # noqa: B006
    json_output: Annotated[bool, typer.Option("--json", help="one JSON object")] = False,
    database: Database = "",
    data_dir: DataDir = "",
) -> None:
    """Make a key and print it; it is stored nowhere and cannot be shown again."""
    from api.commands.database import database_of
    from api.commands.keys import create

    with database_of(database, Settings(data_dir=data_dir).folder) as url:
        raise typer.Exit(create(url, name, tenant, role, rows, limit, json_output))


@keys.command("list")
def keys_list(
    json_output: Annotated[bool, typer.Option("--json", help="one JSON array")] = False,
    database: Database = "",
    data_dir: DataDir = "",
) -> None:
    """All keys, with what they may do; not the keys themselves."""
    from api.commands.database import database_of
    from api.commands.keys import show

    with database_of(database, Settings(data_dir=data_dir).folder) as url:
        raise typer.Exit(show(url, json_output))


@keys.command("revoke")
def keys_revoke(
    key: Annotated[int, typer.Argument(help="the key's number, from prosem keys list")],
    database: Database = "",
    data_dir: DataDir = "",
) -> None:
    """End a key; sockets that were opened with it are closed."""
    from api.commands.database import database_of
    from api.commands.keys import revoke

    with database_of(database, Settings(data_dir=data_dir).folder) as url:
        raise typer.Exit(revoke(url, key))


@app.command()
def explain(
    table: Annotated[str, typer.Argument(help="the table")],
    event: Annotated[str, typer.Argument(help="a JSON file with one event, or - for standard input")],
    analyze: Annotated[bool, typer.Option(help="measure every plan in a dry run")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="the answer as one JSON object")] = False,
    url: Url = "http://127.0.0.1:8080",
    api_key: ApiKey = "",
) -> None:
    """Show what an event would cost under each plan, and which one would be taken. Nothing is applied."""
    from api.commands.explain import explain as run

    raise typer.Exit(run(url, api_key, table, event, analyze, json_output))


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help="which one, or all; without a name they are listed")] = "",
    quick: Annotated[bool, typer.Option(help="small sizes, under a minute")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="one JSON object as the last line")] = False,
    plot: Annotated[
        str,
        typer.Option(
            help="also draw its curves: into this file (png, svg or pdf), or into a folder, one file each"
        ),
    ] = "",
    network: Annotated[str, typer.Option(help="in a simulated network of brokers (parametric: cbn)")] = "",
    wide: Annotated[
        bool, typer.Option(help="rows of 20 columns, all of them in memory and only those used (rows)")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="measure these figures (papers) or benches (targets) alone; repeatable"),
    ] = None,
    out: Annotated[
        str,
        typer.Option(
            help="the page to write, docs/papers.md or docs/targets.md if not given; results are kept in a folder beside it"
        ),
    ] = "",
    kept: Annotated[
        bool, typer.Option(help="write the page from kept results alone (papers, targets)")
    ] = False,
) -> None:
    """Measure the parts of the server and the whole, beside published figures and the naive way."""
    from bench.registry import BENCHES, PAGES

    if name and name != "all" and name not in BENCHES:
        raise typer.BadParameter(f"there is no bench {name!r}; there are {', '.join(BENCHES)}")
    if not name:
        for known, (_, text) in BENCHES.items():
            typer.echo(f"{known:12} {text}")
        return
    if network and (name != "parametric" or network != "cbn"):
        raise typer.BadParameter("only `prosem bench parametric --network cbn` measures in a network")
    if wide and name != "rows":
        raise typer.BadParameter("only `prosem bench rows --wide` measures wide rows")
    if (only or kept or out) and name not in PAGES:
        raise typer.BadParameter(
            "only `prosem bench papers` and `targets` take figures, kept results and a page"
        )
    if name in PAGES:
        page = Path(out or f"docs/{name}.md")
        PAGES[name](quick, only or (), page, measure=not kept).show(json_output)
        return
    for known in [one for one in BENCHES if one not in PAGES] if name == "all" else [name]:
        run = BENCHES[known][0]
        if wide:
            from bench.rows_wide import run
        if network:
            from bench.parametric_network import run
        report = run(quick)
        report.show(json_output)  # first: a plot that fails takes no figures with it
        if plot:
            from bench.plots import draw

            draw(report, Path(plot))


def main() -> None:
    """Run a command; an error of the installation is one sentence, not a traceback."""
    try:
        app()
    except ProsemError as error:
        typer.secho(redacted(error.detail), fg=typer.colors.RED, err=True)
        raise SystemExit(1) from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "psycopg":
            raise
        typer.secho(redacted(f"the database cannot be used: {error}"), fg=typer.colors.RED, err=True)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
