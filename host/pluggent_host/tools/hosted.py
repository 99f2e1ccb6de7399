"""Tools that run at a model's vendor: which a request may have, and the approval of the calls that need one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping

import attrs
from pluggent_function_tools.arguments import ArgumentProblems, Checker, canonical, parse, sorted_json
from pluggent_hookspecs import Json
from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.events import ModelRequestEvent
from pluggent_hookspecs.messages import Message, Role, ToolCall, VendorPart
from pluggent_hookspecs.models import HostsTools
from pluggent_hookspecs.tools import HOSTED_APPROVED, HostedTool, ToolContext, ToolOutput, ToolSpec

from pluggent_host.common.names import framed
from pluggent_host.plugins.lookup import Model
from pluggent_host.tools.toolset import BoundTool, by_effect

HOSTED = ":hosted/"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_MOST_TOLD = 4_096
"""Characters of what a tool at the vendor did that observers are told; all of it is in the conversation."""
_UNCHANGED = "the vendor makes this call, with the arguments that the model wrote: they cannot be changed"


def hosted_of(model: Model) -> tuple[HostedTool, ...]:
    """Return the tools that may run at the vendor of *model*. Raises ConfigError for ids that are not its own."""
    provider = model.provider
    if not isinstance(provider, HostsTools):
        return ()
    tools = tuple(provider.hosted_tools(model.name))
    prefix = f"{provider.name}{HOSTED}"
    if wrong := [tool.capability for tool in tools if not tool.capability.startswith(prefix) or not tool.name]:
        raise ConfigError("server_tools", [f"{wrong[0]!r}: expected {prefix} and a name"])
    if len({tool.name for tool in tools}) < len(tools):
        raise ConfigError("server_tools", [f"two tools at the vendor of '{provider.name}' have one name"])
    return tools


def may_run(tools: tuple[HostedTool, ...], *, dry_run: bool) -> tuple[HostedTool, ...]:
    """Return those of *tools* that a request may have: in a dry run the vendor runs nothing with effects either."""
    return tuple(tool for tool in tools if tool.effects == frozenset()) if dry_run else tools


def as_offered(reply: Message, asked: ModelRequestEvent, model: Model) -> Message:
    """Return *reply* to *asked*, in which calls at the vendor of *model* are of tools that it was offered.

    Any other, such as one of a model that was asked in its place, names the whole id, under which nothing is set up:
    by its name alone it would be decided about, and approved, as that of another server.
    """
    if not any(call.hosted for call in reply.tool_calls):
        return reply
    own = (asked.provider, asked.target) == (model.capability, model.provider.target)
    known = {tool.name for tool in asked.request.hosted} if own else frozenset[str]()
    prefix = f"{asked.provider.partition(':provider/')[2]}{HOSTED}"
    return attrs.evolve(
        reply,
        tool_calls=tuple(
            attrs.evolve(call, hosted=f"{prefix}{call.hosted}") if call.hosted and call.hosted not in known else call
            for call in reply.tool_calls
        ),
    )


def hosted_call(call: ToolCall, model: Model, effects: Mapping[str, tuple[str, ...]]) -> BoundTool | None:
    """Return what *call*, which the vendor makes once it is approved, is bound to; None if it is set up no more.

    Its effects are the operator's, else not declared: what the tool declares is about being offered.
    """
    hosted = next((tool for tool in hosted_of(model) if tool.name == call.hosted), None)
    if hosted is None or not _NAME.fullmatch(call.name):
        return None
    capability = f"{hosted.capability}/{call.name}"
    given = effects.get(capability, effects.get(hosted.capability))
    own = None if given is None else frozenset(given)
    spec = ToolSpec(call.name, f"a call that the vendor makes ({hosted.capability})", effects=own)
    named = (hosted.capability, hosted.definition, model.provider.target, call.name)
    definition = hashlib.sha256(framed(*(each.encode() for each in named))).hexdigest()
    return _HostedCall(
        capability, model.capability.partition(":")[0], spec, _Consent(spec), definition, own, by_effect(own),
        Checker({"type": "object"}), written=call.arguments,
    )  # fmt: skip


def awaits_hosted(messages: tuple[Message, ...]) -> bool:
    """Say whether a request of *messages* makes the vendor run calls that were approved here."""
    for message in reversed(messages):
        if message.role is Role.ASSISTANT:
            return any(call.hosted for call in message.tool_calls)
        if message.role is not Role.TOOL:
            return False
    return False


def hosted_outputs(reply: Message) -> Iterator[tuple[str, ToolOutput]]:
    """Yield what the tools at the vendor did in *reply*, by their names, as observers are told it."""
    for part in reply.content:
        if isinstance(part, VendorPart) and part.hosted:
            text = sorted_json(part.value).decode("utf-8", "replace")
            cut = "" if len(text) <= _MOST_TOLD else f" [cut: {len(text)} characters]"
            yield part.hosted, ToolOutput(text[:_MOST_TOLD] + cut)


@attrs.frozen(eq=False, repr=False)
class _HostedCall(BoundTool):
    written: str = attrs.field(default="", kw_only=True)

    def prepare(self, text: str) -> bytes:
        value = canonical(parse(text))
        # The vendor reads the text itself, and of two values perhaps the other one.
        json.loads(text or "{}", object_pairs_hook=_distinct)
        return value

    def prepared_again(self, arguments: Mapping[str, Json]) -> bytes:
        if canonical(arguments) != self.prepare(self.written):
            raise ArgumentProblems([_UNCHANGED])
        return canonical(arguments)


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ArgumentProblems(["an object has one name twice, so that the vendor may read other arguments"])
    return found


@attrs.frozen(eq=False, repr=False)
class _Consent:
    """Stands for the call at the vendor: that it runs means that it is approved."""

    spec: ToolSpec

    async def call(self, arguments: Mapping[str, Json], context: ToolContext) -> ToolOutput:
        return ToolOutput(HOSTED_APPROVED)
