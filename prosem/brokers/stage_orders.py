"""The order of attributes for multi-stage filtering, by the columns of tables ([Multi-stage] 3.3: publishers advertise it).

A stage far from the subscribers filters on the most general attributes alone. Which these are is known to the publishers of
a table: the option names its columns, and every space over the table takes its order from them.
"""

from __future__ import annotations

from collections.abc import Mapping

from prosem.types.base import AttributedForm, Form

StageOrders = Mapping[str, tuple[str, ...]]  # of tables by name: columns, most general first


def read_stage_orders(text: str) -> dict[str, tuple[str, ...]]:
    """Orders as they are given; ValueError names what is wrong.

    >>> read_stage_orders("stocks=sector,price; trades=venue")
    {'stocks': ('sector', 'price'), 'trades': ('venue',)}
    """
    orders: dict[str, tuple[str, ...]] = {}
    for item in filter(None, (part.strip() for part in text.split(";"))):
        table, _, names = item.partition("=")
        columns = tuple(name.strip() for name in names.split(","))
        if not table.strip() or not all(columns) or len(set(columns)) != len(columns):
            raise ValueError(f"expected table=column,column with semicolons between tables, not {item!r}")
        orders[table.strip()] = columns
    return orders


def stage_order(form: Form, orders: StageOrders) -> tuple[int, ...] | None:
    """The attributes of a form's space in the order of the named columns, and no others; None without an order."""
    if not isinstance(form, AttributedForm) or len(form.tables) != 1:
        return None
    table = form.tables[0]
    columns = [table.position[name] for name in orders.get(table.name, ()) if name in table.position]
    named = [at for column in columns for at, own in enumerate(form.attributes) if own == column]
    return tuple(named) or None
