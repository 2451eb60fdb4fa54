"""What is measured for the papers' figures, in parts that run one after another, each kept by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from bench import (
    join,
    join_many,
    join_workload,
    minima_workload,
    network_joins,
    network_minima,
    network_repositories,
    network_serverless,
    network_setting,
    networks_value,
    optimizer,
    parametric_network,
    random_walk,
    range_min,
    stages,
    value_change,
)
from bench.network_setting import Setting

VALUE_EVENTS = {True: 1_000, False: 100_000}  # [ProSem thesis] table 4.1
JOIN_EVENTS = {True: 20, False: 100}


class Measured(NamedTuple):
    """The sizes of a part, and its figures."""

    params: dict[str, Any]
    figures: dict[str, Any]


class Part(NamedTuple):
    """A measurement: quick or at full size. One that counts, and measures no time, may run beside others."""

    measure: Callable[[bool], Measured]
    seeds: Mapping[str, int]
    counts: bool = False


@lru_cache(maxsize=1)
def setting(quick: bool) -> Setting:
    """The topology and brokers of all parts over networks, made once."""
    return Setting(1_000, 40) if quick else Setting(20_000, 1000)


def _network(quick: bool) -> dict[str, Any]:
    return {"nodes": 1_000 if quick else 20_000, "brokers": setting(quick).count}


# -- range-min and values at the server --------------------------------------------------------------------------
def _range_min_tuples(quick: bool) -> Measured:
    found = range_min.by_tuple_count(quick)
    return Measured({"events": range_min.EVENTS[quick], "spikes": random_walk.SPIKES}, {"by_tuples": found})


def _range_min_subscriptions(quick: bool) -> Measured:
    found, memory = range_min.by_subscription_count(quick)
    params = {"events": range_min.EVENTS[quick], "spikes": random_walk.SPIKES}
    return Measured(params, {"by_subscriptions": found, "bytes_per_subscription": round(memory, 1)})


RADII: dict[
    str, tuple[Callable[..., Any], Iterable[int], Iterable[int]]
] = {  # workload, quick sizes, the thesis's
    "diff-rad": (value_change.diff_rad_workload, value_change.DIFF_SIZES[True], value_change.THESIS_DIFF_RAD),
    "same-rad": (value_change.same_rad_workload, value_change.SAME_SIZES[True], value_change.THESIS_SAME_RAD),
}


def _radii(name: str, quick: bool) -> Measured:
    workload, few, of_thesis = RADII[name]
    rng, events = np.random.default_rng(value_change.SEED), VALUE_EVENTS[quick]
    rows = [value_change.measure(name, workload(size, events, rng)) for size in (few if quick else of_thesis)]
    return Measured({"events": events}, {name.replace("-", "_"): rows})


# -- networks ----------------------------------------------------------------------------------------------------
def _minima(name: str, quick: bool) -> Measured:
    count, events = network_minima.size(quick)
    found = network_minima.FIGURES[name](setting(quick), quick)
    fixed = {} if name in ("3.8", "3.12") else {"subscriptions": count}
    return Measured(_network(quick) | fixed | {"events": events}, dict(found))


def _serverless(quick: bool) -> Measured:
    count, events = (1_000, 60) if quick else (20_000, 200)
    found = network_serverless.rows(setting(quick), count, events)
    return Measured(_network(quick) | {"subscriptions": count, "events": events}, {"serverless": found})


def _value(name: str, quick: bool) -> Measured:
    rows = networks_value.measured(name, setting(quick), quick)
    sizes = dict.fromkeys(row["subscriptions"] for row in rows)
    params = _network(quick) | {
        "events before": networks_value.BEFORE[quick],
        "events": [networks_value.followed(name, size) for size in sizes],
    }
    return Measured(params, {"rows": rows})


def _joins(name: str, quick: bool) -> Measured:
    found = network_joins.FIGURES[name](setting(quick), quick)
    (r_rows, s_rows), count, events = network_joins.size(quick)
    sizes = {"subscriptions": count, "rows of R": r_rows, "rows of S": s_rows, "events": events}
    return Measured(_network(quick) | sizes, dict(found))


def _repositories(quick: bool) -> Measured:
    found = network_repositories.repositories(setting(quick), quick)
    count, s_rows, events = network_repositories.star_size(quick)
    rows = {"rows of R": network_repositories.STAR_ROWS, "rows of S": s_rows}
    return Measured(_network(quick) | {"subscriptions": count} | rows | {"events": events}, dict(found))


# -- joins at the server -----------------------------------------------------------------------------------------
def _join(quick: bool) -> Measured:
    events, rows = JOIN_EVENTS[quick], (2_000, 1_000) if quick else (join.R_ROWS, join.S_ROWS)
    counts = (5_000, 20_000) if quick else tuple(join.THESIS_KB)
    found = [join.measure(count, events, *rows) for count in counts]
    params = {"events": events, "rows of R": rows[0], "rows of S": rows[1]}
    return Measured(params, {"by_subscriptions": found})


def _join_rate(quick: bool) -> Measured:
    events = JOIN_EVENTS[quick]
    found = join.by_output_rate(quick, events, join.STRATEGIES[1:])
    return Measured({"events": events, "subscriptions": found[0]["subscriptions"]}, {"by_rate": found})


def _join_many(quick: bool) -> Measured:
    found = join_many.run_many(quick)
    count, subscriptions = join_many.size(quick)
    return Measured({"events": count, "subscriptions": subscriptions}, {"schemas": found["schemas"]})


# -- the optimizer, updates, stages ------------------------------------------------------------------------------
def _optimizer(quick: bool) -> Measured:
    report = optimizer.run(quick)
    return Measured(report.params, report.figures)


def _updates_by_rate(name: str, quick: bool) -> Measured:
    rates, seconds = ([100], 0.1) if quick else ([50, 100], 0.25)
    found = parametric_network.by_rate(name, rates, seconds, quick)
    params = {"simulated seconds": seconds, "size": list(parametric_network.SIZES[name, quick])}
    return Measured(params, {name: found})


def _updates_by_size(name: str, quick: bool) -> Measured:
    sizes, seconds = ((4, 8), 0.1) if quick else ((10, 50, 150), 0.25)
    found = parametric_network.by_size(name, sizes, 50, seconds, quick)
    return Measured({"simulated seconds": seconds, "updates per s": 50, "sizes": sizes}, {name: found})


def _update_monitor(quick: bool) -> Measured:
    seconds = 0.5 if quick else 2.0
    rows = parametric_network.high_frequency((0.1, 0.2, 0.3), seconds, quick)
    params = {"simulated seconds": seconds, "trading": list(parametric_network.SIZES["trading", quick])}
    return Measured(params, {"by_share": rows})


def _stages(quick: bool) -> Measured:
    report = stages.run(quick)
    return Measured(report.params, report.figures)


# -- all of them -------------------------------------------------------------------------------------------------
_TOPOLOGY = {"topology": network_setting.SEED}
PARTS: dict[str, Part] = {
    "range-min-tuples": Part(_range_min_tuples, range_min.SEEDS),
    "range-min-subscriptions": Part(_range_min_subscriptions, range_min.SEEDS),
    **{
        f"networks-{name}": Part(partial(_minima, name), _TOPOLOGY | minima_workload.SEEDS, counts=True)
        for name in network_minima.FIGURES
    },
    "networks-serverless": Part(_serverless, _TOPOLOGY | {"all": network_serverless.SEED}, counts=True),
    "value-diff": Part(partial(_radii, "diff-rad"), {"all": value_change.SEED}),
    "value-same": Part(partial(_radii, "same-rad"), {"all": value_change.SEED}),
    **{
        f"networks-{name}": Part(partial(_value, name), _TOPOLOGY | {"all": networks_value.SEED}, counts=True)
        for name in networks_value.TITLES
    },
    "join": Part(_join, join_workload.SEEDS),
    "join-rate": Part(_join_rate, join_workload.SEEDS),
    "join-many": Part(_join_many, join_many.SEEDS, counts=True),
    **{
        f"networks-{name}": Part(partial(_joins, name), _TOPOLOGY | join_workload.SEEDS, counts=True)
        for name in network_joins.FIGURES
    },
    "networks-5.16": Part(_repositories, _TOPOLOGY | join_workload.SEEDS),  # takes all cores itself
    "optimizer": Part(_optimizer, optimizer.SEEDS),
    **{
        f"updates-by-{by}-{name}": Part(partial(measure, name), {"all": parametric_network.SEED})
        for name in parametric_network.WORKLOADS
        for by, measure in (("rate", _updates_by_rate), ("size", _updates_by_size))
    },
    "update-monitor": Part(_update_monitor, {"all": parametric_network.SEED}),
    "stages": Part(_stages, {"all": stages.SEED}, counts=True),
}
