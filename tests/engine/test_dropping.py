"""Tables and views are dropped after the last subscription on a join with them, whose index may be kept for a while."""

from __future__ import annotations

from tests.support.live import Api, insert


def test_what_an_idle_join_reads_can_be_dropped(api: Api) -> None:
    columns = {"k": "integer", "x": "integer"}
    one, other = api.table(columns, ["k"]), api.table(columns, ["k"])
    name = f"v_{one}"
    for _ in range(2):  # the second time everything is new, under the same names
        api.call("POST", "/v1/views", json={"name": name, "sql": f"SELECT k, x + 1 AS x FROM {one}"})
        api.publish(one, [insert(k=1, x=2)])
        api.publish(other, [insert(k=1, x=3)])
        for source in (name, one):
            join = f"SELECT COUNT(*), MIN(b.k) FROM {other} a LEFT JOIN {source} b ON a.x = b.x"
            made = api.subscribe(join)
            assert made["result"]["columns"] == {"count": 1, "min": 1 if source == name else None}
            api.delete(made["id"])
        api.call("DELETE", f"/v1/views/{name}")
        api.publish(other, [insert(k=2, x=3)])
        for table in (one, other):
            api.call("DELETE", f"/v1/tables/{table}")
            api.table(columns, ["k"], table)


def test_a_view_is_dropped_with_subscriptions_that_were_never_streamed(api: Api) -> None:
    """As a table is: they may end by themselves."""
    table = api.table({"k": "integer", "x": "integer"}, ["k"])
    api.call("POST", "/v1/views", json={"name": f"v_{table}", "sql": f"SELECT k, x FROM {table}"})
    for text in (
        f"SELECT MIN(x) FROM v_{table}",
        f"SELECT COUNT(*) FROM v_{table} a JOIN {table} b ON a.k = b.k",
    ):
        api.subscribe(text, durable=False)
    api.call("DELETE", f"/v1/views/v_{table}")
    api.call("DELETE", f"/v1/tables/{table}")
