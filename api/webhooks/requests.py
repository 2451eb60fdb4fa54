"""The request models of webhooks: a new one, and dead letters that are delivered again."""

from __future__ import annotations

import uuid
from typing import Annotated, ClassVar, NamedTuple

import httpx
from msgspec import UNSET, UnsetType

from prosem.values.errors import InputError, pointer
from prosem.values.model import JsonObject
from prosem.values.request_model import RequestModel, expected, read

MAX_SUBSCRIPTIONS = 10_000
MAX_DELIVERIES = 1_000
_LONGEST_URL = 2_000
_SHORTEST_SECRET, _LONGEST_SECRET = 16, 200
_URL = f"expected an address like https://…, at most {_LONGEST_URL} characters long"
_SECRET = (
    f"expected {_SHORTEST_SECRET} to {_LONGEST_SECRET} printable ASCII characters without spaces,"
    " chosen at random; leave it out and the server makes one"
)
_ID = "expected the id of a subscription"
SubscriptionId = Annotated[str, expected(_ID, min_length=1, pattern=r"^[^\x00]*$")]


class NewWebhook(RequestModel, frozen=True):
    """A webhook that is to be made: for `subscriptions`, or for one, `id`."""

    example: ClassVar[JsonObject | None] = {
        "url": "https://example.org/hook",
        "subscriptions": ["my-dashboard"],
    }
    url: Annotated[
        str,
        expected(
            _URL,
            min_length=1,
            max_length=_LONGEST_URL,
            description="https://… that changes are posted to",
        ),
    ]
    subscriptions: (
        Annotated[
            list[SubscriptionId],
            expected(
                lambda given: (
                    f"a webhook has at most {MAX_SUBSCRIPTIONS} subscriptions"
                    if isinstance(given, list) and given
                    else "expected a list with the id of at least one subscription"
                ),
                min_length=1,
                max_length=MAX_SUBSCRIPTIONS,
            ),
        ]
        | None
    ) = None
    id: (
        Annotated[
            str,
            expected(
                _ID, min_length=1, pattern=r"^[^\x00]*$", description="one subscription, instead of a list"
            ),
        ]
        | UnsetType
    ) = UNSET
    secret: (
        Annotated[
            str,
            expected(
                _SECRET,
                pattern=f"^[!-~]{{{_SHORTEST_SECRET},{_LONGEST_SECRET}}}$",
                description="what deliveries are signed with (default: one that the answer shows, this once)",
            ),
        ]
        | None
    ) = None

    def __post_init__(self) -> None:
        if self.secret is not None and self.secret.endswith("\n"):  # which `$` of the pattern allows
            raise InputError(_SECRET, "/secret")
        if (self.id is UNSET) == (self.subscriptions is None):
            raise InputError(
                'expected "subscriptions", a list of ids, or "id", the one of a subscription', ""
            )
        if self.subscriptions is not None and len(set(self.subscriptions)) < len(self.subscriptions):
            raise InputError("a subscription is named twice", "/subscriptions")


class Redelivery(RequestModel, frozen=True):
    """Dead letters that are delivered again."""

    deliveries: (
        Annotated[
            list[Annotated[uuid.UUID, expected("expected the id of a delivery")]],
            expected(
                f"expected a list of at most {MAX_DELIVERIES} deliveries",
                max_length=MAX_DELIVERIES,
                description="which ones (default: all)",
            ),
        ]
        | None
    ) = None

    @classmethod
    def unknown(cls, name: str) -> str:
        return f"unknown member {name!r}; known is deliveries"


class WebhookRequest(NamedTuple):
    url: httpx.URL
    subscriptions: list[str]
    secret: str | None
    is_one: bool

    def at(self, id: str) -> str:
        """Where the body names a subscription."""
        return "/id" if self.is_one else pointer("subscriptions", self.subscriptions.index(id))


def webhook_request(body: JsonObject) -> WebhookRequest:
    """The webhook that the body describes; InputError points at what is wrong."""
    given = read(NewWebhook, body)
    ids = given.subscriptions or [] if isinstance(given.id, UnsetType) else [given.id]
    return WebhookRequest(read_url(given.url), ids, given.secret, given.id is not UNSET)


def read_url(given: str) -> httpx.URL:
    """An address that can be posted to.

    >>> read_url("https://example.org/hook?a=1").host
    'example.org'
    """
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
