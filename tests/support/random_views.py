"""Random views as SQL: every construct that a view may have, over tables and over other views.

Doubles are multiples of 0.25 and integers small, and every term knows how large it may become: no row fails, and sums of
doubles are the same in any order (`is_exact`), so that PostgreSQL's answer is the one answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

Chance = random.Random
EXACT = ("integer", "bigint", "numeric")  # the later one is the type of a sum of two
NUMBERS = (*EXACT, "double precision")
ORDERED = (*NUMBERS, "text", "date", "timestamptz")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
MOST = {"integer": 10**8, "bigint": 10**17, "numeric": 10**40, "double precision": 10**6}
MOST_ROWS = 60  # estimated, of a view
TEXTS = ("", "a", "ab", "B", "c")


@dataclass(frozen=True)
class Term:
    """An expression: its SQL, its type without precision, and the greatest number that it can be."""

    sql: str
    kind: str
    is_exact: bool = True
    size: int = 5

    @property
    def is_number(self) -> bool:
        return self.kind in NUMBERS

    @property
    def is_summed(self) -> bool:
        """Whether its sum is the same in any order."""
        return self.is_number and (self.is_exact or self.kind != "double precision")


@dataclass(frozen=True)
class Origin:
    """What FROM takes: a table, a view, or a join in the text. `columns`: by name, with the SQL that refers to each."""

    text: str
    columns: dict[str, Term]
    key: tuple[str, ...]
    rows: float = 8.0
    is_join: bool = False


class Scope:
    """A FROM of one or more origins: the terms that expressions are made of, and the columns of the key."""

    def __init__(self, chance: Chance, first: Origin) -> None:
        self._chance = chance
        self._aliases = iter("abcdefgh")
        alias = next(self._aliases)
        self.text, self.rows = f"{first.text} AS {alias}", first.rows
        self.terms = _qualified(alias, first)
        self._bare = dict(first.columns)  # names that stand for one column of the left side
        self._ambiguous: set[str] = set()
        self._merged: set[str] = set()  # by USING
        self.keys = [replace(first.columns[name], sql=f"{alias}.{name}") for name in first.key]

    def join(self, origin: Origin) -> bool:
        """Join one more; False if there are no columns to join by."""
        alias, chance = next(self._aliases), self._chance
        how = chance.choice(["JOIN", "INNER JOIN", "LEFT JOIN", "LEFT JOIN"])
        shared = [name for name in origin.columns if self._is_shared(name, origin)]
        again = [name for name in origin.columns if name in self._merged]  # to stay one column each
        if not set(again) <= set(shared):
            return False
        if again or (shared and chance.random() < 0.4):
            using = again or chance.sample(shared, chance.choice([1, 1, min(2, len(shared))]))
            on = f"USING ({', '.join(using)})"
        else:
            using = []
            pairs = [
                (left.sql, f"{alias}.{name}")
                for left in self.terms
                if "." in left.sql  # ON names the table of each column
                for name, right in origin.columns.items()
                if _is_alike(left, right)
            ]
            if not pairs:
                return False
            some = chance.sample(pairs, min(len(pairs), chance.choice([1, 1, 2])))
            on = "ON " + " AND ".join(
                " = ".join(pair if chance.random() < 0.5 else pair[::-1]) for pair in some
            )
        self.text += f" {how} {origin.text} AS {alias} {on}"
        self.rows = max(self.rows * origin.rows / 4, self.rows)
        self.terms += _qualified(alias, origin)
        self._name(origin, using)
        for name in origin.key:  # of a column of USING one suffices
            key = self._bare[name] if name in using else replace(origin.columns[name], sql=f"{alias}.{name}")
            if key not in self.keys:
                self.keys.append(key)
        return True

    def _is_shared(self, name: str, origin: Origin) -> bool:
        return (
            name not in self._ambiguous
            and name in self._bare
            and _is_alike(self._bare[name], origin.columns[name])
        )

    def _name(self, origin: Origin, using: Sequence[str]) -> None:
        for name, term in origin.columns.items():
            if name in using:
                left = self._bare[name]
                self._merged.add(name)
                self._bare[name] = replace(_wider(left, term), sql=name)
                self.terms.append(self._bare[name])
                self.keys = [self._bare[name] if key.sql.endswith(f".{name}") else key for key in self.keys]
            elif name in self._bare:
                self._ambiguous.add(name)
            else:
                self._bare[name] = term


def _qualified(alias: str, origin: Origin) -> list[Term]:
    return [replace(term, sql=f"{alias}.{name}") for name, term in origin.columns.items()]


def _is_alike(one: Term, other: Term) -> bool:
    return one.kind in (*ORDERED, "boolean") and (
        one.kind == other.kind or {one.kind, other.kind} <= set(EXACT)
    )


def _wider(one: Term, other: Term) -> Term:
    kind = max(one.kind, other.kind, key=NUMBERS.index) if one.is_number else one.kind
    return Term("", kind, one.is_exact and other.is_exact, max(one.size, other.size))


class Expressions:
    """Random expressions over some terms."""

    def __init__(self, chance: Chance, terms: Sequence[Term]) -> None:
        self._chance = chance
        self._numbers = [term for term in terms if term.is_number]
        self._texts = [term for term in terms if term.kind == "text"]
        self._flags = [term for term in terms if term.kind == "boolean"]
        self._others = [term for term in terms if term.kind in ("date", "timestamptz")]

    def any(self, depth: int = 2) -> Term:
        makers = [self.condition]
        makers += [self.number] * 3 if self._numbers else []
        makers += [self.text] * 2 if self._texts else []
        return self._chance.choice(makers)(depth)

    def number(self, depth: int) -> Term:
        chance = self._chance
        if not depth:
            return chance.choice(self._numbers)
        one = self.number(depth - 1)
        match chance.randrange(7):
            case 0 | 1:
                return self._arithmetic(one, self.number(depth - 1))
            case 2:
                return self._arithmetic(one, chance.choice([Term("2", "integer"), Term("1.5", "numeric")]))
            case 3:
                return self._divided(one, depth)
            case 4:
                return replace(one, sql=f"abs({one.sql})")
            case 5:
                if chance.random() < 0.2:
                    return replace(one, sql=f"CASE WHEN {self.condition(depth - 1).sql} THEN {one.sql} END")
                other = self.number(depth - 1)
                return replace(_wider(one, other), sql=self._chosen(one.sql, other.sql, depth))
        return self._cast(one, chance.choice(["bigint", "numeric", "numeric(30,4)", "double precision"]))

    def _arithmetic(self, one: Term, other: Term) -> Term:
        sign = self._chance.choice("+-*")
        size = one.size * other.size if sign == "*" else one.size + other.size
        made = replace(_wider(one, other), sql=f"({one.sql} {sign} {other.sql})", size=size)
        if size > MOST[made.kind]:
            return one
        if (
            made.kind == "double precision" and sign == "*" and size > 1000
        ):  # the products of 0.25 have more digits
            made = replace(made, is_exact=False)
        return made

    def _divided(self, one: Term, depth: int) -> Term:
        double = self._cast(one, "double precision")
        if self._chance.random() < 0.5:
            return replace(
                double, sql=f"({double.sql} / {self._chance.choice(['2', '4', '0.5'])})", size=2 * one.size
            )
        other = self._cast(self.number(depth - 1), "double precision")
        sql = f"CASE WHEN {other.sql} <> 0 THEN {double.sql} / {other.sql} END"
        return Term(sql, "double precision", False, 4 * one.size)

    def _cast(self, one: Term, to: str) -> Term:
        kind = "numeric" if to.startswith("numeric") else to
        if kind == one.kind or one.size > MOST[kind]:
            return one
        return replace(one, sql=f"CAST({one.sql} AS {to})", kind=kind)

    def text(self, depth: int) -> Term:
        chance = self._chance
        if not depth:
            return chance.choice(self._texts)
        one, other = self.text(depth - 1).sql, chance.choice([self.text(0).sql, f"'{chance.choice(TEXTS)}'"])
        match chance.randrange(3):
            case 0:
                return Term(f"({one} || {other})", "text")
            case 1:
                return Term(f"{chance.choice(['lower', 'upper'])}({one})", "text")
        return Term(self._chosen(one, other, depth), "text")

    def _chosen(self, one: str, other: str, depth: int) -> str:
        if self._chance.random() < 0.4:
            return f"COALESCE({one}, {other})"
        end = self._chance.choice([f" ELSE {other}", f" WHEN {self.condition(0).sql} THEN {other}"])
        return f"CASE WHEN {self.condition(depth - 1).sql} THEN {one}{end} END"

    def condition(self, depth: int) -> Term:
        chance = self._chance
        match chance.randrange(6) if depth else 0:
            case 1 | 2:
                one, other = self.condition(depth - 1).sql, self.condition(depth - 1).sql
                return Term(f"({one} {chance.choice(['AND', 'OR'])} {other})", "boolean")
            case 3:
                return Term(f"(NOT {self.condition(depth - 1).sql})", "boolean")
        return Term(chance.choice(list(self._atoms())), "boolean")

    def _atoms(self) -> Iterator[str]:
        chance = self._chance
        sign = chance.choice(COMPARISONS)
        for terms in (self._numbers, self._texts, self._flags, self._others):
            if terms:
                yield f"({chance.choice(terms).sql} IS {chance.choice(['', 'NOT '])}NULL)"
        if self._numbers:
            one, other = chance.choice(self._numbers).sql, chance.choice(self._numbers).sql
            yield f"({one} {sign} {chance.choice([other, '1', '0.5', '-1'])})"
            yield f"({one} {sign} {other})"
        if self._texts:
            one, other = chance.choice(self._texts).sql, chance.choice(self._texts).sql
            constant = chance.choice(["'ab'", "'a'"])
            yield f"({one} {sign} {chance.choice([other, constant])})"
        if self._flags:
            yield chance.choice(self._flags).sql
        if self._others:
            one = chance.choice(self._others)
            constant = {"date": "'2024-02-28'", "timestamptz": "'2024-02-28T00:00:02Z'"}[one.kind]
            yield f"({one.sql} {sign} {constant})"


class RandomViews:
    """Draws views over what there is. `origins` grows by each view that `add` is given."""

    def __init__(self, chance: Chance, tables: Sequence[Origin]) -> None:
        self._chance = chance
        self.origins = list(tables)

    def scope(self, parts: int) -> Scope:
        """A random FROM of up to so many origins."""
        chance = self._chance
        made = Scope(chance, chance.choice(self.origins))
        for _ in range(parts - 1):
            fitting = [one for one in self.origins if made.rows * one.rows / 4 <= MOST_ROWS]
            if not fitting or not made.join(chance.choice(fitting)):
                break
        return made

    def join(self) -> Origin | None:
        """A join for the FROM of a subscription, with names of its own for the columns; None if there is none."""
        scope = self.scope(self._chance.choice([2, 2, 3]))
        if " JOIN " not in scope.text:
            return None
        columns: dict[str, Term] = {}
        for term in [*scope.keys, *scope.terms]:
            if term not in columns.values():
                columns[f"c{len(columns)}"] = term
        return Origin(scope.text, columns, tuple(columns)[: len(scope.keys)], scope.rows, True)

    def draw(self, name: str) -> tuple[str, Origin]:
        """The SQL of a view and what it is to other queries."""
        chance = self._chance
        scope = self.scope(chance.choice([1, 1, 1, 2, 2, 2, 3, 3, 4, 6]))
        expressions = Expressions(chance, scope.terms)
        where = f" WHERE {expressions.condition(2).sql}" if chance.random() < 0.45 else ""
        if chance.random() < 0.35:
            return self._grouped(name, scope, expressions, where)
        items: dict[str, Term] = {}
        for key_term in scope.keys:
            items[f"k{len(items)}"] = key_term
        key = tuple(items)
        integers = [term for term in scope.terms if term.kind in ("integer", "bigint")]
        if integers:
            items["j"] = chance.choice(integers)
        for number in range(chance.randint(2, 5)):
            items[f"v{number}"] = expressions.any() if chance.random() < 0.6 else chance.choice(scope.terms)
        return _select(items) + scope.text + where, _origin(name, items, key, scope.rows)

    def _grouped(self, name: str, scope: Scope, expressions: Expressions, where: str) -> tuple[str, Origin]:
        chance = self._chance
        groupable = [term for term in scope.terms if term.kind in (*ORDERED, "boolean")]
        by = chance.sample(groupable, chance.choice([1, 1, 2]))
        integers = [term for term in by if term.kind in ("integer", "bigint")]
        items = {("j" if term in integers[:1] else f"k{number}"): term for number, term in enumerate(by)}
        key = tuple(items)
        for number in range(chance.randint(2, 4)):
            items[f"v{number}"] = self._aggregate(expressions, scope.rows)
        text = _select(items) + scope.text + where + f" GROUP BY {', '.join(term.sql for term in by)}"
        if chance.random() < 0.4:
            text += f" HAVING {' AND '.join(self._having(expressions, scope.rows) for _ in range(chance.choice([1, 1, 2])))}"
        return text, _origin(name, items, key, min(scope.rows, 8.0))

    def _aggregate(self, expressions: Expressions, rows: float) -> Term:
        chance = self._chance
        one = expressions.any(1)
        many = int(rows) * 20
        functions = ["COUNT"] + ["MIN", "MAX"] * (one.kind in ORDERED)
        if one.is_summed and one.size * many < MOST[one.kind]:
            functions += ["SUM", "SUM", "AVG"]
        match chance.choice(functions):
            case "COUNT":
                return Term(chance.choice(["COUNT(*)", f"COUNT({one.sql})"]), "bigint", True, many)
            case "SUM":
                kind = {"integer": "bigint", "bigint": "numeric"}.get(one.kind, one.kind)
                return Term(f"SUM({one.sql})", kind, one.is_exact, one.size * many)
            case "AVG":
                kind = "numeric" if one.kind in EXACT else one.kind
                return Term(f"AVG({one.sql})", kind, False, one.size)
            case function:
                return replace(one, sql=f"{function}({one.sql})")

    def _having(self, expressions: Expressions, rows: float) -> str:
        while True:
            one = self._aggregate(expressions, rows)
            if one.is_number:
                return f"{one.sql} {self._chance.choice(COMPARISONS)} {self._chance.randint(-1, 4)}"


def _select(items: dict[str, Term]) -> str:
    return f"SELECT {', '.join(f'{term.sql} AS {name}' for name, term in items.items())} FROM "


def _origin(name: str, items: dict[str, Term], key: tuple[str, ...], rows: float) -> Origin:
    return Origin(name, {item: replace(term, sql=item) for item, term in items.items()}, key, rows)
