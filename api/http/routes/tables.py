"""/v1/tables: definitions."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.http.access import caller_of
from api.http.bodies import json_object
from api.http.models.operation_responses import Dropped
from api.http.models.responses import TableDefinition, TableList
from api.http.openapi import documented
from api.http.responses import answer, server
from prosem.engine import commands as c
from prosem.engine.table_request import NewTable
from prosem.engine.validate import known_table
from prosem.values.access import Role, Scope
from prosem.values.errors import NotFoundError
from prosem.values.model import View

router = APIRouter(prefix="/v1/tables", tags=["tables"])


def _publisher(request: Request) -> Scope:
    caller = caller_of(request)
    caller.check(Role.PUBLISHER)
    return caller.scope


@router.post("", status_code=201, **documented("Create a table", NewTable, 201, 200, returns=TableDefinition))
async def create(request: Request) -> Response:
    made, scope = server(request), _publisher(request)
    body = await json_object(request, made.settings.max_body_mb << 20)
    created: c.Created = await made.call(c.CreateTable(body, scope))
    return answer(created.table.definition(), 201 if created.is_new else 200)


@router.get("", **documented("All tables", returns=TableList))
async def index(request: Request) -> Response:
    tables = server(request).view.tables(caller_of(request).tenant)
    return answer(
        {"tables": [table.definition() for table in tables.values() if not isinstance(table, View)]}
    )


@router.get("/{table:path}/rows", include_in_schema=False)
async def rows(request: Request, table: str) -> Response:
    raise NotFoundError(f"rows are read by a subscription: SELECT * FROM {table!r}")


@router.get("/{table:path}", **documented("One table", returns=TableDefinition))
async def show(request: Request, table: str) -> Response:
    tables = server(request).view.tables(caller_of(request).tenant)
    return answer(known_table(tables, table).definition())


@router.delete("/{table:path}", **documented("Drop a table that no subscription uses", returns=Dropped))
async def drop(request: Request, table: str) -> Response:
    await server(request).call(c.DropTable(table, _publisher(request)))
    return answer({"name": table, "dropped": True})
