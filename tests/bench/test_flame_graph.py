"""The flame graph's picture from sampled stacks; sampling itself needs a tool that is not installed here."""

from __future__ import annotations

from xml.etree import ElementTree

from bench.flame_graph import WIDTH, drawn, read

FOLDED = """\
thread (7): MainThread;main (api/a.py:1);Runner.run (asyncio/runners.py:9);inject<T> (cn/b.py:3) 30
thread (7): MainThread;main (api/a.py:1);Runner.run (asyncio/runners.py:9);inject<T> (cn/b.py:8);find (cn/c.py:1) 10
thread (7): MainThread;main (api/a.py:1);Runner.run (asyncio/runners.py:9) 500
thread (8): prosem-engine;Thread.run (threading.py:1);Engine._run (prosem/e.py:2);step (prosem/f.py:5) 3
"""


def test_widths_are_cpu_time_and_waiting_is_left_out() -> None:
    whole = read(FOLDED, {7: 2.0, 8: 6.0})
    assert whole.cpu_s == 8.0
    (loop, engine) = whole.calls.values()
    assert (loop.name, loop.cpu_s, engine.name, engine.cpu_s) == ("loop", 2.0, "prosem-engine", 6.0)
    (inject,) = loop.calls.values()
    assert (inject.name, inject.file, inject.cpu_s) == ("inject<T>", "cn/b.py", 2.0)
    assert [(box.name, box.cpu_s) for box in inject.calls.values()] == [("find", 0.5)]


def test_the_picture_is_well_formed_and_nothing_is_wider_than_its_caller() -> None:
    root = ElementTree.fromstring(drawn(read(FOLDED, {7: 2.0, 8: 6.0}), "a <title>"))
    name = "{http://www.w3.org/2000/svg}"
    tips = [box.findtext(f"{name}title") for box in root.iter(f"{name}g")]
    assert tips[0] == "prosem-engine  75.0 %"
    assert "inject<T> cn/b.py 25.0 %" in tips
    for box in root.iter(f"{name}g"):
        found = box.find(f"{name}rect")
        assert found is not None
        assert 0 <= float(found.get("x", "")) + float(found.get("width", "")) <= WIDTH
