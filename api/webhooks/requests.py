"""The request model of a webhook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx

from prosem.values.errors import InputError, pointer

_MEMBERS = ("url", "subscriptions", "id", "secret")
MAX_SUBSCRIPTIONS = 10_000
_LONGEST_URL = 2_000
_SHORTEST_SECRET, _LONGEST_SECRET = 16, 200


class WebhookRequest(NamedTuple):
    url: httpx.URL
    subscriptions: list[str]
    secret: str | None
    is_one: bool

    def at(self, id: str) -> str:
        """Where the body names a subscription."""
        return "/id" if self.is_one else pointer("subscriptions", self.subscriptions.index(id))


def webhook_request(body: Mapping[str, Any]) -> WebhookRequest:
    """InputError points at what is wrong."""
    for member in body:
        if member not in _MEMBERS:
            raise InputError(f"unknown member {member!r}; known are {', '.join(_MEMBERS)}", pointer(member))
    url, secret = read_url(body.get("url")), _secret(body.get("secret"))
    return WebhookRequest(url, _subscriptions(body), secret, "id" in body)


def read_url(given: Any) -> httpx.URL:
    """An address that can be posted to.

    >>> read_url("https://example.org/hook?a=1").host
    'example.org'
    """
    if not isinstance(given, str) or not given or len(given) > _LONGEST_URL:
        raise InputError(
            f"expected an address like https://…, at most {_LONGEST_URL} characters long", "/url"
        )
    try:
        url = httpx.URL(given)
        host = url.raw_host.decode("ascii")
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise InputError(f"this is no address: {error}", "/url") from None
    if url.scheme not in ("http", "https") or not host:
        raise InputError("expected an address that begins with https:// or http:// and names a host", "/url")
    if url.userinfo:
        raise InputError("an address holds no name and password: deliveries are signed instead", "/url")
    if url.fragment:
        raise InputError("an address that is posted to has no #fragment", "/url")
    if url.port == 0:
        raise InputError("there is no port 0", "/url")
    return url


def _subscriptions(body: Mapping[str, Any]) -> list[str]:
    given = body.get("subscriptions")
    if ("id" in body) == (given is not None):
        raise InputError('expected "subscriptions", a list of ids, or "id", the one of a subscription', "")
    if "id" in body:
        given, at = [body["id"]], "/id"
    else:
        at = "/subscriptions"
        if not isinstance(given, list) or not given:
            raise InputError("expected a list with the id of at least one subscription", at)
        if len(given) > MAX_SUBSCRIPTIONS:
            raise InputError(f"a webhook has at most {MAX_SUBSCRIPTIONS} subscriptions", at)
    for number, id in enumerate(given):
        if not isinstance(id, str) or not id or "\0" in id:
            raise InputError("expected the id of a subscription", at if "id" in body else f"{at}/{number}")
    if len(set(given)) < len(given):
        raise InputError("a subscription is named twice", at)
    return given


def _secret(given: Any) -> str | None:
    if given is None:
        return None
    if (
        not isinstance(given, str)
        or not _SHORTEST_SECRET <= len(given) <= _LONGEST_SECRET
        or not all("!" <= character <= "~" for character in given)
    ):
        raise InputError(
            f"expected {_SHORTEST_SECRET} to {_LONGEST_SECRET} printable ASCII characters without spaces,"
            " chosen at random; leave it out and the server makes one",
            "/secret",
        )
    return given
