"""Why figures of chapter 5 differ from [ProSem thesis], by what was measured."""

from __future__ import annotations

from bench.join_walk import FLAVOURS
from bench.network_joins import PLAN
from bench.papers.model import Comparison, Data, Line


def boxes(data: Data, one: Comparison) -> str:
    """What plans take over zones in that line, and down a tree."""
    count = one.line["subscriptions"]
    boxes, hops, sent, tree = (
        next(line for line in data[name] if line["subscriptions"] == count)
        for name in ("5.8 boxes", "5.7", "5.8", "5.8 tree")
    )

    def shown(plan: str) -> str:
        return (
            f"{plan} has {boxes[plan]:,.1f} boxes per event and passes {hops[plan]:,.0f} links with"
            f" {sent[plan] / hops[plan]:,.0f} bytes each; down the tree of cbn it takes {tree[plan]:,.0f} bytes"
        )

    plans = one.what.split(", ")[0].split(" over ")
    return (
        f"A zone gets a message once, with all its boxes. With {count:,} subscriptions"
        f" {'. '.join(shown(plan) for plan in plans)}. The source gives neither its links nor the size of its messages."
    )


def unlike(data: Data, one: Comparison) -> str:
    hops, boxes = (data[name][0] for name in ("5.7", "5.8 boxes"))
    each = ", ".join(f"{plan} {boxes[plan]:,.1f} boxes and {hops[plan]:,.0f} links" for plan in FLAVOURS)
    return f"A message begins to spread at several zones where its boxes lie apart: {each}."


def once(name: str, data: Data, one: Comparison) -> str:
    """What messages take in that line, which each zone gets once."""
    by = next(iter(one.line))
    at = next(at for at, line in enumerate(data[name]) if line[by] == one.line[by])
    sent, zones, boxes = (data[f"{name}{what}"][at] for what in ("", " zones", " boxes"))

    def shown(plan: str) -> str:
        return f"{plan} {boxes[plan]:,.1f} boxes and {sent[plan]:,.0f} bytes at {zones[plan]:,.0f} zones"

    plans = ", ".join(map(shown, one.what.split(", ")[0].split(" over ")))
    return f"A zone gets a message once, with all its boxes: per event {plans}."


def slopes(data: Data, one: Comparison) -> str:
    """What a message takes, and from how many subscriptions on enumeration would take longer."""
    first, last = data["by_subscriptions"][0], data["by_subscriptions"][-1]
    joined, named = ((first["us"][plan], first["messages"][plan]) for plan in ("ref-j+", "enum-sj"))
    more = last["us"]["enum-sj"] - first["us"]["enum-sj"]
    per_subscription = more / (last["subscriptions"] - first["subscriptions"])
    reached = last["subscriptions"] + (last["us"]["ref-j+"] - last["us"]["enum-sj"]) / per_subscription
    return (
        f"ref-j+ makes a message with a region for each of {joined[1]:,.1f} joined rows, in {joined[0] / joined[1]:,.0f} µs"
        f" each, in Python. enum-sj makes {named[1]:,.1f}, where the source sends one to each affected subscription: a"
        f" message names all of them, and compiled code finds them, in {1_000 * per_subscription:,.1f} µs per 1,000"
        f" subscriptions more. So it takes longer than ref-j+ from about {reached:,.0f} subscriptions on."
    )


def skipped(data: Data, one: Comparison) -> str:
    row = next(row for row in data["by_subscriptions"] if row["subscriptions"] == one.line["subscriptions"])
    us, messages = row["us"], row["messages"]
    return (
        f"ref-j makes {messages['ref-j']:,.1f} messages in {us['ref-j']:,.0f} µs, ref-j+ only the"
        f" {messages['ref-j+']:,.1f} that affect some subscription, in {us['ref-j+']:,.0f}. To find that out costs the"
        " source more than a message, here less:"
        f" {(us['ref-j'] - us['ref-j+']) / (messages['ref-j'] - messages['ref-j+']):,.1f} µs less for each that is"
        " left out."
    )


def skyline(data: Data, one: Comparison) -> str:
    """-Sub: a skyline of the subscriptions affected."""
    row = next(row for row in data["by_subscriptions"] if row["subscriptions"] == one.line["subscriptions"])
    us, other = row["us"], one.what.split(" over ")[1].split(",")[0]
    unlike = {
        "enum-sj": "one for each affected subscription",
        "ref-j+": "its joined rows per event are not given",
    }
    return (
        "-Sub makes a skyline of all affected subscriptions, which the source too calls slower:"
        f" {us['ref-sj-sub']:,.0f} µs for {row['affected']:,.0f} subscriptions affected by joined rows,"
        f" {us['ref-sj-sub'] / row['messages']['ref-sj-sub']:,.0f} for each message. {other} makes"
        f" {row['messages'][other]:,.1f} messages in {us[other]:,.0f} µs; the source's took longer:"
        f" {unlike[other]}."
    )


def _row_of(data: Data, one: Comparison) -> tuple[str, Line]:
    plan, count = one.what.split(", ", 1)
    size = int(count.split()[0].replace(",", ""))
    return plan, next(row for row in data["by_subscriptions"] if row["subscriptions"] == size)


def _each(data: Data, one: Comparison) -> tuple[str, str]:
    """How often the paper's number holds our message of a plan, and what is in it."""
    plan, row = _row_of(data, one)
    size = 1_000 * row["kb"][plan] / row["messages"][plan]
    assert isinstance(one.paper, float | int)
    return f"{row['messages'][plan]:,.2f} messages of {size:,.0f} bytes", f"{1_000 * one.paper / size:,.1f}"


def named_once(data: Data, one: Comparison) -> str:
    plan, row = _row_of(data, one)
    ours, _ = _each(data, one)
    told = row["kb_delivered"][plan] * 1_000 / row["payload_bytes"]
    assert isinstance(one.paper, float | int)
    return (
        f"One message names all affected subscriptions here: {ours} per event. In the source each gets a message of"
        f" its own. What arrives at subscriptions is {row['kb_delivered'][plan]:,.1f} kB, about {told:,.0f} payloads"
        f" of {row['payload_bytes']} bytes, and the source's {one.paper:,.1f} kB are"
        f" {one.paper / row['kb_delivered'][plan]:.2f} times that."
    )


def one_row(data: Data, one: Comparison) -> str:
    _, row = _row_of(data, one)
    ours, times = _each(data, one)
    return (
        f"{ours} leave the server per event: the row with its payload of {row['payload_bytes']} bytes, and one region"
        f" of its attribute, once. The source's {one.paper} kB are {times} of ours; it gives neither their size nor"
        " their number."
    )


def joined_rows(data: Data, one: Comparison) -> str:
    _, row = _row_of(data, one)
    ours, times = _each(data, one)
    return (
        f"{ours} leave the server per event, out of {row['messages']['ref-j']:,.1f} joined rows of which the others"
        f" affect no subscription. The source's {one.paper} kB are {times} such messages. It gives neither its joined"
        f" rows per event here, {row['join_output_rate']:,.1f} per insert in ours, nor the share that it skips."
    )


def described(data: Data, one: Comparison) -> str:
    plan, row = _row_of(data, one)
    ours, times = _each(data, one)
    return (
        f"{ours} leave the server per event: an event that affects no join sends nothing, and a description"
        f" takes {row['description_bytes'][plan]:.1f} bytes, about the source's (table 5.4). So the difference is in"
        f" the number of messages: the source's {one.paper} kB are {times} of ours. It does not give"
        " its own."
    )


def general(data: Data, one: Comparison) -> str:
    """Figure 5.19: semijoins send rows of the other tables."""
    semi, relaxed = (data["schemas"]["general"][plan] for plan in (PLAN, "rel-sel"))
    return (
        f"{PLAN} sends {semi[0]:,.2f} kB per event, {semi[0] / relaxed[0]:,.0f} times as much as the row of the event"
        f" by rel-sel, {relaxed[0]:,.2f}: with 10, 70, 70 and 30 rows per join key a row that is the first of its key"
        f" makes rows of the other tables needed. They go to {semi[2] / semi[0]:,.0f} of 1,000 brokers each,"
        f" {semi[2]:,.0f} kB in all, where the source has a ninth of rel-sel's 23. It gives neither its number of"
        " keys, 20 here, nor its conditions."
    )


def general_kb(data: Data, one: Comparison) -> str:
    """Figure 5.19: a relaxed row goes to many brokers."""
    sent, delivered, carried = data["schemas"]["general"]["rel-sel"]
    return (
        f"{sent * 1_000:,.0f} bytes leave the server per event, and each goes to {carried / sent:,.0f} of 1,000"
        f" brokers, those with a subscription whose condition on the event's own table holds: {carried:,.0f} kB, and"
        f" {delivered:,.0f} at subscriptions. The source's 23 kB are {23 / sent:,.0f} times what leaves the server"
        " here; it does not give its conditions."
    )


def star_kb(data: Data, one: Comparison) -> str:
    """Figure 5.20: how much leaves the server, and to how many brokers it goes."""
    kb = data["schemas"]["star, S with 0 bytes"]
    plan = one.what.split(" over ")[0]
    sent, delivered, carried = kb[plan]
    ours = kb[PLAN]
    return (
        f"{plan} sends {sent:,.2f} kB per event from the server, each byte to {carried / sent:,.0f} brokers on"
        f" average: {carried:,.1f} kB. {PLAN} sends {ours[0]:,.2f}, to {ours[2] / ours[0]:,.0f}: {ours[2]:,.1f}. Times"
        f" as much by what leaves the server {sent / ours[0]:,.2f}, by what arrives at subscriptions"
        f" {delivered / ours[1]:,.1f}. A fact has a row in each dimension: joined they are one message for each kind"
        " of join that it affects, and as semijoins a row of 100 bytes again wherever the fact is the first that"
        " needs it. The source does not say how many facts its subscriptions hold, which decides how often that is."
    )


def fetched(data: Data, one: Comparison) -> str:
    """CN*: what the server sends of a plan over that network."""
    without, with_400 = (
        next(
            row["server_bytes"]
            for row in data["cn_star"]
            if (row["plan"], row["network"], row["entries"])
            == (one.line["plan"], one.line["network"], entries)
        )
        for entries in ("-", 400)
    )
    return (
        f"{without:,.0f} bytes leave the server per event without repositories, {with_400:,.0f} with 400 entries:"
        f" about {without / 1_000:,.1f} and {with_400 / 1_000:,.1f} contents of 1,000 bytes. A relaxed row, and one"
        " that is new, is sent once in any case, so that only rows sent again are saved, and these are few for this"
        " plan."
    )


def asked_for(data: Data, one: Comparison) -> str:
    """CN*: hops of a message, and of the requests and contents that follow it."""
    plan, entries = one.line["plan"], one.line["entries"]
    row = next(
        row
        for row in data["cn_star"]
        if (row["plan"], row["network"], row["entries"]) == (plan, "can", entries)
    )
    return (
        f"Over can with {entries} entries the last broker has a message of {plan} after {row['hop_latency']:.2f} hops,"
        f" and all its contents after {row['content_latency']:.2f}: a broker asks back along the way the message came,"
        " as far as the server."
    )
