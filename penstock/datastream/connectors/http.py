"""Webhooks as a source."""

from __future__ import annotations

from penstock.connectors.http.server import WebhookServer

__all__ = ["WebhookServer"]
