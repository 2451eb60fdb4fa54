"""Why figures of [Parametric], [Beretta] and [Multi-stage] differ, by what was measured."""

from __future__ import annotations

from bench.papers.model import Comparison, Data, Line

PUBLISHED = 2_000  # events/s, of which all figures but throughput are measured
METRICS = {"delay": "delay_ms", "spurious": "spurious_percent", "latency": "latency_ms"}
CHANCE, COVERING = "random, even events", "covering, even events"
NOT_KNOWN = "The source's brokers were Java programs on machines of their own; it does not give their times per request."


def value(metric: str, row: Line) -> float:
    """A metric of a strategy; throughput at the rates of events that were tried, at the least 2,000/s."""
    if metric == "throughput":
        return float(row["throughput_per_s"] if "throughput_per_s" in row else row["delivered_per_s"])
    return float(row[METRICS[metric]])


# -- updates against new subscriptions ---------------------------------------------------------------------------
def apart(data: Data, one: Comparison) -> str:
    """The two strategies of a comparison at the step where their ratio is best."""
    metric = one.what.split(", ")[2]
    mine, other, step = one.line["mine"], one.line["other"], one.line["step"]
    at = f"At {step:g} updates/s" if one.line["by"] == "updates/s" else f"With size {step:g}"
    is_reversed = isinstance(one.ours, float) and one.ours < 1
    explain = {"throughput": _carried, "spurious": _last_hop}.get(metric, _queues)
    way = ", the other way round" if is_reversed else ""
    return (
        f"{at}{way}: {explain(metric, mine, other)}{_rivals(mine, other) if metric == 'throughput' else ''}"
    )


def _busy(row: Line) -> str:
    return f"{100 * row['busiest_share']:.0f} %"


def _carried(metric: str, mine: Line, other: Line) -> str:
    def shown(row: Line) -> str:
        published = row.get("offered_per_s", PUBLISHED)
        least = "" if published == PUBLISHED else f" ({row['delivered_per_s']:,.0f} of {PUBLISHED:,})"
        return (
            f"by {row['mode']} {value('throughput', row):,.0f} events/s come to clients of {published:,.0f}"
            f" published{least}, and of {PUBLISHED:,} the busiest broker takes {_busy(row)} of its time"
        )

    frames = other["request_frames"] / max(1, mine["request_frames"])
    return (
        f"{shown(mine)}; {shown(other)}, with {other['request_frames']:,} frames of requests where {mine['mode']} has"
        f" {mine['request_frames']:,}, {frames:.1f} times as many. {NOT_KNOWN}"
    )


def _queues(metric: str, mine: Line, other: Line) -> str:
    """Delay and latency are those of links, unless a broker has more to do than time."""
    values = f"{value(metric, mine):,.1f} ms against {value(metric, other):,.1f}"
    busy = f"the busiest broker works {_busy(mine)} of the time, under {other['mode']} {_busy(other)}"
    rest = (
        "no queue builds up under either, and what is left is the time of the links"
        if max(mine["busiest_share"], other["busiest_share"]) < 1
        else "over 100 % a queue grows as long as the run lasts, below it what is left is the time of the links"
    )
    waits = (
        f" A delay also holds the time until an event of the new range is published: updates are in force after"
        f" {mine['in_force_ms']:,.0f} and {other['in_force_ms']:,.0f} ms."
        if metric == "delay"
        else ""
    )
    return f"{values}: {busy}; {rest}.{waits}"


def _last_hop(metric: str, mine: Line, other: Line) -> str:
    def shown(row: Line) -> str:
        count = f", {row['spurious']:,} deliveries" if "spurious" in row else ""
        return f"{value(metric, row):.2f} % by {row['mode']}{count}"

    return (
        f"{shown(mine)}, against {shown(other)}. What is spurious is under way between the client and its own broker"
        " when the range changes: that broker takes an update in at once under every strategy, and only its own queue"
        f" adds to the two links of 10 ms. That the others are told later, after {mine['in_force_ms']:,.0f} and"
        f" {other['in_force_ms']:,.0f} ms, adds none. {mine['mode']} delivers {mine['delivered_per_s']:,.0f} wanted"
        f" events/s meanwhile and {other['mode']} {other['delivered_per_s']:,.0f}."
    )


def _rivals(mine: Line, other: Line) -> str:
    """What else is known of two strategies."""
    if other["mode"] == "selectors sub":
        return (
            " The model of ActiveMQ has no summaries: a new selector is in force as soon as its own broker has it"
            f" ({other['in_force_ms']:,.0f} ms, {mine['in_force_ms']:,.0f} by updates), no other broker works for it,"
            " and an event is tested against the selectors of its own topic alone. It is a model of these two causes"
            " that the source names, and has none of the product's other costs."
        )
    if mine["mode"] == "fastint upd" and other["mode"] == "fastint upd exact":
        return f" Without bounds {other['request_frames']:,} frames carry what {mine['request_frames']:,} do with them."
    return ""


# -- the update monitor ------------------------------------------------------------------------------------------
def fewer_frames(data: Data, one: Comparison) -> str:
    wide, plain = one.line["mine"], one.line["other"]
    return (
        f"With {100 * one.line['step']:.0f} % of high frequency the monitor saves"
        f" {1 - wide['request_frames'] / plain['request_frames']:.0%} of the frames of updates,"
        f" {wide['request_frames']:,} instead of {plain['request_frames']:,}, and the busiest broker works"
        f" {_busy(wide)} of the time instead of {_busy(plain)}: {value('throughput', wide):,.0f} events/s come to"
        f" clients, without it {value('throughput', plain):,.0f}. The source does"
        " not give its rates of updates beyond 4/s."
    )


def wider(data: Data, one: Comparison) -> str:
    wide, plain = one.line["mine"], one.line["other"]
    return (
        f"With {100 * one.line['step']:.0f} % of high frequency {plain['spurious_percent']:.2f} % of what clients get"
        f" is spurious without the monitor, since an update is in force after {plain['in_force_ms']:,.0f} ms and the"
        f" busiest broker is {_busy(plain)} busy, and {wide['spurious_percent']:.2f} % with its wider ranges: a ratio"
        " of a small share. In the source brokers thrash without it (8.12)."
    )


# -- stages ------------------------------------------------------------------------------------------------------
def paper_stage_1(data: Data, one: Comparison) -> str:
    paper = {line["stage"]: line for line in data["paper"]["stages"]}[one.line["stage"]]
    nodes = one.line["nodes"]
    return (
        f"A broker has {one.line['filters']:g} filters and gets"
        f" {1_000 * one.line['rlc'] / one.line['filters']:.1%} of the events here. The source's own two numbers do"
        f" not agree: {nodes} nodes of {paper['rlc']:.0e} are {nodes * paper['rlc']:.2g} in all, and it has"
        f" {paper['rlc_total']:g}, which are {paper['rlc_total'] / nodes:.0e} each; ours is between, {one.ours:.1e}."
    )


def together(data: Data, one: Comparison) -> str:
    stage = one.line["stage"]
    chance = data[CHANCE]["stages"][stage]
    return (
        f"Covering puts subscriptions that are alike at one broker: {one.line['filters']:g} filters at a broker of"
        f" stage {stage} on average, where placed at random there are {chance['filters']:g}, which get more events"
        f" too: RLC {chance['rlc']:.1e}. The source's numbers agree with a random placement."
    )


def all_together(data: Data, one: Comparison) -> str:
    at_random = data[CHANCE]["rlc_total"]
    return f"As the stages above: placed at random, as the source's numbers are, it is {at_random:.2f}."
