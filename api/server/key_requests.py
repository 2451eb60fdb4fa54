"""The request model of API keys: the body of POST /v1/keys, and the options of `prosem keys create`."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from prosem.language.predicates import MOST_VALUES, read_predicates
from prosem.values.access import SERVICES, TENANT_EXPECTED, Limits, Predicates, Role, tenant_name
from prosem.values.columns import check_text
from prosem.values.errors import InputError
from prosem.values.model import DEFAULT_TENANT, JsonObject
from prosem.values.request_model import RequestModel, expected, read

LIMITS = tuple(field.name for field in fields(Limits))
_ROLES = ", ".join(Role)
_WHOLE = "expected a whole number that is not negative"
Limit = Annotated[int, expected(_WHOLE, ge=0, lt=2**53)] | UnsetType
Rate = Annotated[int, expected(_WHOLE, ge=1, lt=2**53)] | UnsetType
RoleName = Annotated[Role, expected(lambda role: f"there is no role {role!r}; the roles are {_ROLES}")]
_Values = Annotated[list[Any], expected(f"expected a list of 1 to {MOST_VALUES} values", min_length=1)]
_Condition = Annotated[str | dict[str, _Values], expected("expected a condition like sector = 'tech'")]


class KeyLimits(RequestModel, frozen=True):
    """What the key may use; a limit that is left out is none."""

    expected = "expected an object with a number for each limit"
    subscriptions: Limit = UNSET
    events_per_second: Rate = UNSET
    sockets: Limit = UNSET
    frame_bytes: Limit = UNSET
    comparisons: Limit = UNSET
    webhooks: Limit = UNSET

    @classmethod
    def unknown(cls, name: str) -> str:
        return f"there is no limit {name!r}; the limits are {', '.join(LIMITS)}"


class NewKey(RequestModel, frozen=True):
    """An API key that is to be made."""

    example: ClassVar[JsonObject | None] = {
        "name": "the tech desk",
        "roles": ["subscriber"],
        "rows": {"stocks": "sector = 'tech'"},
    }
    name: Annotated[
        str,
        expected(
            "expected a name of 1 to 200 characters that says what the key is for",
            min_length=1,
            max_length=200,
            description="what it is for",
        ),
    ]
    roles: Annotated[list[RoleName], expected(f"expected a list of roles; they are {_ROLES}", min_length=1)]
    tenant: Annotated[str, expected(TENANT_EXPECTED, pattern="^[a-z0-9][a-z0-9_-]{0,39}$")] | UnsetType = (
        UNSET
    )
    rows: (
        Annotated[
            dict[str, _Condition],
            expected(
                "expected an object with a condition for each table (* for all tables)",
                description="a condition for each table of which the key sees some rows only",
            ),
        ]
        | None
    ) = None
    limits: KeyLimits | None = None


class KeyRequest(NamedTuple):
    name: str
    tenant: str
    roles: frozenset[Role]
    rows: Predicates
    limits: Limits


def read_key_request(body: Any, tenant: str) -> KeyRequest:
    """The key that the body describes; `tenant` is that of the caller."""
    given = read(NewKey, body)
    try:
        check_text(given.name)
    except ValueError as error:
        raise InputError(str(error), "/name") from None
    roles, rows = frozenset(given.roles), read_predicates(given.rows)
    if rows and roles != {Role.SUBSCRIBER}:
        raise InputError("a key with row predicates only subscribes: its one role is subscriber", "/roles")
    tenant = tenant_name(tenant if given.tenant is UNSET else given.tenant)
    if tenant != DEFAULT_TENANT and roles & SERVICES:
        known = " and ".join(sorted(SERVICES))
        raise InputError(
            f"the roles {known} concern all tenants: their keys are of {DEFAULT_TENANT!r}", "/roles"
        )
    limits = {} if given.limits is None else msgspec.to_builtins(given.limits)
    return KeyRequest(given.name, tenant, roles, rows, Limits(**limits))
