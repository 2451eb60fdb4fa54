"""Why figures of chapter 3 differ from [ProSem thesis], by what was measured."""

from __future__ import annotations

from bench.papers.model import Comparison, Data, Line, beside, the


def _hops(name: str, data: Data, one: Comparison) -> Line:
    """The links of the line that a comparison is of."""
    return beside(data[f"{name} hops"], one.line)


def _passed(name: str, data: Data, one: Comparison, scheme: str) -> tuple[float, float]:
    """The links that a scheme passes per event in that line, and the bytes on each."""
    links = _hops(name, data, one)[scheme]
    return links, one.line[scheme] / max(1e-9, links)


def way(name: str, data: Data, one: Comparison) -> str:
    """S-CN: the way from the server to the event."""
    links, size = _passed(name, data, one, "S-CN")
    straight = _hops(name, data, one)["can"]
    return (
        f"S-CN passes {links:,.1f} links per event with {size:.0f} bytes each, almost all of them from the server to"
        f" the event's own zone, over neighbours: straight there (can) it is {straight:,.1f} links and"
        f" {one.line['can']:,.0f} bytes. Each of 1,000 zones has as many subscriptions, so that they form a band along"
        " the diagonal (figure 3.11: by zones)."
    )


def sent_anyway(name: str, data: Data, one: Comparison) -> str:
    """S-CN against what sends nothing for an update that affects no subscription."""
    listed = one.what.split(" over ")[1].split(",")[0]
    none, links = one.line["not affecting"], _hops(name, data, one)["S-CN"]
    return (
        f"{none:.1%} of these updates affect no subscription. {listed.capitalize()} sends nothing for them, and"
        f" {one.line[listed] / (1 - none):,.0f} bytes for each of the others; S-CN sends all of them, over"
        f" {links:,.1f} links, which takes {one.line['S-CN']:,.0f} bytes however many are affected,"
        f" {one.line['affected']:,.0f} on average here."
    )


def larger(name: str, data: Data, one: Comparison) -> str:
    s_cn, cn = (_passed(name, data, one, scheme) for scheme in ("S-CN", "CN"))
    return (
        f"S-CN passes fewer links, {s_cn[0]:,.1f} against {cn[0]:,.1f}, but its message holds the row and the region, in"
        f" {s_cn[1]:.0f} bytes; that of CN holds the row, in {cn[1]:.0f}."
    )


def holders(name: str, data: Data, one: Comparison) -> str:
    """CN: to all ranges that hold the event."""
    links, size = _passed(name, data, one, "CN")
    return (
        f"CN sends every update to all zones with a range that holds it, {links:,.1f} links of {size:.0f} bytes,"
        f" whether it affects a subscription or not ({one.line['not affecting']:.1%} affect none). 1 kB are"
        f" {1_000 / size:.0f} such links."
    )


def holders_listed(name: str, data: Data, one: Comparison) -> str:
    links, _ = _passed(name, data, one, "CN")
    return (
        f"With {one.line['subscriptions']:,} subscriptions an update affects {one.line['affected']:,.0f} on average,"
        f" and {one.line['not affecting']:.1%} of the updates none: multicast passes"
        f" {_hops(name, data, one)['multicast']:,.1f} links per event. CN passes {links:,.1f} for every update; it"
        " does not depend on the subscriptions, and is below multicast from 500,000 on."
    )


def _stress_rows(data: Data) -> tuple[Line, dict[str, Line]]:
    (seen,) = data["affected"]
    return seen, {row["scheme"]: row for row in data["table 3.4"]}


def lowest(data: Data, one: Comparison) -> str:
    seen, _ = _stress_rows(data)
    return (
        f"An update of the lowest row of all affects every range that holds it, and {seen['holding']:.1%} of the"
        f" 500,000 ranges hold an event's row on average. {seen['beyond the thesis']:,} of {seen['events']:,} events"
        f" affect more than 10,282 subscriptions, the largest {seen['most']:,}; {seen['none']:,} affect none. The"
        " source's largest event affects 2 % of the ranges; it does not give its walk without spikes."
    )


def one_tree(data: Data, one: Comparison) -> str:
    _, rows = _stress_rows(data)
    return (
        "Multicast goes down one tree of all brokers with a fan-out of 10, in a message for each region of an event:"
        f" {rows['multicast']['max node stress']} messages at the busiest node, as many as cbn sends there"
        f" ({rows['cbn']['max node stress']}). The source builds a skinny tree for each group."
    )


def regions(data: Data, one: Comparison) -> str:
    seen, rows = _stress_rows(data)
    return (
        f"The event with the busiest node has {seen['regions']} regions, and it sends {one.ours} messages: DS-CN sends"
        " a message for each region to each neighbour that it meets, and zones of as many subscriptions each spread"
        f" them over more nodes. {rows['DS-CN']['events without a message']} of the events are without a message, in"
        " the source 87 %."
    )


def _zones(data: Data, *columns: str) -> str:
    return "; ".join(
        f"{line['zones']:,} zones: " + ", ".join(f"{name} {line[name]:,.3g}" for name in columns)
        for line in data["3.11 zones"]
    )


def far(data: Data, one: Comparison) -> str:
    """S-CN: long ways, and long messages."""
    most, least = data["3.11 zones"][0], data["3.11 zones"][-1]
    size = most["S-CN, bytes"] / most["S-CN, links"]
    last = "S-CN, links of 97 %"
    straight = the(data["3.11"], **{"bytes below": 1_000})["can"]
    return (
        f"{most['links to the event']:,.1f} of S-CN's {most['S-CN, links']:,.1f} links per event lead from the server"
        f" to the event's zone, with {size:.0f} bytes each; straight there, {straight:.1%} of the events stay below 1"
        f" kB (can). Fewer zones alone do not explain the source's 97 %: with {least['zones']} zones it is"
        f" {least['S-CN below 1 kB']:.0%}, since 97 % of the events pass up to {least[last]} links, and 1 kB is"
        f" {1_000 / size:.0f} links of ours. It takes messages of {1_000 / least[last]:.0f} bytes over"
        f" {least['zones']} zones, or of {1_000 / most[last]:.0f} over {most['zones']:,}, where ours also holds a"
        " region, its course and a number. The source gives neither the bytes of its messages nor its zones."
    )


def fewer(data: Data, one: Comparison) -> str:
    """CN: with fewer zones it is as in the source."""
    (seen,) = data["affected"]
    return (
        f"CN goes to all ranges that hold the event, {seen['holding']:.1%} on average: with 1,000 zones of as many"
        " subscriptions each that is more than a hundred messages. The source's CAN also replicates zones with much"
        " traffic, so that its 1,000 brokers keep fewer zones; it does not say how many. The same events, as links"
        f" and as the share below 1 kB: {_zones(data, 'CN, links', 'CN below 1 kB')}."
    )


def rarely(data: Data, one: Comparison) -> str:
    """What an update that is not ignorable takes."""
    scheme = one.what.split(",")[0]
    share = max(1e-9, float(str(one.line["not ignorable"]).rstrip("%")) / 100)
    links = _hops("3.12", data, one)[scheme] / share
    size = one.line[scheme] / share / links
    where = {
        "S-CN": "nearly all on the way from the server to the event, over 1,000 zones (figure 3.11)",
        "DS-CN": "along the diagonal and over the zones that a region meets",
        "can": "from the server straight to the first zone of each region, and over the zones that it meets",
    }
    return (
        f"One of the {one.line['not ignorable']} that are not ignorable takes {one.line[scheme] / share:,.0f} bytes,"
        f" {links:,.1f} links of {size:.0f} bytes, {where[scheme]}. 100 bytes per update leave {100 / share:,.0f} for"
        f" it, {100 / share / size:.1f} of our messages; the source gives neither the size of its own nor its regions."
    )


def nothing_to_send(data: Data, one: Comparison) -> str:
    cut, served = (the(data["serverless"], network=name) for name in ("CN+", "S-CN"))
    return (
        f"CN+ sends every update on until a broker can tell that it lowers nothing, {cut['overlay_hops']:.2f} links"
        f" per update; S-CN only the {served['updates with a region']:.1%} of the updates that lower the minimum of"
        f" some range, in {served['overlay_hops']:.2f} links, from the server straight to the first zone."
    )
