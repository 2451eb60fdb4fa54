"""Callers: the tenant, the roles and the limits of a key, and what a command may reach.

A tenant sees its own tables and subscriptions alone; what is another's does not exist for it. A key with row predicates
also sees only the subscriptions that it made itself, since those of others may show rows that it must not see.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from prosem.values.errors import ForbiddenError, InputError
from prosem.values.model import DEFAULT_TENANT

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
TENANT_EXPECTED = (
    "a tenant's name has 1 to 40 characters: a-z, 0-9, _ and -, and begins with a letter or digit"
)


class Role(StrEnum):
    """What a key may do. An admin may do everything in its tenant; `metrics` and `broker` are roles of services."""

    ADMIN = "admin"
    PUBLISHER = "publisher"
    SUBSCRIBER = "subscriber"
    METRICS = "metrics"
    BROKER = "broker"


SERVICES = frozenset(
    {Role.METRICS, Role.BROKER}
)  # they concern all tenants, so their keys are of the tenant `default`


class Scope(NamedTuple):
    """What a command reaches: one tenant's tables and subscriptions, with `own` only subscriptions of this key."""

    tenant: str = DEFAULT_TENANT
    key: int = 0
    own: bool = False


WHOLE = Scope()
Predicate = Mapping[str, tuple[object, ...]]  # column → the values it may have
Predicates = Mapping[str, Predicate]  # table ("*": every one) → predicate
NO_PREDICATES: Predicates = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Limits:
    """What a key may use; None is no limit."""

    subscriptions: int | None = None
    events_per_second: int | None = None
    sockets: int | None = None
    frame_bytes: int | None = None
    comparisons: int | None = None
    webhooks: int | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request. Without keys each is the operator: that is why such a server listens on loopback alone."""

    tenant: str = DEFAULT_TENANT
    roles: frozenset[Role] = frozenset(Role)
    key: int = 0
    name: str = ""
    rows: Predicates = field(default_factory=lambda: NO_PREDICATES)
    limits: Limits = Limits()

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.key, bool(self.rows))

    def shown(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "name": self.name,
            "tenant": self.tenant,
            "roles": sorted(self.roles),
            "rows": {table: dict(predicate) for table, predicate in self.rows.items()},
            "limits": {name: limit for name, limit in asdict(self.limits).items() if limit is not None},
        }

    @classmethod
    def read(cls, shown: Mapping[str, Any]) -> Caller:
        """The caller that was shown like this."""
        rows = {
            table: {column: tuple(values) for column, values in predicate.items()}
            for table, predicate in shown["rows"].items()
        }
        roles = frozenset(map(Role, shown["roles"]))
        return cls(shown["tenant"], roles, shown["key"], shown["name"], rows, Limits(**shown["limits"]))

    @property
    def is_operator(self) -> bool:
        """Whether this caller sees to the whole server: an admin of the tenant `default`."""
        return Role.ADMIN in self.roles and self.tenant == DEFAULT_TENANT

    def check(self, *roles: Role) -> None:
        """ForbiddenError unless the caller has one of the roles, or is an admin."""
        if not self.roles & {*roles, Role.ADMIN}:
            needed = " or ".join(dict.fromkeys([*roles, Role.ADMIN]))
            raise ForbiddenError(f"this needs a key with the role {needed}")

    def check_operator(self) -> None:
        if not self.is_operator:
            raise ForbiddenError(f"this concerns all tenants: it needs an admin's key of {DEFAULT_TENANT!r}")

    @property
    def is_service(self) -> bool:
        """Whether the key is for Prometheus or a broker alone: it reaches nothing of a tenant."""
        return self.roles <= SERVICES

    def check_service(self, role: Role) -> None:
        """ForbiddenError unless the caller has this role of a service, or is the operator."""
        if not self.is_operator and not (role in self.roles and self.tenant == DEFAULT_TENANT):
            raise ForbiddenError(
                f"this concerns all tenants: it needs a key of {DEFAULT_TENANT!r} with the role {role} or admin"
            )

    def check_may_make(self, tenant: str, limits: Limits) -> None:
        """ForbiddenError for a key that would reach further than the key that makes it."""
        if tenant != self.tenant and not self.is_operator:
            raise ForbiddenError(f"this key makes keys of the tenant {self.tenant!r} alone")
        self.check_sees_all()
        own, wanted = asdict(self.limits), asdict(limits)
        for name, most in own.items():
            if most is not None and (wanted[name] is None or wanted[name] > most):
                raise ForbiddenError(
                    f"this key has the limit {name}={most}, and so must a key that it makes: give limits with"
                    f" {name} of at most {most}"
                )

    def check_sees_all(self) -> None:
        """ForbiddenError for a key with row predicates: the answer would show rows that it must not see."""
        if self.rows:
            raise ForbiddenError("a key with row predicates cannot ask this; it shows all rows")


KEYLESS = Caller()  # of a server without keys


def tenant_name(name: object, at: str = "/tenant") -> str:
    """A tenant's name: it becomes a part of a schema's name, and is compared without regard to case."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(TENANT_EXPECTED, at)
    return name
