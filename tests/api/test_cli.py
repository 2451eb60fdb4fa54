"""The command line as a user types it: each command as a process of its own."""

from __future__ import annotations

import json
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import run
from tests.support.live import Api, insert, update
from tests.support.processes import open_folder
from tests.support.waiting import until

COLUMNS = {"k": "integer", "x": "integer", "y": "integer"}
COMMANDS = ("serve", "demo", "subscribe", "publish", "explain", "stats", "bench", "migrate", "doctor")


@pytest.fixture
def table(api: Api) -> str:
    return api.table(COLUMNS, ["k"])


def test_help_names_every_command_and_setting() -> None:
    text = run("--help").stdout
    assert all(re.search(rf"\b{name}\b", text) for name in COMMANDS)
    options = run("serve", "--help").stdout
    for name in ("--port", "--data-dir", "--database", "--queue", "--retention-events", "--standby"):
        assert name in options
    assert "PROSEM_DATA_DIR" in options
    assert "--quick" in run("bench", "--help").stdout


def test_bench_lists_what_there_is() -> None:
    listed = run("bench")
    assert listed.returncode == 0
    assert "range-min" in listed.stdout
    assert "end-to-end" in listed.stdout
    unknown = run("bench", "nothing")
    assert unknown.returncode != 0
    assert "range-min" in unknown.stderr
    assert "Traceback" not in unknown.stderr


def test_the_doctor() -> None:
    folder = open_folder("prosem-doctor-test-")
    well = run("doctor", "--data-dir", str(folder))
    assert well.returncode == 0, well.stdout + well.stderr
    for part in ("Python", "packages", "data folder", "embedded PostgreSQL"):
        assert re.search(rf"^ok\s+{part}: ", well.stdout, re.M)
    ill = run("doctor", PROSEM_DATABASE="postgresql://nobody@127.0.0.1:1/none")
    assert ill.returncode == 1
    assert re.search(r"^wrong\s+database: ", ill.stdout, re.M)
    assert "Traceback" not in ill.stderr
    shutil.rmtree(folder)


# -- publish -----------------------------------------------------------------------------------------------
def lines(*events: Any) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


def count(api: Api, table: str) -> int:
    return len(api.subscribe(f"SELECT * FROM {table}", durable=False)["result"]["rows"])


def test_publish_a_file(api: Api, table: str, tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    path.write_text(lines(*(insert(k=k, x=k, y=k) for k in range(2500))))
    done = run("publish", table, str(path), "--url", api.url)
    assert done.returncode == 0, done.stderr
    assert "2,500 events committed" in done.stderr
    assert count(api, table) == 2500


def test_publish_standard_input(api: Api, table: str) -> None:
    done = run("publish", table, "-", stdin=lines(insert(k=1, x=1, y=1), update(1, y=2)), PROSEM_URL=api.url)
    assert done.returncode == 0, done.stderr
    assert "2 events committed" in done.stderr
    assert count(api, table) == 1


@pytest.mark.parametrize(
    "bad", ["{not json\n", lines({"op": "insert", "row": {"k": "x"}}), lines(insert(k=1, x=0, y=0))]
)
def test_publish_up_to_the_first_bad_line(api: Api, table: str, bad: str) -> None:
    text = lines(insert(k=1, x=1, y=1), insert(k=2, x=1, y=1)) + bad + lines(insert(k=3, x=1, y=1))
    done = run("publish", table, "-", "--url", api.url, stdin=text)
    assert done.returncode == 1
    assert "2 events are committed" in done.stderr
    assert "Traceback" not in done.stderr
    assert count(api, table) == 2


def test_publish_errors_are_readable(api: Api, table: str, tmp_path: Path) -> None:
    missing = run("publish", table, str(tmp_path / "none.ndjson"), "--url", api.url)
    assert missing.returncode == 2
    assert "there is no file" in missing.stderr.replace("\n", " ")
    unknown = run("publish", "nobody", "-", "--url", api.url, stdin=lines(insert(k=1)))
    assert unknown.returncode == 1
    assert "there is no table 'nobody'" in unknown.stderr.replace("\n", " ")
    assert "Traceback" not in missing.stderr + unknown.stderr


# -- subscribe ---------------------------------------------------------------------------------------------
def test_subscribe_prints_the_answer_and_its_changes(api: Api, table: str) -> None:
    api.publish(table, [insert(k=1, x=5, y=50)])
    stop = threading.Event()

    def lower() -> None:
        for y in range(49, -1000, -1):
            if stop.wait(0.1):
                return
            with Api(api.url) as other:
                other.publish(table, [update(1, y=y)])

    publisher = threading.Thread(target=lower)
    publisher.start()
    try:
        sql = f"SELECT MIN(y) FROM {table} WHERE x BETWEEN :lo AND :hi"
        done = run("subscribe", sql, "-p", "lo=0", "-p", "hi=9", "--limit", "3", "--url", api.url)
    finally:
        stop.set()
        publisher.join()
    assert done.returncode == 0, done.stderr
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert ["snapshot" in frame for frame in frames] == [True, False, False, False]
    values = [(frame.get("snapshot") or frame["change"])["value"] for frame in frames]
    assert values == list(range(values[0], values[0] - 4, -1))
    assert [frame["seq"] for frame in frames] == sorted({frame["seq"] for frame in frames})
    path = f"/v1/subscriptions/{frames[0]['id']}"
    until(lambda: api.http.get(path).status_code == 404, what="it was not durable: nothing stays behind")


def test_subscribe_errors_are_readable(api: Api, table: str) -> None:
    cases = [
        ([f"SELECT MIN(y) FROM {table} GROUP BY x"], "GROUP BY"),
        ([f"SELECT MIN(y) FROM {table} WHERE x < :x"], ":x"),
        ([f"SELECT MIN(y) FROM {table} WHERE x < :x", "-p", "x"], "name=value"),
        ([f"SELECT MIN(y) FROM {table}", "--notify", "{"], "not JSON"),
    ]
    for arguments, text in cases:
        done = run("subscribe", *arguments, "--url", api.url)
        assert done.returncode != 0
        assert text in done.stderr
        assert "Traceback" not in done.stderr


# -- what is written for people ------------------------------------------------------------------------------
def test_tables_fit_80_columns_and_cut_no_word(api: Api, table: str, tmp_path: Path) -> None:
    api.publish(table, [insert(k=k, x=k, y=k) for k in range(30)])
    for most in (5, 10, 20):
        api.subscribe(f"SELECT MIN(y) FROM {table} WHERE x < :most", {"most": most})
    view = f"an_overview_of_the_rows_of_{table}"
    api.call(
        "POST", "/v1/views", json={"name": view, "sql": f"SELECT x, COUNT(*) AS n FROM {table} GROUP BY x"}
    )
    other = api.table({"k": "integer", "x": "integer"}, ["k"])
    api.publish(other, [insert(k=1, x=1)])
    api.subscribe(f"SELECT * FROM {table} JOIN {other} USING (x) WHERE {table}.y < :y", {"y": 5})
    event = tmp_path / "event.json"
    event.write_text(json.dumps(update(1, y=-1000)))
    explained = (
        *("→ reformulate", "enumerate", "measured", "response", "estimates: ", "ordered by", "µs per subscription: "),
        *(f"routing columns {table}.y: one column", f"reduced {table} by {other}, {other} by {table}: one neighbour"),
    )  # fmt: skip
    for arguments, words in (
        (("explain", table, str(event), "--analyze"), explained),
        (("view", "list"), (view, table, "used by")),
        (("view", "show", view), ("bigint", "nullable")),
    ):
        done = run(*arguments, "--url", api.url, COLUMNS="80")
        assert done.returncode == 0, done.stderr
        assert "…" not in done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 80
        said = " ".join(done.stdout.split())  # lines are wrapped
        assert all(word in said for word in words), done.stdout


def test_a_settings_file_is_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "prosem.env"
    assert run("init", str(path)).returncode == 0
    text = path.read_text()
    assert "# port to listen on\n# PROSEM_PORT=8080\n" in text
    again = run("init", str(path))
    assert again.returncode == 1
    assert "exists" in again.stderr
    path.write_text(text.replace("# PROSEM_PORT=8080", "PROSEM_PORT=99999"))
    refused = run("--settings", str(path), "serve", "--data-dir", str(tmp_path / "data"))
    assert "up to 65535" in refused.stderr
    taken = run("--settings", str(path), "serve", "--port", "99998", "--data-dir", str(tmp_path / "data"))
    assert "not 99998" in taken.stderr, "an option takes precedence"


def test_shell_completion_is_offered() -> None:
    assert "complete -o default -F" in run("--show-completion", "bash").stdout


# -- demo --------------------------------------------------------------------------------------------------
def test_the_demo_runs_and_ends() -> None:
    folder = open_folder("prosem-demo-test-")
    try:
        done = run("demo", "--seconds", "5", "--data-dir", str(folder))
        assert done.returncode == 0, done.stdout + done.stderr
        first, *_ = done.stdout.splitlines()
        assert re.fullmatch(r"Console: http://127.0.0.1:\d+/ \(in a few seconds\)", first)
        assert "Ready." in done.stdout
        assert re.search(r"^seq \d+: SELECT ", done.stdout, re.M), "no change was shown"
        events = re.search(r"([\d,]+) events in \d+ s", done.stdout)
        assert events is not None
        assert int(events[1].replace(",", "")) > 50
        assert "Traceback" not in done.stdout + done.stderr
        log = next(folder.rglob("server.log")).read_text()
        assert "Traceback" not in log
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_typical_mistakes_are_one_sentence(server: str, tmp_path: Path) -> None:
    taken = server.rsplit(":", 1)[1]
    event = tmp_path / "event.json"
    event.write_text('{"op": "delete", "key": {"k": 1}}')
    no_server = ("--url", "http://127.0.0.1:9")
    for arguments, said in (
        (("serve", "--port", taken, "--data-dir", str(tmp_path)), f"port {taken} of 127.0.0.1 is in use"),
        (("serve", "--port", "99999", "--data-dir", str(tmp_path)), "up to 65535"),
        (
            ("serve", "--host", "203.0.113.9", "--data-dir", str(tmp_path)),
            "cannot listen on 203.0.113.9:8080",
        ),
        (("broker", "--port", taken), "is in use"),
        (("subscribe", "SELECT * FROM t", *no_server), "`prosem serve` starts one"),
        (("publish", "t", str(event), *no_server), "`prosem serve` starts one"),
        (("explain", "t", str(event), *no_server), "`prosem serve` starts one"),
        (("subscribe", "SELECT * FROM t", "--url", "127.0.0.1:8080"), "with http:// or https://"),
        (("publish", "t", str(event), "--url", "127.0.0.1:8080"), "with http:// or https://"),
        (("subscribe", "SELECT * FROM nowhere_at_all", "--url", server), "there is no table nowhere_at_all"),
    ):
        done = run(*arguments)
        assert done.returncode in (1, 2), arguments
        assert said in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "cluster").exists(), "nothing was started"
    (tmp_path / "bad.env").write_text("PORT=1\n")
    for name, said in (
        ("bad.env", "line 1: expected PROSEM_NAME=value"),
        ("none.env", "prosem init none.env"),
    ):
        done = run("--settings", str(tmp_path / name), "doctor")
        assert done.returncode == 1
        assert said in done.stderr
    assert run("--version").stdout.startswith("prosem ")
