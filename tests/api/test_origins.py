"""Pages of other origins in a browser's eyes: what a server and its workers allow."""

from __future__ import annotations

import pytest

from api.http.origins import origins
from prosem.values.errors import SetupError
from tests.support.live import Api
from tests.support.processes import ServerProcess

PAGE = "http://127.0.0.1:5173"
ELSEWHERE = "http://127.0.0.1:9"
ASKED = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,idempotency-key",
}


def test_what_is_no_origin_is_refused() -> None:
    assert origins("") == []
    assert origins("*") == ["*"]
    for text in ("app.example.org", "https://app.example.org/path", "ftp://x", "http://"):
        with pytest.raises(SetupError, match="--origins"):
            origins(text)


@pytest.mark.parametrize("options", [(), ("--workers", "1")])
def test_a_listed_page_reads_responses_and_others_do_not(
    options: tuple[str, ...], own_server: ServerProcess
) -> None:
    own_server.options = ("--origins", PAGE, *options)
    with Api(own_server.start()) as api:
        asked = api.http.options("/v1/tables/t/events", headers={"Origin": PAGE, **ASKED})
        assert asked.status_code == 200
        assert asked.headers["access-control-allow-origin"] == PAGE
        assert "PATCH" in asked.headers["access-control-allow-methods"]
        table = api.table({"k": "integer"}, ["k"])
        id = api.subscribe(f"SELECT * FROM {table}")["id"]
        for path in ("/v1/tables", "/v1/subscriptions/missing", "/readyz"):
            read = api.http.get(path, headers={"Origin": PAGE})
            assert read.headers.get_list("access-control-allow-origin") == [PAGE], path
        with api.http.stream("GET", f"/v1/subscriptions/{id}/stream", headers={"Origin": PAGE}) as stream:
            assert stream.headers["access-control-allow-origin"] == PAGE
        assert api.http.options("/v1/tables", headers={"Origin": ELSEWHERE, **ASKED}).status_code == 400
        assert (
            "access-control-allow-origin"
            not in api.http.get("/v1/tables", headers={"Origin": ELSEWHERE}).headers
        )
        assert api.http.get("/v1/tables", headers={"Origin": "https://app.example.org"}).status_code == 403


def test_without_the_setting_no_page_of_another_origin_reads(api: Api) -> None:
    assert "access-control-allow-origin" not in api.http.get("/v1/tables", headers={"Origin": PAGE}).headers
