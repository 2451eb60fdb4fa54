"""What becomes of commands when a commit fails: which are answered, and which are carried out again.

the data was refused   one writing command: it is the culprit, and answered 422; several: each is tried alone.
                       All others are carried out again, and their publishers notice nothing but the time
a fault of ours        the command that met it is answered 500; all others are carried out again
it cannot write        writing commands are answered 503; reads are carried out again
anything else          what was in the batch, and what was processed after it, is answered 503
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from prosem.engine.backlog import Entry
from prosem.values.errors import CommitError, ProsemError, RefusedError, ResourceError, UnknownOutcomeError


class Fault(Exception):
    """A command failed in a way it should not."""

    def __init__(self, entry: Entry, said: str) -> None:
        super().__init__(said)
        self.entry = entry


@dataclass(slots=True)
class Outcome:
    problem: str
    """while the state is rebuilt, where it must be"""
    again: list[Entry] = field(default_factory=list)
    """carried out again, in their order"""
    culprits: list[tuple[Entry, ProsemError]] = field(default_factory=list)
    failed: list[tuple[Entry, ProsemError]] = field(default_factory=list)
    others_wait: bool = True
    """whether commands that arrive during the rebuild wait for it; else they are refused"""

    def answers(self) -> list[tuple[Future[Any], Any]]:
        return [(entry.future, error) for entry, error in (*self.culprits, *self.failed)]


def sort_out(failure: BaseException, refused: Sequence[Entry], processed: Sequence[Entry]) -> Outcome:
    """`refused` were in the batch whose data was refused, `processed` after it, in memory alone."""
    again = [*refused, *processed]
    writing = [entry for entry in refused if entry.writes and not isinstance(entry.result, ProsemError)]
    for entry in again:
        entry.result = None  # it may refer to the state, which must go
    if isinstance(failure, ResourceError):
        outcome = Outcome("the database cannot write, and a command has failed by a fault of the server")
        outcome.failed = [(entry, failure) for entry in again if entry.writes]
        outcome.again = [entry for entry in again if not entry.writes]
        return outcome
    if not isinstance(failure, RefusedError | Fault):
        outcome = Outcome("the database failed and the indexes are being rebuilt", others_wait=False)
        error = CommitError(f"the transaction was not committed ({failure}); send the request again")
        outcome.failed = [(entry, error) for entry in again]
        return outcome
    outcome = Outcome("a command has failed by a fault of the server, and the indexes are being rebuilt")
    if isinstance(failure, Fault):
        fault = ProsemError(
            f"internal error: {failure}; nothing was applied, and the server's log has the details"
        )
        outcome.culprits.append((failure.entry, fault))
    if len(writing) == 1 and isinstance(failure, RefusedError):
        outcome.culprits.append((writing[0], failure))
    else:
        for entry in writing:
            entry.is_suspect = True
    guilty = [entry for entry, _ in outcome.culprits]
    outcome.again = [entry for entry in again if not any(entry is one for one in guilty)]
    return outcome


def answer(replies: Sequence[tuple[Future[Any], Any]]) -> None:
    for future, result in replies:
        if future.set_running_or_notify_cancel():
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)


def fail(entries: Sequence[Entry], error: ProsemError) -> None:
    answer([(entry.future, error) for entry in entries])


def reply_to(failure: BaseException) -> ProsemError:
    """What the commands of a batch that was not committed are answered."""
    if isinstance(failure, ResourceError | UnknownOutcomeError):
        return failure
    return CommitError(f"the transaction was not committed ({failure}); send the request again")
