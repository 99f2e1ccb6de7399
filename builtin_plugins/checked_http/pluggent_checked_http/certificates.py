"""The TLS context with the authorities that this machine trusts, made once."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from functools import cache

import httpx2

_ONE_AT_A_TIME = threading.Lock()


async def trusted() -> ssl.SSLContext:
    """Return the TLS context with the trusted authorities: the system's, or those of SSL_CERT_FILE, SSL_CERT_DIR."""
    # In a thread: it takes as long as starting a small process.
    return await asyncio.to_thread(_current_context)


def _current_context() -> ssl.SSLContext:
    with _ONE_AT_A_TIME:
        return _context_for(os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", ""))


@cache
def _context_for(file: str, folder: str) -> ssl.SSLContext:  # noqa: ARG001 (what it is made of stands in the environment)
    return httpx2.create_ssl_context()
