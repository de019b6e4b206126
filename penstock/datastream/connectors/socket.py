"""Text from a socket; see also ``StreamExecutionEnvironment.socket_text_stream``."""

from __future__ import annotations

from penstock.connectors.builtin.socket import SocketTextSource

__all__ = ["SocketTextSource"]
