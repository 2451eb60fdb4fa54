"""Every error a user of the client can meet.

    ProsemError                 status, code, detail, errors[{at, detail}]: an answer that is not 2xx
    ├── ConnectionLost          0  connection-lost    no answer came, however often it was tried
    ├── Closed                  0  closed             used after `close()`; an iteration just ends
    ├── OutOfStep               0  out-of-step        a change does not fit the answer before it
    ├── NotMonitorable          0  not-monitorable    a query whose answer cannot be checked by the client
    └── PartlyPublished         of the refusal        lines of an upload before the bad one are committed

`code` and `errors` are those of the server's problem document (RFC 9457); the server's documentation explains
each code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prosem_client.values import Published

_CODE_PREFIX = "urn:prosem:error:"


class ProsemError(Exception):
    """A refusal. `errors` points into the request: `{"at": "/events/17/row/per", "detail": …}`."""

    def __init__(self, status: int, code: str, detail: str, errors: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(f"{detail} ({code})")
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.highlight = ""
        """the line of a query with its fault marked, where the server shows it"""

    @classmethod
    def of_problem(cls, problem: Any, status: int = 500) -> ProsemError:
        """The error of a problem document; of anything else, one that shows it.

        >>> ProsemError.of_problem({"type": "urn:prosem:error:not-found", "status": 404, "detail": "no t"})
        ProsemError('no t (not-found)')
        """
        if not isinstance(problem, Mapping):
            return cls(status, f"http-{status}", str(problem)[:500] or "the answer is empty")
        status = problem.get("status", status)
        kind = str(problem.get("type", ""))
        code = kind.removeprefix(_CODE_PREFIX) if kind.startswith(_CODE_PREFIX) else f"http-{status}"
        detail = problem.get("detail") or problem.get("title") or code
        errors = problem.get("errors")
        error = cls(status, code, str(detail), errors if isinstance(errors, list) else ())
        error.highlight = str(problem.get("highlight") or "")
        return error


class ConnectionLost(ProsemError):
    """No answer. Whether a call that may not be repeated was carried out is unknown."""

    def __init__(self, detail: str) -> None:
        super().__init__(0, "connection-lost", detail)


class Closed(ProsemError):
    """Used after `close()`. An iteration ends instead of raising it."""

    def __init__(self, detail: str = "the subscription was closed by its user") -> None:
        super().__init__(0, "closed", detail)


class OutOfStep(ProsemError):
    """A change that removes what is not there or adds what is: the answer can no longer be trusted."""

    def __init__(self, detail: str) -> None:
        super().__init__(0, "out-of-step", detail)


class NotMonitorable(ProsemError):
    """An update monitor was asked for, but the exact answer does not follow from the one of a wider range."""

    def __init__(self, detail: str) -> None:
        super().__init__(0, "not-monitorable", detail)


class PartlyPublished(ProsemError):
    """An upload that was cut short: `published` is committed; `errors[].at` starts with the bad line."""

    def __init__(self, published: Published, cause: ProsemError) -> None:
        super().__init__(cause.status, cause.code, cause.detail, cause.errors)
        self.published = published
