"""Why figures of chapter 4 differ from [ProSem thesis], by what was measured."""

from __future__ import annotations

from bench.papers.model import Comparison, Data, Line, beside, the


def links(ours: str, data: Data, one: Comparison) -> str:
    """Ours goes to every broker concerned; unicast to every subscription."""
    row, unicast = (beside(data["rows"], one.line, network=name) for name in (ours, "one by one"))
    size, alone = (each["traffic_bytes"] / max(1e-9, each["overlay_hops"]) for each in (row, unicast))
    return (
        f"{_fired(row)}{ours} passes {row['overlay_hops']:,.1f} links of {size:.0f} bytes per operation, unicast"
        f" {unicast['overlay_hops']:,.1f} of {alone:.0f}: ours goes to each broker concerned by each message, unicast"
        " to each subscription, and a link of ours stands for"
        f" {unicast['overlay_hops'] / max(1e-9, row['overlay_hops']):,.1f} of these. An order of magnitude takes more"
        " subscriptions at a broker."
    )


def _fired(row: Line) -> str:
    """How many events notify some subscription, and at how many brokers."""
    return (
        f"{row['fired']:,} of {row['events']:,} events notify some subscription, each of them at {row['hosts']:,.1f}"
        f" brokers on average, by {row['messages']:,.1f} messages. "
    )


def few_links(data: Data, one: Comparison) -> str:
    row = beside(data["rows"], one.line, network="CN(lid)")
    size = row["traffic_bytes"] / max(1e-9, row["overlay_hops"])
    share = row["fired"] / row["events"]
    return (
        f"{_fired(row)}An event takes {row['overlay_hops']:,.2f} links of {size:.0f} bytes on average, and one that"
        f" notifies {row['overlay_hops'] / share:,.0f}. 100 bytes per event leave"
        f" {100 / share:,.0f} for one that notifies, {100 / share / max(1, row['hosts']):,.1f} for each broker"
        " concerned: less than a message. The source does not say at how many brokers its subscriptions are."
    )


def passed_on(ours: str, data: Data, one: Comparison) -> str:
    """Node stress of ours: what the busiest broker passes on."""
    row = beside(data["rows"], one.line, network=ours)
    return (
        f"{_fired(row)}The busiest broker passes {row['max_node_stress']:,} on: a message goes from part to part of"
        f" the range tree, and each broker passes it to those next to its own, {row['overlay_hops']:,.1f} links per"
        " event in all. The source counts the messages between the zones of its CAN, and does not say how many"
        " neighbours a zone has."
    )


def many_arrivals(data: Data, one: Comparison) -> str:
    """What falls in the source: operations are arrivals, and these cost less than events."""
    name = one.what.split(",")[0]
    network = "one by one" if name == "unicast" else name
    first, last = the(data["rows"], network=network), beside(data["rows"], one.line, network=network)

    def shown(row: Line) -> str:
        each = row["traffic_bytes"] * (1 + row["arrivals"])
        return (
            f"{_fired(row)}With {row['arrivals']:g} arrivals per event an event affects {row['affected']:,.1f}"
            f" subscriptions, and takes {each:,.0f} bytes with its arrivals, {row['traffic_bytes']:,.0f} per operation"
        )

    return f"{shown(first)}. {shown(last)}."
