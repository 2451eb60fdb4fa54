"""A pandas frame that stays current, and its display in a notebook.

    prices = client.dataframe("SELECT symbol, price FROM stocks WHERE risk < 20", live=True)
    prices.frame   # a pandas.DataFrame, as of prices.seq
    prices         # as the last line of a cell: a table that changes in place

Changes are folded in the background as they arrive. A frame is built only when it is read after a change, in O(rows): a
frame that is not read costs the fold alone. It loses to a subscription where each single change matters: changes between
two reads are seen as one.
"""

from __future__ import annotations

import contextlib
import html
import importlib
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from prosem_client.errors import Closed, ProsemError

if TYPE_CHECKING:
    from prosem_client.sync import Portal, SyncSubscription

SHOWN_ROWS = 30  # of a table in a notebook
REDRAW_S = 0.25  # between two drawings of a table
CLOSE_S = 5.0


class LiveFrame:
    """The answer of a query as a frame. A context manager that closes it.

    Invariant: `frame` is the answer as of `seq`. Each change makes another frame; one that was handed out never changes.
    It may be used from any thread.
    """

    def __init__(self, portal: Portal, subscription: SyncSubscription) -> None:
        self._portal, self._subscription = portal, subscription
        self._change = threading.Condition()
        self._built: tuple[int, Any] = (-1, None)
        self._changes = 0
        self._error: Exception | None = None
        self._is_closed = False
        self._displays: list[Any] = []
        self._follower = threading.Thread(target=self._follow, name="prosem-dataframe", daemon=True)
        self._build()
        self._follower.start()

    @property
    def frame(self) -> Any:
        """The current answer, as a pandas.DataFrame. Raises what has ended the stream, if something has."""
        if self._error is not None:
            raise self._error
        if not self._is_closed and self._built[0] != self._subscription.seq:
            self._build()
        return self._built[1]

    @property
    def seq(self) -> int:
        """The event that the last frame is as of."""
        return self._built[0]

    @property
    def changes(self) -> int:
        """How many changes have arrived."""
        return self._changes

    def wait(self, after: int, timeout_s: float | None = None) -> Any:
        """The frame once more than `after` changes have arrived; TimeoutError if they do not in time."""
        with self._change:
            done = self._change.wait_for(lambda: self._is_over or self._changes > after, timeout_s)
        if not done:
            raise TimeoutError(f"there was no change within {timeout_s} s")
        return self.frame

    def close(self) -> None:
        """Stop following; the last frame stays."""
        if self._is_closed:
            return
        with contextlib.suppress(ProsemError):
            self._build()
        self._is_closed = True
        with contextlib.suppress(Closed):  # the client may be closed already
            self._subscription.close()
        self._follower.join(CLOSE_S)
        with self._change:
            self._change.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        return f"{self.frame!r}\n{self._caption()}"

    # -- notebooks -------------------------------------------------------------------------------------------
    def _repr_html_(self) -> str:
        table = self.frame.to_html(max_rows=SHOWN_ROWS, border=0, index=False)
        return f"<div>{table}<p><small>{html.escape(self._caption())}</small></p></div>"

    def _ipython_display_(self) -> None:
        """A table that is drawn again after changes, at most every `REDRAW_S`, until it is closed."""
        shown = importlib.import_module("IPython.display")
        self._displays.append(shown.display(_Html(self), display_id=True))

    def _redraw(self) -> None:
        for handle in self._displays:
            handle.update(_Html(self))

    def _caption(self) -> str:
        state = "closed" if self._is_closed else "live"
        return f"{len(self._built[1]):,} rows as of event {self.seq:,}, {state}"

    # -- inside ----------------------------------------------------------------------------------------------
    @property
    def _is_over(self) -> bool:
        return self._is_closed or self._error is not None

    def _build(self) -> None:
        subscription = self._subscription.inner

        async def current() -> tuple[int, Any]:
            while True:
                seq = subscription.seq
                frame = await subscription.to_pandas()
                if subscription.seq == seq:
                    return seq, frame

        self._built = self._portal.call(current())

    def _follow(self) -> None:
        drawn = 0.0
        is_stale = False
        while True:
            wait_s = max(0.0, drawn + REDRAW_S - time.monotonic()) if is_stale else None
            try:
                self._subscription.next(wait_s)
            except TimeoutError:
                is_stale, drawn = False, time.monotonic()
                with contextlib.suppress(ProsemError):
                    self._redraw()
                continue
            except Closed:
                break
            except ProsemError as error:
                self._error = error
                break
            is_stale = bool(self._displays)
            with self._change:
                self._changes += 1
                self._change.notify_all()
        with self._change:
            self._change.notify_all()


class _Html:
    """What a notebook draws: the frame as it is then."""

    def __init__(self, live: LiveFrame) -> None:
        self._html, self._text = live._repr_html_(), repr(live)

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._html
