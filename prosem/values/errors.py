"""Every error a user can meet.

    ProsemError                     code, status, detail, errors[{at, detail}]
    ├── InputError                  422  bad-input            a value, a name or a shape is wrong
    │   ├── MalformedError          400  malformed            the body is no JSON, or not of the expected kind
    │   ├── LanguageError           422  bad-sql              with line, column and a highlight
    │   ├── TooLargeError           413  too-large            a limit of the configuration
    │   ├── RefusedError            422  refused              PostgreSQL does not take what the request holds
    │   └── ViewRowError            422  view-row             a view cannot have a row that follows from the request
    ├── UnauthorizedError           401  unauthorized         no key, or one that is not known
    ├── ForbiddenError              403  forbidden            the key has not the role for it
    ├── NotFoundError               404  not-found
    ├── ConflictError               409  conflict             the present state forbids it
    ├── LaterError                                            try again after `retry_after_s`
    │   ├── LimitError              429  limit                a limit of the key
    │   └── BusyError               503  busy                 too much waits
    │       ├── RecoveringError     503  recovering           indexes are being rebuilt
    │       ├── CommitError         503  commit-failed        PostgreSQL refused a batch; nothing of it was applied
    │       └── ResourceError       503  no-resources         PostgreSQL cannot write (a full disk); reads go on
    ├── UnknownOutcomeError         502  unknown-outcome      never an answer: the connection is closed instead
    └── SetupError                  500  setup                the installation: wrong schema, taken database, no PostgreSQL

A code never changes its meaning; `docs/errors.md` explains each one and a test compares the two.
"""

from __future__ import annotations

from typing import Any, ClassVar


class ProsemError(Exception):
    """Base of the tree. `detail` says what was wrong and what to do; `at` is a JSON pointer into the request."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal error"

    def __init__(self, detail: str, at: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.at = at

    def problem(self) -> dict[str, Any]:
        """The error as an RFC 9457 problem document."""
        document: dict[str, Any] = {
            "type": f"urn:prosem:error:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.at is not None:
            document["errors"] = [{"at": self.at, "detail": self.detail}]
        return document

    def moved(self, prefix: str) -> ProsemError:
        """The same error with its pointer below `prefix` (used when a part is validated on its own)."""
        self.at = prefix + (self.at or "")
        return self


class InputError(ProsemError):
    code, status, title = "bad-input", 422, "The request is not valid"


class MalformedError(InputError):
    code, status, title = "malformed", 400, "The body cannot be read"


class TooLargeError(InputError):
    code, status, title = "too-large", 413, "The request is too large"


class RefusedError(InputError):
    """`detail` has PostgreSQL's own words."""

    code, status, title = "refused", 422, "The database does not take the request"


class ViewRowError(InputError):
    """An expression of a view fails on a row (overflow, division by zero). `rows` names the row by its keys."""

    code, status, title = "view-row", 422, "A view cannot have a row of the request"

    def __init__(self, view: str, rows: str, reason: str) -> None:
        super().__init__(f"the view {view} cannot have the row of {rows}: {reason}")
        self.view, self.rows = view, rows


class LanguageError(InputError):
    """A query that cannot be served. Positions count from 1; `highlight` is the offending line with a marker."""

    code, status, title = "bad-sql", 422, "The query is not supported"

    def __init__(
        self,
        detail: str,
        at: str = "/sql",
        line: int | None = None,
        column: int | None = None,
        highlight: str = "",
    ) -> None:
        super().__init__(detail, at)
        self.line, self.column, self.highlight = line, column, highlight

    def problem(self) -> dict[str, Any]:
        document = super().problem()
        if self.line is not None:
            document |= {"line": self.line, "column": self.column, "highlight": self.highlight}
        return document


class UnauthorizedError(ProsemError):
    code, status, title = "unauthorized", 401, "A key is needed"


class ForbiddenError(ProsemError):
    code, status, title = "forbidden", 403, "The key does not allow this"


class LaterError(ProsemError):
    """The same request may be taken after `retry_after_s`."""

    def __init__(self, detail: str, at: str | None = None, retry_after_s: int = 1) -> None:
        super().__init__(detail, at)
        self.retry_after_s = retry_after_s


class LimitError(LaterError):
    code, status, title = "limit", 429, "A limit of the key is reached"


class NotFoundError(ProsemError):
    code, status, title = "not-found", 404, "Not found"


class ConflictError(ProsemError):
    code, status, title = "conflict", 409, "The present state does not allow this"


class BusyError(LaterError):
    code, status, title = "busy", 503, "The server is busy"


class RecoveringError(BusyError):
    code, title = "recovering", "The server is starting"


class CommitError(BusyError):
    code, title = "commit-failed", "The database refused the transaction"


class ResourceError(BusyError):
    code, title = "no-resources", "The database cannot write"


class UnknownOutcomeError(ProsemError):
    """It cannot be found out whether a batch was committed. No answer would be true: the client's connection is closed."""

    code, status, title = "unknown-outcome", 502, "The outcome of the transaction is not known"


class SetupError(ProsemError):
    code, status, title = "setup", 500, "The installation needs attention"


def pointer(*parts: str | int) -> str:
    """A JSON pointer (RFC 6901).

    >>> pointer("events", 17, "row", "a/b~c")
    '/events/17/row/a~1b~0c'
    """
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)
