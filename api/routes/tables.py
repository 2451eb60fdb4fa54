"""/v1/tables: definitions."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.answers import answer, server
from api.bodies import json_object
from api.documents import TABLE, documented
from prosem import commands as c
from prosem.errors import NotFoundError
from prosem.validate import known_table

router = APIRouter(prefix="/v1/tables", tags=["tables"])


@router.post("", status_code=201, **documented("Create a table", TABLE))
async def create(request: Request) -> Response:
    made = server(request)
    body = await json_object(request, made.settings.max_body_mb << 20)
    created: c.Created = await made.call(c.CreateTable(body))
    return answer(created.table.definition(), 201 if created.is_new else 200)


@router.get("", **documented("All tables"))
async def index(request: Request) -> Response:
    return answer({"tables": [table.definition() for table in server(request).state.tables.values()]})


@router.get("/{table:path}/rows", include_in_schema=False)
async def rows(request: Request, table: str) -> Response:
    raise NotFoundError(f"rows are read by a subscription: SELECT * FROM {table!r}")


@router.get("/{table:path}", **documented("One table"))
async def show(request: Request, table: str) -> Response:
    return answer(known_table(server(request).state.tables, table).definition())


@router.delete("/{table:path}", **documented("Drop a table that no subscription uses"))
async def drop(request: Request, table: str) -> Response:
    await server(request).call(c.DropTable(table))
    return answer({"name": table, "dropped": True})
