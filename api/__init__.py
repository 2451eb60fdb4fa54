"""The rim: HTTP, WebSocket, Server-Sent Events, the command line, and the wiring of all parts."""

VERSION = "0.1.0"
