"""Why figures of chapter 5 differ from [ProSem thesis], by what was measured."""

from __future__ import annotations

from bench.join import S_ROWS, THESIS_KB
from bench.join_walk import FLAVOURS
from bench.join_workload import KEYS
from bench.network_joins import PLAN, Stocks
from bench.papers.model import Comparison, Data, Line, beside, the


def boxes(data: Data, one: Comparison) -> str:
    """What plans take over zones in that line, and down a tree."""
    boxes, hops, sent, tree = (
        beside(data[name], one.line) for name in ("5.8 boxes", "5.7", "5.8", "5.8 tree")
    )

    def shown(plan: str) -> str:
        return (
            f"{plan} has {boxes[plan]:,.1f} boxes per event and passes {hops[plan]:,.0f} links with"
            f" {sent[plan] / hops[plan]:,.0f} bytes each; down the tree of cbn it takes {tree[plan]:,.0f} bytes"
        )

    plans = one.what.split(", ")[0].split(" over ")
    return (
        f"A zone gets a message once, with all its boxes. With {one.line['subscriptions']:,} subscriptions"
        f" {'. '.join(shown(plan) for plan in plans)}. The source gives neither its links nor the size of its messages."
    )


def unlike(data: Data, one: Comparison) -> str:
    hops, boxes = (data[name][0] for name in ("5.7", "5.8 boxes"))
    each = ", ".join(f"{plan} {boxes[plan]:,.1f} boxes and {hops[plan]:,.0f} links" for plan in FLAVOURS)
    return f"A message begins to spread at several zones where its boxes lie apart: {each}."


def once(name: str, data: Data, one: Comparison) -> str:
    """What messages take in that line, which each zone gets once."""
    sent, zones, boxes = (beside(data[f"{name}{what}"], one.line) for what in ("", " zones", " boxes"))

    def shown(plan: str) -> str:
        return f"{plan} {boxes[plan]:,.1f} boxes and {sent[plan]:,.0f} bytes at {zones[plan]:,.0f} zones"

    plans = ", ".join(map(shown, one.what.split(", ")[0].split(" over ")))
    return f"A zone gets a message once, with all its boxes: per event {plans}."


def perturbed(data: Data, one: Comparison) -> str:
    """Figure 5.15: how far apart the ratings of a stock are."""
    return (
        f"{once('5.15', data, one)} The 23 ratings of a stock make most of these boxes: the source perturbs ratings by a"
        f" normal distribution whose deviation it does not give. It is {Stocks.PERTURBED:,} here, where a range of S.C is"
        " 6,000 wide: few ratings lie in the same ranges, so that few can be described together."
    )


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
    row = beside(data["by_subscriptions"], one.line)
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
    row = beside(data["by_subscriptions"], one.line)
    us, other = row["us"], one.what.split(" over ")[1].split(",")[0]
    unlike = {
        "enum-sj": "one for each affected subscription",
        "ref-j+": "how many of its joined rows it skips is not given",
    }
    return (
        "-Sub makes a skyline of all affected subscriptions, which the source too calls slower:"
        f" {us['ref-sj-sub']:,.0f} µs for {row['affected']:,.0f} subscriptions affected by joined rows,"
        f" {us['ref-sj-sub'] / row['messages']['ref-sj-sub']:,.0f} for each message. {other} makes"
        f" {row['messages'][other]:,.1f} messages in {us[other]:,.0f} µs; the source's took longer:"
        f" {unlike[other]}."
    )


def _each(data: Data, one: Comparison) -> tuple[Line, str, str]:
    """The line that a comparison of a plan is of; its messages, and how many of them the paper's number is."""
    plan, row = one.what.split(", ")[0], beside(data["by_subscriptions"], one.line)
    size = 1_000 * row["kb"][plan] / row["messages"][plan]
    assert isinstance(one.paper, float | int)
    return (
        row,
        f"{row['messages'][plan]:,.2f} messages of {size:,.0f} bytes",
        f"{1_000 * one.paper / size:,.1f}",
    )


def named_once(data: Data, one: Comparison) -> str:
    row, ours, _ = _each(data, one)
    delivered = row["kb_delivered"]["enum-sj"]
    told = delivered * 1_000 / row["payload_bytes"]
    assert isinstance(one.paper, float | int)
    return (
        f"One message names all affected subscriptions here: {ours} per event. In the source each gets a message of"
        f" its own. What arrives at subscriptions is {delivered:,.1f} kB, about {told:,.0f} payloads"
        f" of {row['payload_bytes']} bytes, and the source's {one.paper:,.1f} kB are"
        f" {one.paper / delivered:.2f} times that."
    )


def one_row(data: Data, one: Comparison) -> str:
    row, ours, times = _each(data, one)
    return (
        f"{ours} leave the server per event: the row with its payload of {row['payload_bytes']} bytes, and one region"
        f" of its attribute, once. {_alike(row)}, and the source's {one.paper} kB are {times} of ours. It counts all that"
        " leaves the node in the CAN where messages are injected, which may pass a row on to several neighbours; ours"
        " sends it straight to one."
    )


def _alike(row: Line) -> str:
    """Whether messages weigh the same: of joined rows, nearly all is payload."""
    paper = THESIS_KB[row["subscriptions"]]["enum-j"]
    return (
        f"Messages weigh about the same, since enum-j, nearly all payload, takes {row['kb']['enum-j']:,.0f} kB here and"
        f" {paper:,.0f} there"
    )


def joined_rows(data: Data, one: Comparison) -> str:
    row, ours, times = _each(data, one)
    return (
        f"{ours} leave the server per event, out of {row['messages']['ref-j']:,.1f} joined rows of which the others"
        f" affect no subscription. A row of R that these events insert has {row['join_output_rate']:,.1f} partners in S,"
        f" and one of any key {S_ROWS / KEYS:.0f}. The source's {one.paper} kB are {times} such messages; it does not say"
        f" how many joined rows it skips. {_alike(row)}."
    )


def described(data: Data, one: Comparison) -> str:
    row, ours, times = _each(data, one)
    return (
        f"{ours} leave the server per event: an event that affects no join sends nothing, and a description"
        f" takes {row['description_bytes'][PLAN]:.1f} bytes, about the source's (table 5.4). {_alike(row)}. So the"
        f" difference is in the number of messages: the source's {one.paper} kB are {times} of ours. As with rel-sel,"
        " it counts what the node passes on to its neighbours."
    )


def general(data: Data, one: Comparison) -> str:
    """Figure 5.19: semijoins send rows of the other tables."""
    kb = data["schemas"]["general"]
    relaxed, best = (
        kb["rel-sel"],
        min((kb[name] for name in kb if name.startswith("s⋉")), key=lambda one: one[2]),
    )
    return (
        f"Relaxed rows take {relaxed[2]:,.1f} kB over the network here, and semijoins {best[2]:,.1f}; the source has 23,"
        f" and a ninth of it. {relaxed[0] * 1_000:,.0f} bytes leave the server per event by rel-sel, and"
        f" {best[0] * 1_000:,.0f} by semijoins, since a row that is the first of its key in some range makes rows of the"
        f" other tables needed there. They go to {best[2] / best[0]:,.0f} of 1,000 brokers, relaxed ones to"
        f" {relaxed[2] / relaxed[0]:,.0f}. Values of R have the distribution that the source gives for R.A, those of S, T"
        " and U that for S.C; it does not say which of its four tables has which."
    )


def star_kb(data: Data, one: Comparison) -> str:
    """Figure 5.20: how much leaves the server, and to how many brokers it goes."""
    kb = data["schemas"]["star, S with 0 bytes"]
    plan = one.what.split(" over ")[0]
    sent, delivered, carried = kb[plan]
    ours = kb[PLAN]
    best = min(kb[name][2] for name in kb if name.startswith("s⋉"))
    return (
        f"{plan} sends {sent:,.2f} kB per event from the server, each byte to {carried / sent:,.0f} brokers on average:"
        f" {carried:,.1f} kB, and {delivered:,.1f} at subscriptions. {PLAN} sends {ours[0]:,.2f}, to"
        f" {ours[2] / ours[0]:,.0f}: {ours[2]:,.1f}, and {ours[1]:,.1f} at subscriptions; with the best partner of S it is"
        f" {best:,.1f} kB. A fact has a row in each dimension: joined they are one message for each kind of join, and as"
        " semijoins a row of 100 bytes again wherever the fact is the first that needs it. The source does not say how"
        " many of its subscriptions a fact affects: that decides how often it is, and what enumeration takes."
    )


def fetched(data: Data, one: Comparison) -> str:
    """CN*: what the server sends of a plan over that network."""
    without, with_400 = (
        beside(data["cn_star"], one.line, network=one.line["network"], entries=entries)["server_bytes"]
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
    row = the(data["cn_star"], plan=plan, network="can", entries=entries)
    return (
        f"Over can with {entries} entries the last broker has a message of {plan} after {row['hop_latency']:.2f} hops,"
        f" and all its contents after {row['content_latency']:.2f}: a broker asks back along the way the message came,"
        " as far as the server."
    )
