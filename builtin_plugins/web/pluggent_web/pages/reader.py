"""Has HTML read by a process of its own, with limits: what a parser does with hostile markup ends with that process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from typing import Any, Literal, TypeAlias

import attrs

from pluggent_web.fetch_tool import READ_S

Wanted: TypeAlias = Literal["main", "all"]

_MOST_BYTES = 16_777_216
_MODULE = "pluggent_web.pages.html_process"
_NEEDED = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""Of the environment: no key of the host's is there for a parser that is taken over."""


class UnreadableError(Exception):
    """HTML that could not be read within the limits."""


@attrs.frozen
class Reading:
    """A page as Markdown. ``whole``: it is the whole page, since no main content was found."""

    title: str
    markdown: str
    whole: bool


async def read_html(html: str, url: str, wanted: Wanted) -> Reading:
    """Return *html*, fetched from *url*, as Markdown: its main content, or all of it. Raises UnreadableError.

    A cancelled call ends the process before it returns.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-m", _MODULE, wanted, url,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            env={name: os.environ[name] for name in _NEEDED if name in os.environ},
            start_new_session=True,  # Ctrl-C is for the host
        )  # fmt: skip
    except OSError as error:
        raise UnreadableError(f"the process that reads HTML could not be started: {error.strerror}") from error
    try:
        async with asyncio.timeout(READ_S):
            said = await _exchange(process, html.encode("utf-8", "replace"))
            status = await process.wait()
    except TimeoutError:
        raise UnreadableError(f"its HTML could not be read within {READ_S:g} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return _reading(said, status)


async def _exchange(process: asyncio.subprocess.Process, html: bytes) -> bytes:
    """Write *html* and read the answer, at once: neither waits for the other."""
    assert process.stdin is not None
    assert process.stdout is not None
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_written(process.stdin, html))
        said = bytearray()
        while piece := await process.stdout.read(65_536):
            said += piece
            if len(said) > _MOST_BYTES:
                process.kill()
                break
    return bytes(said)


async def _written(stdin: asyncio.StreamWriter, html: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # it has ended: its status says why
        stdin.write(html)
        await stdin.drain()
        stdin.close()
        await stdin.wait_closed()


def _reading(said: bytes, status: int) -> Reading:
    try:
        read: Any = json.loads(said) if status == 0 and len(said) <= _MOST_BYTES else None
    except ValueError:
        read = None
    match read:
        case {"title": str(title), "markdown": str(markdown), "whole": bool(whole)}:
            return Reading(title, markdown, whole)
        case {"error": str(error)}:
            raise UnreadableError(error)
        case _:
            raise UnreadableError(f"its HTML could not be read (the reader ended with status {status})")
