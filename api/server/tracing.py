"""The way of an event as OpenTelemetry spans, sent to a collector (`--otlp`, the extra `otel`).

A span for each command, with a child for each stage: wait, process, gather, commit, deliver. A client that sends
`traceparent` sees it as a part of its own trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from api import VERSION
from prosem.runtime.trace import CommandTrace, TraceSink
from prosem.values.errors import SetupError


def tracer(address: str) -> tuple[TraceSink, Callable[[], None]]:
    """What takes command traces, and what sends the rest at the end; `address` is that of a collector (OTLP over HTTP)."""
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError as error:
        raise SetupError(
            f"--otlp needs the extra otel ({error.name} is missing): pip install 'prosem[otel]'"
        ) from error

    provider = TracerProvider(
        resource=Resource.create({"service.name": "prosem", "service.version": VERSION})
    )
    provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{address.rstrip('/')}/v1/traces"))
    )
    spans = provider.get_tracer("prosem", VERSION)
    propagator = TraceContextTextMapPropagator()

    def take(command_trace: CommandTrace) -> None:
        context = propagator.extract({"traceparent": command_trace.parent}) if command_trace.parent else None
        stages = command_trace.stages()
        attributes: dict[str, Any] = {"prosem.weight": command_trace.weight}
        whole = spans.start_span(
            command_trace.name, context, start_time=command_trace.arrived, attributes=attributes
        )
        inside = trace.set_span_in_context(whole)
        for name, begin, end in stages:
            spans.start_span(name, inside, start_time=begin).end(end)
        if command_trace.error:
            whole.set_status(trace.Status(trace.StatusCode.ERROR, command_trace.error))
        whole.end(stages[-1][2] if stages else command_trace.arrived)

    return take, provider.shutdown
