"""Traces reach a collector: a span for the request with its stages, under the client's own trace."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from prosem.runtime.trace import CommandTrace
from tests.support.processes import ServerProcess

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector(HTTPServer):
    """Takes what an exporter sends."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.spans: list[Span] = []


class _Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        sent = ExportTraceServiceRequest()
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            import gzip

            body = gzip.decompress(body)
        sent.ParseFromString(body)
        assert isinstance(self.server, Collector)
        self.server.spans += [
            span for some in sent.resource_spans for scope in some.scope_spans for span in scope.spans
        ]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_spans_of_a_publish() -> None:
    with Collector() as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        made = ServerProcess("--otlp", f"http://127.0.0.1:{collector.server_port}")
        url = made.start()
        with httpx.Client(base_url=url, trust_env=False) as http:
            table = {"name": "t", "columns": [{"name": "k", "type": "integer"}], "primary_key": ["k"]}
            http.post("/v1/tables", json=table).raise_for_status()
            events = {"events": [{"op": "insert", "row": {"k": 1}}]}
            parent = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
            http.post("/v1/tables/t/events", json=events, headers=parent).raise_for_status()
            assert http.post("/v1/tables/t/events", json=events).status_code == 409
        made.remove()
        collector.shutdown()
    ours = [span for span in collector.spans if span.trace_id.hex() == TRACE]
    (whole,) = [span for span in ours if span.name == "Publish"]
    assert whole.parent_span_id.hex() == CALLER
    stages = sorted((span for span in ours if span is not whole), key=lambda span: span.start_time_unix_nano)
    assert [span.name for span in stages] == ["wait", "process", "gather", "commit", "deliver"]
    assert all(span.parent_span_id == whole.span_id for span in stages)
    assert whole.start_time_unix_nano == stages[0].start_time_unix_nano
    assert whole.end_time_unix_nano == stages[-1].end_time_unix_nano
    (failed,) = [span for span in collector.spans if span.name == "Publish" and span is not whole]
    assert failed.status.code == Status.STATUS_CODE_ERROR
    assert "exists" in failed.status.message


@pytest.mark.parametrize("moment", ["started", "processed", "commit", "committed", "delivered"])
def test_a_journey_that_ended_early_has_no_stage_without_an_end(moment: str) -> None:
    names = ["arrived", "started", "processed", "commit", "committed", "delivered"]
    reached = names[: names.index(moment)]
    command_trace = CommandTrace("Publish", 1, **{name: at + 1 for at, name in enumerate(reached)})
    assert len(command_trace.stages()) == len(reached) - 1
