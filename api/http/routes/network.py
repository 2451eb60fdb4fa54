"""/v1/network: brokers and links; and how brokers join, renew their lease and leave."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api import VERSION
from api.http.access import caller_of
from api.http.bodies import json_object
from api.http.models.preview_responses import JoinedBroker, LeftBroker, NetworkDescription, RenewedLease
from api.http.openapi import documented
from api.http.responses import answer, server
from prosem.brokers.membership import Membership
from prosem.brokers.protocol import agree
from prosem.brokers.requests import JoinBroker, LeaseRenewal
from prosem.values.access import Role
from prosem.values.request_model import read

router = APIRouter(prefix="/v1/network", tags=["network"])
_LIMIT_BYTES = 1 << 20


def _membership(request: Request) -> Membership:
    caller_of(request).check_service(Role.BROKER)
    return server(request).brokers.membership


@router.get("", **documented("Brokers and links", returns=NetworkDescription))
async def network(request: Request) -> Response:
    caller_of(request).check_service(Role.BROKER)
    made = server(request)
    found = made.brokers.report()
    links = [*made.edge.network.links(), *found["links"]]
    return answer({"network": made.network, **found, "links": links})


@router.post(
    "/brokers", status_code=201, **documented("Join as a broker", JoinBroker, 201, returns=JoinedBroker)
)
async def join(request: Request) -> Response:
    membership = _membership(request)
    given = read(JoinBroker, await json_object(request, _LIMIT_BYTES))
    spoken = agree(given.oldest_protocol, given.protocol, given.version, VERSION)
    joined = membership.join(given.name, given.url, spoken, given.advertised)
    made = server(request)
    said = {"protocol": spoken, "version": VERSION, "open": made.keys.is_open, "timeline": made.edge.timeline}
    return answer({**joined, **said}, 201)


@router.put(
    "/brokers/{name}",
    **documented("Renew a broker's lease; 404: join again", LeaseRenewal, returns=RenewedLease),
)
async def renew(request: Request, name: str) -> Response:
    membership, body = _membership(request), await json_object(request, _LIMIT_BYTES)
    return answer({**membership.renew(name, body), "open": server(request).keys.is_open})


@router.delete("/brokers/{name}", **documented("Leave as a broker", returns=LeftBroker))
async def leave(request: Request, name: str) -> Response:
    _membership(request).leave(name, request.query_params.get("node"))
    return answer({"name": name})
