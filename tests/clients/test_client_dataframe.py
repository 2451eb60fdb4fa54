"""Frames that stay current: what they hold is the answer as of their seq, also while rows change; and their display."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest
from prosem_client import Client, ProsemError

from tests.support.waiting import until

pytest.importorskip("pandas")


@pytest.fixture
def table(client: Client) -> str:
    name = f"frames_{uuid.uuid4().hex}"
    client.create_table(name, {"k": "integer", "x": "integer", "price": "numeric(8,2)"}, ["k"])
    client.publish(name, [{"op": "insert", "row": {"k": k, "x": k, "price": k}} for k in range(3)])
    return name


def update(k: int, **set: Any) -> dict[str, Any]:
    return {"op": "update", "key": {"k": k}, "set": set}


def test_a_frame_of_now(client: Client, table: str) -> None:
    frame = client.dataframe(f"SELECT k, price FROM {table} WHERE x >= :x", {"x": 1})
    assert frame.sort_values("k").to_dict("list")["k"] == [1, 2]


def test_a_live_frame_follows_the_answer(client: Client, table: str) -> None:
    with client.dataframe(f"SELECT k, x FROM {table} WHERE x >= :x", {"x": 1}, live=True) as live:
        first = live.frame
        assert sorted(first["k"]) == [1, 2]
        assert live.frame is first, "without a change it is not built again"
        seen = live.changes
        last = client.publish(table, [update(0, x=7)]).last_seq
        assert sorted(live.wait(seen, 30)["k"]) == [0, 1, 2]
        assert live.seq == last
        assert sorted(first["k"]) == [1, 2], "a frame that was handed out never changes"
        with pytest.raises(TimeoutError):
            live.wait(live.changes, 0)
    client.publish(table, [update(1, x=-1)])
    assert sorted(live.frame["k"]) == [0, 1, 2], "a closed frame stays as it was"
    assert "closed" in repr(live)


def test_reads_while_rows_change_are_answers(client: Client, table: str) -> None:
    """The sum over all rows is the same after every transaction; a torn frame would show another one."""
    with client.dataframe(f"SELECT k, x FROM {table}", live=True, per="transaction") as live:
        total = int(live.frame["x"].sum())
        wrong: list[int] = []
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                if (found := int(live.frame["x"].sum())) != total:
                    wrong.append(found)

        reader = threading.Thread(target=read)
        reader.start()
        for step in range(1, 40):
            client.publish(table, [update(0, x=-step), update(1, x=1 + step)])
        until(lambda: live.frame.set_index("k")["x"][0] == -39)
        done.set()
        reader.join()
        assert wrong == []


def test_what_ends_the_stream_is_raised_by_the_frame(
    client: Client, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = client.dataframe(f"SELECT k, x FROM {table} WHERE x > 0", live=True)

    def ended(timeout_s: float | None = None) -> None:
        raise ProsemError(404, "not-found", "the stream has ended")

    monkeypatch.setattr(live._subscription, "next", ended)
    client.publish(table, [update(1, x=77)])  # what the follower waits for; then it asks again
    with pytest.raises(ProsemError, match="has ended"):
        until(lambda: live.frame is None)
    live.close()


def test_a_notebook_draws_it_again(client: Client, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import RichOutput, capture_output

    InteractiveShell.instance()
    with client.dataframe(f"SELECT k, price FROM {table} WHERE x >= 0", live=True) as live:
        with capture_output() as captured:
            live._ipython_display_()
        (shown,) = captured.outputs
        assert isinstance(shown, RichOutput)
        assert "3 rows" in shown.data["text/html"]
        assert "<td>2.00</td>" in shown.data["text/html"]
        (handle,) = live._displays
        drawn: list[Any] = []
        monkeypatch.setattr(handle, "update", drawn.append)
        client.publish(table, [{"op": "insert", "row": {"k": 9, "x": 9, "price": "99.50"}}])
        until(lambda: drawn and "99.50" in drawn[-1]._repr_html_())
    InteractiveShell.clear_instance()
