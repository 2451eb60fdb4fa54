"""A key as somebody asks for it: by the body of POST /v1/keys, or by the options of `prosem keys create`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from prosem.language.predicates import read_predicates
from prosem.values.access import SERVICES, Limits, Predicates, Role, tenant_name
from prosem.values.columns import check_text
from prosem.values.errors import InputError, pointer
from prosem.values.model import DEFAULT_TENANT

_MEMBERS = ("name", "tenant", "roles", "rows", "limits")
LIMITS = tuple(field.name for field in fields(Limits))


class KeyRequest(NamedTuple):
    name: str
    tenant: str
    roles: frozenset[Role]
    rows: Predicates
    limits: Limits


def wanted_key(body: Mapping[str, Any], tenant: str) -> KeyRequest:
    """What the body asks for; `tenant` is the one of whoever asks."""
    for member in body:
        if member not in _MEMBERS:
            raise InputError(f"unknown member {member!r}; known are {', '.join(_MEMBERS)}", pointer(member))
    name = body.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= 200:
        raise InputError("expected a name of 1 to 200 characters that tells what the key is for", "/name")
    try:
        check_text(name)
    except ValueError as error:
        raise InputError(str(error), "/name") from None
    roles, rows = _roles(body.get("roles")), read_predicates(body.get("rows"))
    if rows and roles != {Role.SUBSCRIBER}:
        raise InputError("a key with row predicates only subscribes: its one role is subscriber", "/roles")
    tenant = tenant_name(body.get("tenant", tenant))
    if tenant != DEFAULT_TENANT and roles & SERVICES:
        known = " and ".join(sorted(SERVICES))
        raise InputError(
            f"the roles {known} concern all tenants: their keys are of {DEFAULT_TENANT!r}", "/roles"
        )
    return KeyRequest(name, tenant, roles, rows, _limits(body.get("limits")))


def _roles(given: Any) -> frozenset[Role]:
    known = ", ".join(Role)
    if not isinstance(given, list) or not given:
        raise InputError(f"expected a list of roles; they are {known}", "/roles")
    for at, role in enumerate(given):
        if role not in list(Role):
            raise InputError(f"there is no role {role!r}; the roles are {known}", pointer("roles", at))
    return frozenset(map(Role, given))


def _limits(given: Any) -> Limits:
    if given is None:
        return Limits()
    if not isinstance(given, dict):
        raise InputError("expected an object with a number for each limit", "/limits")
    for name, limit in given.items():
        if name not in LIMITS:
            raise InputError(
                f"there is no limit {name!r}; the limits are {', '.join(LIMITS)}", pointer("limits", name)
            )
        if type(limit) is not int or not 0 <= limit < 2**53 or (name == "events_per_second" and not limit):
            raise InputError("expected a whole number that is not negative", pointer("limits", name))
    return Limits(**given)
