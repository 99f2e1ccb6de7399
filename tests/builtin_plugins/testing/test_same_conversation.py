"""The same conversation with tools on every vendor, and one conversation that goes from vendor to vendor."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any

import attrs
import pytest
from pluggent_anthropic.plugin import Anthropic
from pluggent_hookspecs import (
    FinishReason,
    Message,
    ModelRequest,
    ModelResponse,
    Provider,
    Reasoning,
    Role,
    Secret,
    Text,
    ToolCall,
    Usage,
    thaw,
)
from pluggent_host import Host, Session, TurnResult
from pluggent_offline.grammar import Call, render
from pluggent_offline.plugin import Offline
from pluggent_openai.plugin import OpenAI
from pluggent_openai.settings import Server
from pluggent_testing.providers import opened, transcript_shape
from pluggent_testing.providers.stories import (
    FIRST_TURN,
    SECOND_TURN,
    NoLaunch,
    Offering,
    add,
    fail,
    launch,
    talking_with,
    weather,
)
from pluggent_testing.wires import AnthropicWire, OpenAIWire, ResponsesWire, WireServer
from pluggent_testing.wires.server import holds, strings
from pluggent_transcript.entries import Entry, Said

TYPED = [render([[Call(*wanted) for wanted in calls] for calls in turn]) for turn in (FIRST_TURN, SECOND_TURN)]
"""What the person says: the offline provider understands it, and the others are told what it answers."""


def openai_at(server: WireServer) -> opened:
    return opened(OpenAI(OpenAI.Settings(base_url=server.url, api_key=Secret.of(server.key))))


def responses_at(server: WireServer) -> opened:
    settings = Server(base_url=server.url, api_key=Secret.of(server.key), api="responses")
    return opened(OpenAI(OpenAI.Settings(servers={"responses": settings})), "responses")


def anthropic_at(server: WireServer) -> opened:
    return opened(Anthropic(Anthropic.Settings(base_url=server.url, api_key=Secret.of(server.key))))


VENDORS = {
    "openai": (OpenAIWire, openai_at),
    "responses": (ResponsesWire, responses_at),
    "anthropic": (AnthropicWire, anthropic_at),
}
vendors = pytest.mark.parametrize("vendor", VENDORS)
streaming = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def servers() -> Iterator[dict[str, WireServer]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(WireServer(wire(), 10, 10**6)) for name, (wire, _) in VENDORS.items()}


@asynccontextmanager
async def offline() -> AsyncGenerator[Session]:
    async with opened(Offline()) as provider, talking_with(provider, "demo") as session:
        yield session


async def said(session: Session, text: str, *, streamed: bool) -> TurnResult[None]:
    """Say *text*, and return the result of the turn."""
    if not streamed:
        return await session.say(text)
    async with session.stream(text) as events:
        async for _ in events:
            pass
    return events.result


async def told(session: Session, *, streamed: bool = False) -> tuple[Entry, ...]:
    """Say all that is typed, and return what is kept of it."""
    for text in TYPED:
        await said(session, text, streamed=streamed)
    return session.records()


async def answers_of_offline() -> list[ModelResponse]:
    """Return what the offline provider answers to all that is typed."""
    async with offline() as session:
        records = await told(session)
    messages = [entry.message for entry in records if isinstance(entry, Said)]
    return [reply(message) for message in messages if message.role is Role.ASSISTANT]


def reply(message: Message) -> ModelResponse:
    reason = FinishReason.TOOL_CALLS if message.tool_calls else FinishReason.STOP
    return ModelResponse(message, reason, Usage(100, 10), "model-1", "reply-1")


@vendors
@streaming
async def test_the_same_conversation_leaves_the_same_transcript_and_history(servers, vendor, streamed):
    server = servers[vendor]
    server.will(*(server.reply(answer) for answer in await answers_of_offline()))

    async def left(session: Session) -> tuple[Sequence[str], list[tuple[Role, str, bool]]]:
        records = await told(session, streamed=streamed)
        return transcript_shape(records), [(one.role, one.text, one.is_error) for one in session.history]

    async with offline() as session:
        expected = await left(session)
    async with VENDORS[vendor][1](server) as provider, talking_with(provider, "m") as session:
        found = await left(session)

    assert found == expected
    assert len(found[0]) > 30


@asynccontextmanager
async def among_all(servers: dict[str, WireServer]) -> AsyncGenerator[Session]:
    """Open a session that can ask every vendor; it begins with the offline one."""
    makers = (opened(Offline()), *(VENDORS[name][1](server) for name, server in servers.items()))
    async with AsyncExitStack() as stack:
        providers: list[Provider] = [await stack.enter_async_context(made) for made in makers]
        host = await stack.enter_async_context(
            Host.open(
                model="offline/demo",
                plugins=[Offering(provider) for provider in providers],
                policies=[NoLaunch()],
                tools=[weather, add, fail, launch],
                installed=False,
            )
        )
        yield await stack.enter_async_context(await host.session())


@pytest.mark.parametrize(
    "order",
    [
        ("offline", "openai", "anthropic", "offline"),
        ("anthropic", "openai", "anthropic", "openai"),
        ("openai", "anthropic", "offline", "openai"),
        ("openai", "responses", "anthropic", "responses"),
        ("responses", "openai", "responses", "offline"),
    ],
    ids="-".join,
)
@streaming
async def test_one_conversation_goes_from_vendor_to_vendor(servers, order: Sequence[str], streamed):
    answers = await answers_of_offline()
    rounds = [answers[:3], answers[3:]] * 2

    async with among_all(servers) as session:
        for turn, vendor in enumerate(order):
            await session.use(model=f"{vendor}/m")
            if server := servers.get(vendor):
                server.will(*(server.reply(with_ids_of(answer, vendor, turn)) for answer in rounds[turn]))
            result = await said(session, TYPED[turn % 2], streamed=streamed)
            assert result.text == rounds[turn][-1].message.text
        shape = transcript_shape(session.records())

    assert [line for line in shape if line.startswith(("t1", "t2", "t3", "t4")) and "over" in line] == [
        f"t{number} is over: completed" for number in (1, 2, 3, 4)
    ]
    assert [line for line in shape if line.endswith("and failed")] == []


def with_ids_of(answer: ModelResponse, vendor: str, turn: int) -> ModelResponse:
    """Return *answer* with ids as this vendor makes them, which mean nothing to the others."""
    prefix = {"openai": "call_", "responses": "call_r", "anthropic": "toolu_"}[vendor]
    calls = [
        attrs.evolve(call, id=f"{prefix}{turn}_{place}_{call.name}")
        for place, call in enumerate(answer.message.tool_calls)
    ]
    return attrs.evolve(answer, message=attrs.evolve(answer.message, tool_calls=calls))


async def test_a_message_is_written_for_each_vendor_by_itself(servers):
    call = ToolCall("call_1", "weather", '{"city": "Rome"}')
    history = (
        Message.system("Be brief."),
        Message.user("hi"),
        Message.assistant("Let me see.", (call,)),
        Message.tool(call, "22", is_error=True),
        Message.user("again"),
    )
    asked = ModelRequest("m", history)

    async with AsyncExitStack() as stack:
        made: dict[str, Any] = {name: VENDORS[name][1](server) for name, server in servers.items()}
        providers = {name: await stack.enter_async_context(each) for name, each in made.items()}
        for name in (*VENDORS, *VENDORS):
            await providers[name].complete(asked)

    for server in servers.values():
        first, second = [request.body for request in server.asked]
        assert first == second
    assert servers["openai"].asked[0].json["messages"] != servers["anthropic"].asked[0].json["messages"]


@pytest.mark.parametrize(
    ("vendor", "others"), [("anthropic", ("openai", "responses")), ("responses", ("openai", "anthropic"))]
)
async def test_what_a_vendor_signed_goes_back_to_it_alone(servers, vendor, others):
    signed, own = Reasoning("I think.", "c2lnbmVkLTdmM2E="), VENDORS[vendor][0].vendor_part
    assert own is not None
    call = ToolCall("call_1", "add", '{"a": 2, "b": 3}')
    servers[vendor].will(
        servers[vendor].reply(reply(Message.assistant((signed, own, Text("Let me see.")), (call,)))),
        servers[vendor].reply(reply(Message.assistant("Five."))),
    )

    async with among_all(servers) as session:
        for name in (vendor, *others, "offline", vendor):
            await session.use(model=f"{name}/m")
            await session.say("What is two and three?")

    last = servers[vendor].asked[-1].json
    assert {"I think.", "c2lnbmVkLTdmM2E="} <= set(strings(last))
    assert holds(last, thaw(own.value))
    for name in others:
        between = servers[name].asked[0].body.decode()
        assert "c2lnbmVkLTdmM2E=" not in between
        assert str(own.value["type"]) not in between
        assert "Let me see." in between
