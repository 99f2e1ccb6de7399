"""A program that plays a turn in the background, or a batch, again and again, and kills itself a step later each time.

    python dying_later.py FOLDER ORIGIN run|batch

The n-th child asks the account ``n`` of the server at ORIGIN, its state is in ``FOLDER/n``. A step is a write of the
session, or of the file of the batch, and each request and each read of an answer. The program ends when a child has
come to the end, and prints the numbers of all.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dying import Steps, die_between_writes
from pluggent_cli.batches.command import Submitter
from pluggent_cli.batches.kept import Kept, KeptBatches
from pluggent_hookspecs import Message, ModelParameters, ModelRequest, Secret, tool
from pluggent_host import Host, HostSettings
from pluggent_openai.plugin import OpenAI
from pluggent_openai.settings import Settings
from pluggent_provider_http.client import Answer, Client

KEY = "PLUGGENT_KILL_KEY"
LATER = ModelParameters(background=True)


def die_between_messages(step: Steps) -> None:
    """Take *step* around everything that is sent, and behind every read."""
    inner: Any = Client  # no door of a client takes steps
    send, read = inner._send, Answer.__anext__  # noqa: SLF001 (as above)

    @contextlib.asynccontextmanager
    async def sending(self: Client, *args: Any, **options: Any) -> AsyncGenerator[Answer]:
        step()
        async with send(self, *args, **options) as answer:
            step()
            yield answer

    async def reading(self: Answer) -> bytes:
        data = await read(self)
        step()
        return data

    inner._send = sending  # noqa: SLF001 (as above)
    Answer.__anext__ = reading  # type: ignore[method-assign]


def opened(folder: Path, url: str) -> AbstractAsyncContextManager[Host]:
    """Return a host whose model is at *url*, with its state in *folder*."""
    os.environ[KEY] = "sk-7f3a"
    settings = Settings(base_url=url, api="responses", api_key=Secret(f"env:{KEY}"), compat={"like": "openai"})

    @tool(effects=())
    def look() -> str:
        """Look."""
        return "seen"

    return Host.open(
        model="openai/m", tools=[look], plugins=[OpenAI(settings)], installed=False, state_dir=folder,
        config=HostSettings(on_ask="pause", fsync="off"),
    )  # fmt: skip


async def play_run(folder: Path, url: str) -> None:
    """Say something to a model that answers in the background, and calls a tool first."""
    async with opened(folder, url) as host:
        session = await host.session("s", parameters=LATER)
        await session.say("go")


REQUESTS = {name: ModelRequest("", (Message.user(f"say {name}"),)) for name in ("a", "b")}


async def play_batch(folder: Path, url: str) -> None:
    """Submit a batch as the command does, and read its results."""
    kept = KeptBatches(folder)
    before = kept.of("digest")
    async with opened(folder, url) as host:
        known = None if before is None else before.batch
        if known is None or known.ticket is None:
            known = await Submitter(host, kept, "file", "digest").submit("openai/m", REQUESTS, known)
        results = [result.id async for result in host.batches.results(known)]
        assert sorted(results) == ["a", "b"], results


def die_between_files(step: Steps) -> None:
    """Take *step* around everything that is written of batches."""
    write = KeptBatches.write

    def writing(self: KeptBatches, kept: Kept) -> None:
        step()
        write(self, kept)
        step()

    KeptBatches.write = writing  # type: ignore[method-assign]


PLAYS = {"run": play_run, "batch": play_batch}


def main(folder: Path, origin: str, kind: str) -> None:
    """Let one child after the other die a step later, until one lives."""
    with TemporaryDirectory() as rehearsal:  # warm: what a first turn imports, no child has to
        asyncio.run(PLAYS[kind](Path(rehearsal), f"{origin}/0/v1"))
    gc.freeze()
    for number in itertools.count(1):
        place = folder / str(number)
        place.mkdir()
        pid = os.fork()
        if pid == 0:
            step = Steps(number)
            die_between_writes(step)
            die_between_messages(step)
            die_between_files(step)
            asyncio.run(PLAYS[kind](place, f"{origin}/{number}/v1"))
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        print(number)  # noqa: T201 (a program's output)
        if os.WIFEXITED(status):
            sys.exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
