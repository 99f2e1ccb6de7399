"""What the entry paths are played with: replies, small plugins that ask, answer and retry, and nested work."""

# ruff: noqa: ARG001 (every part of a path is given the same)

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
from pluggent_hookspecs.decisions import Ask, Respond
from pluggent_hookspecs.errors import ProviderError, ProviderErrorKind
from pluggent_hookspecs.memory import MemoryAccess, MemoryItem, MemoryQuery
from pluggent_hookspecs.messages import Message, ToolCall, Usage
from pluggent_hookspecs.models import FinishReason, ModelRequest, ModelResponse
from pluggent_hookspecs.questions import Accepted
from pluggent_hookspecs.tools import ToolContext
from pluggent_host.session import Session
from pluggent_host.turns.result import TurnStream

from pluggent_testing.fakes import Reply, call
from pluggent_testing.paths.probes import ANSWERED, plugin
from pluggent_testing.paths.stage import Log, Stage

TEXTS = ("given-one", "given-two")
"""What is embedded."""

# ---- replies ----------------------------------------------------------------------------


def calls(name: str, mark: str) -> ToolCall:
    """Return a call of ``probe_<name>`` with ``mark-<mark>``."""
    return call(f"probe_{name}", f"call_{mark}", mark=f"mark-{mark}")


def saying(text: str, *made: ToolCall) -> ModelResponse:
    """Return a reply that says something and makes calls."""
    reason = FinishReason.TOOL_CALLS if made else FinishReason.STOP
    return ModelResponse(Message.assistant(text, made), reason, Usage(input=10, output=5))


def fails(request: ModelRequest) -> Reply:
    """Be a provider that cannot be used, in a way that no plugin retries."""
    return ProviderError(ProviderErrorKind.AUTHENTICATION, "no entry", provider="paths")


# ---- going a path -----------------------------------------------------------------------


async def said(on: Stage, session: Session, text: str, **options: Any) -> Any:
    """Say *text* and keep what comes of it."""
    return await on.enter(session.say(text, **options))


async def streamed(on: Stage, stream: TurnStream[Any]) -> None:
    """Go through *stream*; keep every event of it, and the result."""

    async def follow() -> Any:
        async with stream as events:
            async for event in events:
                on.log.note("streamed", event)
        return events.result

    await on.enter(follow())


async def remembered(on: Stage, memory: MemoryAccess) -> str:
    """Use every method of *memory* once; return what was read."""
    await on.attempt(memory.save([MemoryItem("paths", "key-new", "item-new")]))
    await on.attempt(memory.delete("paths", "key-gone"))
    got = await on.attempt(memory.get("paths", "key-one"))
    page = await on.attempt(memory.list(MemoryQuery("paths", prefix="key-two")))
    hits = await on.attempt(memory.search("paths", "key-three"))
    return f"{got} {page} {hits}"


# ---- what probe_nested does -------------------------------------------------------------


async def nested_tool(context: ToolContext, on: Stage) -> str:
    """Call another tool."""
    return str((await context.call_tool("probe_tool", {"mark": "mark-inner"})).for_model)


async def nested_deep(context: ToolContext, on: Stage) -> str:
    """Call a tool that calls a tool."""
    return str((await context.call_tool("probe_deep", {"mark": "mark-deep"})).for_model)


async def nested_model(context: ToolContext, on: Stage) -> str:
    """Ask the model."""
    return (await context.call_model("a question", system="be brief")).message.text


async def nested_count(context: ToolContext, on: Stage) -> str:
    """Let the vendor count the tokens of a question."""
    return str(await context.count("a question", system="be brief"))


async def nested_embed(context: ToolContext, on: Stage) -> str:
    """Embed two texts."""
    return (await context.embed("paths/m", TEXTS)).model


async def nested_memory(context: ToolContext, on: Stage) -> str:
    """Use memory."""
    return await remembered(on, context.memory("paths"))


async def nested_question(context: ToolContext, on: Stage) -> str:
    """Ask a person for data."""
    answer = await context.elicit("which town?", {"type": "object", "properties": {"town": {"type": "string"}}})
    return type(answer).__name__


async def nested_agreed(context: ToolContext, on: Stage) -> str:
    """Ask the model with a conversation of another author, once a person has agreed."""
    conversation = [Message.user("a question"), Message.assistant("go on"), Message.user("the rest of it")]
    return (await context.call_model(conversation, ask="another author wrote it")).message.text


async def nested_all(context: ToolContext, on: Stage) -> str:
    """Ask the model, its vendor, an embedder and a person, call another tool, and use memory."""
    counted = f"{await nested_count(context, on)} {await nested_embed(context, on)}"
    answer = f"{await nested_model(context, on)} {counted} {await nested_question(context, on)}"
    return f"{answer} {await nested_tool(context, on)} {await nested_memory(context, on)}"


# ---- small plugins ----------------------------------------------------------------------


def asking(hook: str) -> Callable[[Log], tuple[object, ...]]:
    """Return what makes a policy that asks about everything in *hook*."""

    def made(log: Log) -> tuple[object, ...]:
        def ask(event: Any) -> Ask:
            log.note("asking", event, hook)
            return Ask("is this all right?")

        return (plugin("Asker", **{hook: ask}),)

    return made


def agreeing(log: Log) -> tuple[object, ...]:
    """Return a policy that asks for nothing, and an approver of what the host itself asks for."""

    def ask(event: object) -> None:
        log.note("asking", event, "decide_model_request")

    def agree(event: object) -> bool:
        return True

    return (
        plugin("Watcher", decide_model_request=ask),
        plugin("Agreeable", band="host-last", resolve_approval=agree),
    )


def approving(hook: str) -> Callable[[Log], tuple[object, ...]]:
    """Return what makes a policy that asks in *hook*, and an approver of all."""

    def agree(event: object) -> bool:
        return True

    return lambda log: (*asking(hook)(log), plugin("Agreeable", band="host-last", resolve_approval=agree))


def knowing(log: Log) -> tuple[object, ...]:
    """Return a plugin that answers every question."""

    def answer(event: object) -> Accepted:
        log.note("questioned", event)
        return Accepted({"town": ANSWERED})

    return (plugin("Knowing", band="host-last", answer_question=answer),)


def responding(hook: str, value: object) -> Callable[[Log], tuple[object, ...]]:
    """Return what makes a policy that answers in *hook* with *value*."""

    def respond(event: object) -> Respond:
        return Respond(value)

    return lambda _: (plugin("Responder", **{hook: respond}),)


def answering(hook: str, value: object) -> Callable[[Log], tuple[object, ...]]:
    """Return what makes a layer, the innermost, that answers in *hook* with *value* and calls nothing."""

    async def answer(event: object, call_next: object) -> object:
        return value

    return lambda _: (plugin("Answerer", band="host-last", **{hook: answer}),)


def repeating(hook: str, again: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Log], tuple[object, ...]]:
    """Return what makes a layer, the outermost, that goes on in *hook* as *again* does."""
    return lambda _: (plugin("Repeater", band="host-first", **{hook: again}),)


async def until_it_works(event: object, call_next: Any) -> Any:
    """Call again after a failure of the provider."""
    try:
        return await call_next()
    except ProviderError:
        return await call_next()


async def while_it_fails(event: object, call_next: Any) -> Any:
    """Call a tool again that failed."""
    output = await call_next()
    return await call_next() if output.is_error else output


async def changed_first(event: Any, call_next: Any) -> Any:
    """Send another request at once."""
    extra = Message.user("and one word more")
    return await call_next.reissue(attrs.evolve(event.request, messages=(*event.request.messages, extra)))


async def elsewhere(event: Any, call_next: Any) -> Any:
    """Ask another model after a failure of the first."""
    try:
        return await call_next()
    except ProviderError:
        return await call_next.reissue(event.request, model="paths-other/m")
