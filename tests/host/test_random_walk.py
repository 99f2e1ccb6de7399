"""A session stays whole on a random walk: any tool, any policy, any answer, left or cancelled at any time."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from pluggent_hookspecs import (
    Ask,
    Deny,
    HookError,
    Message,
    ModelRequest,
    ModelResponse,
    ProviderError,
    ProviderErrorKind,
    Respond,
    ToolContext,
    ToolOutput,
    hookimpl,
    tool,
)
from pluggent_hookspecs.messages import ToolCall
from pluggent_host import Limits, Session
from pluggent_host.settings import HostSettings
from pluggent_testing.fakes import Reply, ScriptedModel
from pluggent_transcript.rebuild import rebuild
from saved import read
from talking import WAIT_S, assert_whole, hosting

NAMES = ("act", "act_in_a_thread", "alone", "late", "delegate", "undeclared", "absent")


class Walk:
    """One walk; the same *seed* takes the same steps as far as threads allow."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance = random.Random(seed)  # noqa: S311 (nothing is kept secret with it)
        self.folder = folder

    async def go(self, openings: int = 2, turns: int = 3) -> int:
        """Open one session again and again, and say something in it; return after how many turns it was whole."""
        whole = 0
        model = ScriptedModel(*[self.reply] * 400, cut=self.chance.choice([None, None, 1]))
        for _ in range(openings):
            async with (
                hosting(
                    model=model,
                    tools=self.tools(),
                    plugins=[Moods(self.chance)],
                    approver=self.approve,
                    state_dir=self.folder,
                    limits=Limits(tool_rounds=4),
                    config=HostSettings(strict=self.chance.random() < 0.3),
                ) as host,
                await host.session("s") as session,
            ):
                for _ in range(turns):
                    await self.turn(session)
                    await asyncio.sleep(0)  # a generator that its reader left is closed by the loop
                    await asyncio.sleep(0)
                    self.look(session)
                    whole += 1
        return whole

    async def turn(self, session: Session) -> None:
        """Run one turn, watched or not, perhaps to be cancelled."""
        task = asyncio.create_task(self.watched(session) if self.chance.random() < 0.5 else session.say("go"))
        if self.chance.random() < 0.4:
            for _ in range(self.chance.randrange(60)):
                await asyncio.sleep(0)
            task.cancel()
        await asyncio.wait((task,), timeout=WAIT_S)
        assert task.done(), "the turn hangs"
        error = None if task.cancelled() else task.exception()
        assert error is None or isinstance(error, ProviderError | HookError), error

    async def watched(self, session: Session) -> None:
        """Watch a turn, perhaps not to its end."""
        patience = self.chance.randrange(40)
        async with session.stream("go") as events:
            async for _ in events:
                patience -= 1
                if patience == 0:
                    return

    def look(self, session: Session) -> None:
        """Fail unless what the session holds is whole and is what its transcript tells."""
        assert_whole(session.history)
        told = rebuild(read(self.folder / "sessions" / "s.jsonl"))
        assert told.messages == session.history
        assert told.usage == session.usage
        assert told.closing == ()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def approve(self, event: object) -> bool | None:
        await self.pause()
        return self.chance.choice([True, False, None])

    async def pause(self) -> None:
        """Let others have a turn, or not."""
        for _ in range(self.chance.randrange(3)):
            await asyncio.sleep(0)

    def reply(self, request: ModelRequest) -> Reply:
        """Fail, say something, or make calls: doubled ids, broken arguments and all."""
        luck = self.chance.random()
        if luck < 0.1:
            return ProviderError(self.chance.choice(list(ProviderErrorKind)), "no luck")
        if luck < 0.35:
            return "words and more words"
        calls = tuple(self.call(index) for index in range(self.chance.randrange(1, 5)))
        return ModelResponse(Message.assistant(self.chance.choice(["", "thinking"]), calls))

    def call(self, index: int) -> ToolCall:
        id = self.chance.choice(["", "x", f"c{index}"])
        arguments = f'{{"n":{self.chance.randrange(1, 5)}}}' if self.chance.random() < 0.95 else "["
        return ToolCall(id, self.chance.choice(NAMES), arguments)

    def tools(self) -> list[Any]:
        """Return tools of every kind."""
        chance = self.chance

        @tool(effects=("shell",))
        async def act(n: int) -> str:
            """Act, or fail."""
            await self.pause()
            if chance.random() < 0.2:
                raise ValueError("no luck")
            return f"acted {n}"

        @tool(effects=("shell",), concurrent=True)
        def act_in_a_thread(n: int) -> str:
            """Act in a thread, beside others."""
            return f"acted {n}"

        @tool(effects=(), exclusive=True)
        async def alone(n: int) -> ToolOutput:
            """Be alone, and serve the person."""
            await self.pause()
            return ToolOutput("alone", for_user="hey", handled=True, silent=n == 1)

        @tool(effects=("shell",), timeout_s=0.002)
        async def late(n: int) -> str:
            """Never come to an end."""
            await asyncio.Event().wait()
            return f"never {n}"

        @tool(effects=())
        async def delegate(context: ToolContext, n: int) -> str:
            """Let others act, side by side."""
            calls = [context.call_tool("act", {"n": n * 100 + index}) for index in range(chance.randrange(3))]
            outputs = await asyncio.gather(*calls, return_exceptions=True)
            return str(len(outputs))

        @tool
        async def undeclared(n: int) -> str:
            """Say nothing of what it does."""
            return str(n)

        return [act, act_in_a_thread, alone, late, delegate, undeclared]


class Moods:
    """Policies in all moods: they deny, ask, answer, fail, and take their time."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    @hookimpl
    async def decide_tool_call(self, event: object) -> object:
        if self.chance.random() < 0.3:
            await asyncio.sleep(0)
        luck = self.chance.random()
        if luck < 0.02:
            raise ValueError("no luck")
        choices = ((0.1, Deny("no", ends_turn=luck < 0.04)), (0.18, Ask("sure?")), (0.22, Respond("cached")))
        return next((answer for below, answer in choices if luck < below), None)

    @hookimpl
    async def transform_tool_result(self, event: object) -> None:
        if self.chance.random() < 0.2:
            await asyncio.sleep(0)
        if self.chance.random() < 0.03:
            raise ValueError("no luck")

    @hookimpl
    def decide_output(self, event: object) -> object:
        return Deny("not that") if self.chance.random() < 0.05 else None

    @hookimpl
    async def around_model_call(self, event: object, call_next: Any) -> object:
        try:
            return await call_next()
        except ProviderError:
            if self.chance.random() < 0.5:
                raise
            return await call_next()


@pytest.mark.parametrize("seed", range(25))
async def test_a_random_walk_leaves_every_session_whole(tmp_path: Any, seed: int) -> None:
    assert await Walk(seed, tmp_path).go(openings=2, turns=3) == 6

    for thread in threading.enumerate():  # a call that was given up may still be on its way out of its thread
        if thread.name.startswith("pluggent-"):
            await asyncio.to_thread(thread.join, WAIT_S)
