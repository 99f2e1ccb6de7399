"""One conversation with tools and thinking goes through every wire and back, and no vendor refuses any of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any, Literal

import attrs
import pytest
from hypothesis import given, settings, strategies as st
from pluggent_hookspecs import (
    Message,
    ModelRequest,
    ModelRequestEvent,
    ModelResponse,
    ModelResponseEvent,
    Reasoning,
    Role,
    Secret,
    hookimpl,
    tool,
)
from pluggent_host import Host, Session
from pluggent_redact.plugin import Redact
from pluggent_redact.settings import PatternSettings
from pluggent_testing.providers.stories import Offering
from pluggent_testing.wires.server import holds, strings
from strict_vendors import SECRET, VENDORS, StrictServer, own_of

ORDER = tuple(VENDORS)
SUMMARY = "Summary of what was said before."
KEPT = 3
"""How many turns a summary leaves as they are."""


@tool(effects=())
def add(word: str, a: int, b: int) -> str:
    """Add two numbers, for a word."""
    return f"the sum of {word} is {a + b}"


class Watch:
    """Keeps the notes of each reply, and replaces old turns by a summary while ``summing`` is set."""

    def __init__(self) -> None:
        self.summing = False
        self.notes: list[tuple[str, ...]] = []

    @hookimpl
    def transform_model_request(self, event: ModelRequestEvent) -> ModelRequest | None:
        messages = event.request.messages
        turns = [place for place, message in enumerate(messages) if message.role is Role.USER]
        if not self.summing or len(turns) <= KEPT:
            return None
        kept = messages[turns[-KEPT] :]
        return attrs.evolve(event.request, messages=(Message.system("Be brief."), Message.user(SUMMARY), *kept))

    @hookimpl
    def transform_model_response(self, event: ModelResponseEvent) -> ModelResponse | None:
        self.notes.append(event.response.meta.notes)
        return None


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, StrictServer]]:
    with ExitStack() as stack:
        found: dict[str, StrictServer] = {}
        for name in VENDORS:
            found[name] = stack.enter_context(StrictServer(name, found))
        yield found


@pytest.fixture(autouse=True)
def _forgetful(servers: dict[str, StrictServer]) -> None:
    for server in servers.values():
        server.forget()


@asynccontextmanager
async def talking(servers: dict[str, StrictServer], watch: Watch) -> AsyncGenerator[Session]:
    redact = Redact(Redact.Settings(patterns=(PatternSettings(kind="staff", match="EMP-[0-9]{6}"),)))
    async with AsyncExitStack() as stack:
        plugins: list[Any] = [redact, watch]
        for server in servers.values():
            provider = await stack.enter_async_context(server.vendor.made(server.url, Secret.of(server.key)))
            plugins.append(Offering(provider))
        first = f"chat/{VENDORS['chat'].model}"
        host = await stack.enter_async_context(
            Host.open(model=first, plugins=plugins, tools=[add], installed=False, system="Be kind.")
        )
        yield await stack.enter_async_context(await host.session())


class Talk:
    """A conversation: each turn is told to one vendor, which finds in its request all that was said before."""

    def __init__(self, servers: dict[str, StrictServer], session: Session, watch: Watch) -> None:
        self._servers = servers
        self._session = session
        self._watch = watch
        self._turn = 0

    async def turn(self, name: str, *, leak: bool = False, streamed: bool = True) -> tuple[str, ...]:
        """Say something to *name*; return the notes of its reply."""
        before = self._session.history
        self._turn += 1
        await self._session.use(model=f"{name}/{VENDORS[name].model}")
        text = f"turn {self._turn}: {'leak' if leak else 'go on'}"
        if streamed:
            async with self._session.stream(text) as events:
                async for _ in events:
                    pass
            result = events.result
        else:
            result = await self._session.say(text)
        server = self._servers[name]
        assert (server.refused, server.faults) == ([], [])
        assert "that it is done" in result.text
        body = server.asked[-1].json
        self._check_travel(before, body)
        self._check_own(name, before, body)
        return self._watch.notes[-1]

    def _check_travel(self, before: Sequence[Message], body: Any) -> None:
        """Check that every word, call and result of *before* is in *body*."""
        if self._watch.summing:
            turns = [place for place, message in enumerate(before) if message.role is Role.USER]
            summed = len(turns) >= KEPT
            assert (SUMMARY in "".join(strings(body))) is summed
            before = before[turns[-KEPT + 1] :] if summed else before
        words = "\n".join(strings(body))
        for message in before:
            assert message.text in words
            for call in message.tool_calls:
                assert call.arguments in words or holds(body, json.loads(call.arguments)), f"{call} is lost"
        assert SECRET not in words

    def _check_own(self, name: str, before: Sequence[Message], body: Any) -> None:
        """Check that what *name* has signed and was not changed since goes back to it."""
        server = self._servers[name]
        found = set(strings(body))
        for message in () if self._watch.summing else before:
            intact = "[redacted" not in message.text + str(message.content)
            thoughts = [part for part in message.content if isinstance(part, Reasoning)]
            signed = [part.signature for part in thoughts if part.signature in server.signed]
            if intact and message.tool_calls:
                assert set(signed) <= found
                assert not signed or server.vendor.own is None or holds(body, own_of(name))


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_one_conversation_goes_through_every_wire_and_back(
    servers: dict[str, StrictServer], streamed: bool
) -> None:
    watch = Watch()

    async with talking(servers, watch) as session:
        talk = Talk(servers, session, watch)
        for name in (*ORDER, *reversed(ORDER)):
            before = [part for message in session.history for part in message.content if isinstance(part, Reasoning)]
            notes = await talk.turn(name, streamed=streamed)
            # A vendor that signs takes no thinking of others, and the reply says so.
            foreign = any(part.signature not in servers[name].signed for part in before)
            noted = any("thinking of" in note for note in notes)
            assert noted is (foreign and bool(servers[name].signed))

    assert len(session.history) == len(ORDER) * 2 * len(("asked", "called", "result", "result", "answered"))


@pytest.mark.parametrize("name", ORDER)
async def test_what_was_taken_back_redacted_or_summed_up_is_refused_by_nobody(
    servers: dict[str, StrictServer], name: str
) -> None:
    watch = Watch()
    others = [other for other in ORDER if other != name]

    async with talking(servers, watch) as session:
        talk = Talk(servers, session, watch)
        await talk.turn(name)
        await talk.turn(others[0])
        await session.undo()
        kept = await talk.turn(name)
        await talk.turn(name, leak=True)
        dropped = await talk.turn(name)
        for other in others:
            await talk.turn(other)
        watch.summing = True
        await talk.turn(name)
        await talk.turn(others[1])
        watch.summing = False
        await talk.turn(name)

    assert kept == ()
    signs = bool(servers[name].signed)
    assert bool(dropped) is signs, f"the reply that was redacted: {dropped}"


@settings(max_examples=12, deadline=None)
@given(
    story=st.lists(
        st.tuples(st.sampled_from(ORDER), st.sampled_from(["say", "say", "leak", "undo", "sum"]), st.booleans()),
        min_size=2,
        max_size=8,
    )
)
def test_any_order_of_wires_is_refused_by_nobody(
    servers: dict[str, StrictServer], story: list[tuple[str, Literal["say", "leak", "undo", "sum"], bool]]
) -> None:
    async def told() -> None:
        watch = Watch()
        async with talking(servers, watch) as session:
            talk = Talk(servers, session, watch)
            for name, what, streamed in story:
                if what == "undo":
                    await session.undo()
                watch.summing = watch.summing is not (what == "sum")
                await talk.turn(name, leak=what == "leak", streamed=streamed)

    for server in servers.values():
        server.forget()
    asyncio.run(told())
