"""How sessions with PostgreSQL are opened: both ends notice within seconds that the other is lost.

Keepalives find a host that is gone while nothing is sent, `tcp_user_timeout` one that is gone while something is. Neither
has an effect on a Unix socket.
"""

from __future__ import annotations

from typing import Any

PROBE_AFTER_S, PROBE_EVERY_S, PROBES, UNACKNOWLEDGED_MS = 5, 2, 3, 10_000

# Options of libpq, for every connection that is kept open.
KEEPALIVE: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": PROBE_AFTER_S,
    "keepalives_interval": PROBE_EVERY_S,
    "keepalives_count": PROBES,
    "tcp_user_timeout": UNACKNOWLEDGED_MS,
}
# The same for the server's end of a session that holds locks.
SERVER_KEEPALIVE = (
    f"SET tcp_keepalives_idle = {PROBE_AFTER_S}; SET tcp_keepalives_interval = {PROBE_EVERY_S};"
    f" SET tcp_keepalives_count = {PROBES}; SET tcp_user_timeout = {UNACKNOWLEDGED_MS}"
)
