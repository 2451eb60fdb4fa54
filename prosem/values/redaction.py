"""Passwords in addresses are not shown: not in logs, and not in what commands print."""

from __future__ import annotations

import re

_PASSWORD = re.compile(r"([A-Za-z+]+://[^\s:/@]*:)[^\s\"']*@")


def redacted(text: str) -> str:
    """The text with the passwords of its addresses replaced; also where an address is malformed.

    >>> redacted('no such host in "postgresql://me:a@b/c@[bad/x", but nats://other:4222 is fine')
    'no such host in "postgresql://me:***@[bad/x", but nats://other:4222 is fine'
    """
    return _PASSWORD.sub(r"\1***@", text)
