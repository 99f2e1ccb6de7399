"""Every hook of pluggent with its full promise.

Eight kinds. *provide*: return records, synchronous, no input or output. *transform*: return
a new value or None. *decide*: return a Decision or None (``decisions.ANSWERS`` says which).
*around*: async, gets ``call_next``. *first*: the first value that is not None counts.
*ledger*: reserves before each attempt, settles after it. *sink*: keeps the record; if it fails, the
operation is denied. *observe*: gets events, answers nothing.

transform, decide, first and observe may be ``def`` or ``async def``. One deadline covers a
whole hook call (decide, transform, first: 5 s; observe: 0.5 s an event). ``HookKind`` says what
the failure of an implementation means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import attrs
import pluggy

from pluggent_hookspecs import events as e
from pluggent_hookspecs._frozen import Json
from pluggent_hookspecs._value import Value
from pluggent_hookspecs.commands import Command
from pluggent_hookspecs.decisions import Approval, Decision, Deny, Window
from pluggent_hookspecs.embeddings import Embedder, EmbeddingRequest, EmbeddingResponse
from pluggent_hookspecs.markers import (
    PROJECT,
    CallNext,
    HookKind,
    MaybeAsync,
    hookimpl as hookimpl,  # noqa: PLC0414 (the examples below use it)
)
from pluggent_hookspecs.memory import MemoryItem, MemoryStore
from pluggent_hookspecs.messages import Message, Usage
from pluggent_hookspecs.models import ModelRequest, ModelResponse, Provider
from pluggent_hookspecs.observations import Observation
from pluggent_hookspecs.plans import PlanParser
from pluggent_hookspecs.questions import Elicited
from pluggent_hookspecs.sessions import SessionStore
from pluggent_hookspecs.tools import Tool, ToolOutput, ToolSource

__all__ = ["HOOKS", "HookInfo"]

F = TypeVar("F", bound=Callable[..., Any])

_spec_marker = pluggy.HookspecMarker(PROJECT)


@attrs.frozen(repr=False)
class HookInfo(Value):
    """One row of the table of hooks."""

    name: str
    kind: HookKind
    function: Callable[..., Any]


HOOKS: dict[str, HookInfo] = {}
"""Every hook by name, in the order of this file; filled while this module is imported."""


def _hook(kind: HookKind) -> Callable[[F], F]:
    def mark(function: F) -> F:
        HOOKS[function.__name__] = HookInfo(function.__name__, kind, function)
        return _spec_marker(function)

    return mark


@_hook(HookKind.PROVIDE)
def provide_providers(event: e.ProvideEvent) -> Iterable[Provider]:
    """Return this plugin's model providers. Group ``pluggent.providers``.

    Fires when one of its models is first used. Two of one name in a plugin are an error.

    >>> class Plugin:
    ...     @hookimpl
    ...     def provide_providers(self, event):
    ...         return [MyProvider()]
    """
    raise AssertionError(event)


@_hook(HookKind.PROVIDE)
def provide_embedders(event: e.ProvideEvent) -> Iterable[Embedder]:
    """Return this plugin's embedders. Group ``pluggent.embedders``.

    Fires when one of its models is first used. Two of one name in a plugin are an error.

    >>> class Plugin:
    ...     @hookimpl
    ...     def provide_embedders(self, event):
    ...         return [MyEmbedder()]
    """
    raise AssertionError(event)


@_hook(HookKind.PROVIDE)
def provide_tools(event: e.ProvideEvent) -> Iterable[Tool | ToolSource | Callable[..., Any]]:
    """Return this plugin's tools: ``@tool`` functions, Tool objects, or a ToolSource.

    Group ``pluggent.tools``. Fires when a session that selects the plugin opens. A ToolSource
    is connected then, under a deadline.

    >>> class Plugin:
    ...     @hookimpl
    ...     def provide_tools(self, event):
    ...         return [add, subtract]
    """
    raise AssertionError(event)


@_hook(HookKind.PROVIDE)
def provide_memory(event: e.ProvideEvent) -> Iterable[MemoryStore]:
    """Return this plugin's memory stores. Group ``pluggent.memory``. Fires at first use.

    Two of one name in a plugin are an error.

    >>> class Plugin:
    ...     @hookimpl
    ...     def provide_memory(self, event):
    ...         return [MyStore()]
    """
    raise AssertionError(event)


@_hook(HookKind.PROVIDE)
def provide_sessions(event: e.ProvideEvent) -> Iterable[SessionStore]:
    """Return this plugin's session stores. Group ``pluggent.sessions``.

    Fires when the operator or the application names one of them (``sessions = "name"``,
    ``Host.open(sessions=…)``); a store is never used because it is installed. Two of one name in a
    plugin are an error.

    >>> class Plugin:
    ...     @hookimpl
    ...     def provide_sessions(self, event):
    ...         return [MyStore()]
    """
    raise AssertionError(event)


@_hook(HookKind.PROVIDE)
def provide_parsers(event: e.ProvideEvent) -> Iterable[PlanParser]:
    """Return this plugin's plan parsers. Group ``pluggent.parsers``. Fires at the first parse.

    Two of one name in a plugin are an error.

    >>> class Plugin:
    ...     @hookimpl
    ...     def provide_parsers(self, event):
    ...         return [MyParser()]
    """
    raise AssertionError(event)


@_hook(HookKind.PROVIDE)
def provide_commands(event: e.ProvideEvent) -> Iterable[Command]:
    """Return commands for ``pluggent``. Group ``pluggent.commands``. Fires when one is typed.

    A built-in command keeps its name.

    >>> class Plugin:
    ...     @hookimpl
    ...     def provide_commands(self, event):
    ...         return [Command("roll", "roll a die", run)]
    """
    raise AssertionError(event)


@_hook(HookKind.TRANSFORM)
def transform_input(event: e.InputEvent) -> MaybeAsync[Message | None]:
    """Return another user message, or None to leave it.

    Fires once a turn, whatever the way in, before anything is stored; and for the words with which a person
    refuses a request, because the model reads them.

    >>> class Plugin:
    ...     @hookimpl
    ...     def transform_input(self, event):
    ...         return Message.user(event.message.text.strip())
    """
    raise AssertionError(event)


@_hook(HookKind.DECIDE)
def decide_input(event: e.InputEvent) -> MaybeAsync[Decision | None]:
    """Say whether this message may start a turn. Allow, Deny, Ask or Respond.

    Fires after ``transform_input`` on the frozen message. Deny: the turn ends ``denied``,
    the model is never asked. Ask: the turn starts once a person agrees; without an answer now it
    is denied, or waits if the operator configured that (``on_ask = "pause"``). For the words of a refusal,
    any answer but Allow or None leaves the refusal without words.

    >>> class Plugin:
    ...     @hookimpl
    ...     def decide_input(self, event):
    ...         return Deny("closed on Sundays") if sunday() else None
    """
    raise AssertionError(event)


@_hook(HookKind.AROUND)
async def around_turn(event: e.InputEvent, call_next: CallNext[Any]) -> Any:
    """Run code before and after a whole turn; return the result of ``call_next()``.

    For tracing and for resources that last a turn. The turn's result cannot be replaced.

    >>> class Plugin:
    ...     @hookimpl
    ...     async def around_turn(self, event, call_next):
    ...         with span(event.scope.turn_id):
    ...             return await call_next()
    """
    raise AssertionError(event, call_next)


@_hook(HookKind.TRANSFORM)
def transform_output(event: e.OutputEvent) -> MaybeAsync[Message | None]:
    """Return another message for the person, or None to leave it.

    Fires for everything that a person can see, whatever its source: the reply, a tool's ``for_user``
    and ``media``, and its ``for_model``, since subscribers get that too. The conversation keeps a reply
    as this hook returned it, and a tool result as the model reads it.

    >>> class Plugin:
    ...     @hookimpl
    ...     def transform_output(self, event):
    ...         return Message.assistant(event.message.text.replace("colour", "color"))
    """
    raise AssertionError(event)


@_hook(HookKind.DECIDE)
def decide_output(event: e.OutputEvent) -> MaybeAsync[Decision | None]:
    """Say whether this may be shown: Allow, Deny, or Ask for its release.

    Fires after ``transform_output``. Deny: nothing of it is shown; a reply is not kept either. A denied
    tool result is hidden from subscribers, but the model still reads it; an Ask about one counts as a
    Deny, unless a person called the tool directly.

    >>> class Plugin:
    ...     @hookimpl
    ...     def decide_output(self, event):
    ...         return Deny("this stays inside") if "internal" in event.message.text else None
    """
    raise AssertionError(event)


@_hook(HookKind.TRANSFORM)
def select_tools(event: e.ToolSelectionEvent) -> MaybeAsync[Sequence[str] | None]:
    """Return the names of the tools to offer, or None to leave them.

    Fires before each model call. It can only narrow; a name that was not offered is an
    error of the plugin. The model may call no other tool in this round.

    >>> class Plugin:
    ...     @hookimpl
    ...     def select_tools(self, event):
    ...         return [tool.name for tool in event.tools if "draft" not in tool.tags]
    """
    raise AssertionError(event)


@_hook(HookKind.TRANSFORM)
def transform_model_request(event: e.ModelRequestEvent) -> MaybeAsync[ModelRequest | None]:
    """Return another request, or None to leave it.

    Fires before each model call, on every path, streamed or not. It may change messages and
    parameters, and leave tools out; it may not change the definition of a tool.

    >>> class Plugin:
    ...     @hookimpl
    ...     def transform_model_request(self, event):
    ...         return attrs.evolve(event.request, parameters=ModelParameters(temperature=0))
    """
    raise AssertionError(event)


@_hook(HookKind.DECIDE)
def decide_model_request(event: e.ModelRequestEvent) -> MaybeAsync[Decision | None]:
    """Say whether this request may be sent. Allow, Deny, Ask or Respond.

    Fires on the frozen request. Deny: the turn ends ``denied``. Ask: the request is sent once a
    person agrees; without an answer now the turn is denied, or waits if the operator configured that.
    It also fires before a vendor counts the tokens of a request (``Host.count``), where a Respond is a Deny.

    >>> class Plugin:
    ...     @hookimpl
    ...     def decide_model_request(self, event):
    ...         return Deny("too long") if len(event.request.messages) > 500 else None
    """
    raise AssertionError(event)


@_hook(HookKind.AROUND)
async def around_model_call(event: e.ModelRequestEvent, call_next: CallNext[ModelResponse]) -> ModelResponse:
    """Run code around one model call; return a reply.

    For timing, and (if the operator lists the plugin under ``retriers``) for retries and fallbacks
    to another model. Returning without ``call_next`` counts as a Respond and needs its grant.

    >>> class Plugin:
    ...     @hookimpl
    ...     async def around_model_call(self, event, call_next):
    ...         started = clock()
    ...         try:
    ...             return await call_next()
    ...         finally:
    ...             note(clock() - started)
    """
    raise AssertionError(event, call_next)


@_hook(HookKind.TRANSFORM)
def transform_delta(event: e.DeltaEvent) -> Window | None:
    """Return the part of a streamed reply that may be shown now, or None for all of it. Synchronous.

    For plugins with a result hook of the model call or the output that is marked ``incremental=N``;
    a plugin without one is refused, because the whole reply has to pass it as well. ``event.text`` is
    the text that this plugin held back last time, with the new text after it. Text that it fails on, or
    holds back for more than N characters, is shown after the whole reply has passed the result hooks.

    >>> class Plugin:
    ...     @hookimpl(incremental=40)
    ...     def transform_model_response(self, event):
    ...         return redacted(event.response)
    ...     @hookimpl
    ...     def transform_delta(self, event):
    ...         unsure = 0 if event.final else unfinished(event.text)
    ...         return Window(hide(event.text[: len(event.text) - unsure]), keep=unsure)
    """
    raise AssertionError(event)


@_hook(HookKind.TRANSFORM)
def transform_model_response(event: e.ModelResponseEvent) -> MaybeAsync[ModelResponse | None]:
    """Return another reply, or None to leave it.

    Fires before the reply is shown: a stream shows nothing until it has returned.

    >>> class Plugin:
    ...     @hookimpl
    ...     def transform_model_response(self, event):
    ...         text = event.response.message.text.strip()
    ...         return attrs.evolve(event.response, message=Message.assistant(text))
    """
    raise AssertionError(event)


@_hook(HookKind.DECIDE)
def decide_model_response(event: e.ModelResponseEvent) -> MaybeAsync[Decision | None]:
    """Say whether this reply may be used: Allow, Deny, or Ask for its release.

    Deny: the reply is dropped unseen, none of its calls runs, the turn ends ``denied``.

    >>> class Plugin:
    ...     @hookimpl
    ...     def decide_model_response(self, event):
    ...         return Deny("cut off") if event.response.finish_reason == "length" else None
    """
    raise AssertionError(event)


@_hook(HookKind.TRANSFORM)
def transform_tool_call(event: e.ToolCallEvent) -> MaybeAsync[Mapping[str, Json] | None]:
    """Return other arguments, or None to leave them.

    Fires on arguments that were parsed strictly, checked against the tool's schema and
    completed by its defaults. The new ones are checked again. The tool stays the same.

    >>> class Plugin:
    ...     @hookimpl
    ...     def transform_tool_call(self, event):
    ...         return {**event.arguments, "limit": min(event.arguments["limit"], 100)}
    """
    raise AssertionError(event)


@_hook(HookKind.DECIDE)
def decide_tool_call(event: e.ToolCallEvent) -> MaybeAsync[Decision | None]:
    """Say whether exactly this call may run. Allow, Deny, Ask or Respond.

    Fires on the frozen call, after every transform, before any call of the batch runs.
    Deny: the model reads ``tell_model`` as the call's result and the turn continues.

    >>> class Plugin:
    ...     @hookimpl
    ...     async def decide_tool_call(self, event):
    ...         if event.capability == "acme-files:tool/delete":
    ...             return Deny("files are not deleted here")
    """
    raise AssertionError(event)


@_hook(HookKind.AROUND)
async def around_tool_call(event: e.ToolCallEvent, call_next: CallNext[ToolOutput]) -> ToolOutput:
    """Run code around one tool call; return its result.

    As ``around_model_call``. A result that is an error arrives as a value, not as an exception.

    >>> class Plugin:
    ...     @hookimpl
    ...     async def around_tool_call(self, event, call_next):
    ...         async with limiter(event.capability):
    ...             return await call_next()
    """
    raise AssertionError(event, call_next)


@_hook(HookKind.TRANSFORM)
def transform_tool_result(event: e.ToolResultEvent) -> MaybeAsync[ToolOutput | None]:
    """Return another result, or None to leave it.

    Fires for every result, failures included (an error text can carry secrets), before the
    model, the person, the transcript or an observer sees it.

    >>> class Plugin:
    ...     @hookimpl
    ...     def transform_tool_result(self, event):
    ...         text = str(event.output.for_model)
    ...         return attrs.evolve(event.output, for_model=text.replace(key(), "***"))
    """
    raise AssertionError(event)


@_hook(HookKind.DECIDE)
def decide_tool_result(event: e.ToolResultEvent) -> MaybeAsync[Decision | None]:
    """Say whether this result may be used: Allow, Deny, or Ask for its release.

    The call has happened. Deny: the model reads ``tell_model`` instead of the result.

    >>> class Plugin:
    ...     @hookimpl
    ...     def decide_tool_result(self, event):
    ...         return Deny("the page tells the model what to do") if hostile(event.output) else None
    """
    raise AssertionError(event)


@_hook(HookKind.TRANSFORM)
def transform_embedding_request(event: e.EmbeddingRequestEvent) -> MaybeAsync[EmbeddingRequest | None]:
    """Return another request with as many texts, or None to leave it.

    Fires before texts are sent to an embedder, whoever asks.

    >>> class Plugin:
    ...     @hookimpl
    ...     def transform_embedding_request(self, event):
    ...         return attrs.evolve(event.request, texts=map(str.strip, event.request.texts))
    """
    raise AssertionError(event)


@_hook(HookKind.DECIDE)
def decide_embedding_request(event: e.EmbeddingRequestEvent) -> MaybeAsync[Decision | None]:
    """Say whether these texts may be sent. Allow, Deny, Ask or Respond; the caller gets Denied.

    Fires on the frozen request, with every text of it. Respond takes an EmbeddingResponse, such as one from a
    cache.

    >>> class Plugin:
    ...     @hookimpl
    ...     def decide_embedding_request(self, event):
    ...         return Deny("stays inside") if any("internal" in text for text in event.request.texts) else None
    """
    raise AssertionError(event)


@_hook(HookKind.AROUND)
async def around_embedding_call(
    event: e.EmbeddingRequestEvent, call_next: CallNext[EmbeddingResponse]
) -> EmbeddingResponse:
    """Run code around one request to an embedder; return its vectors.

    As ``around_model_call``. When it is called again after some of the texts were embedded, only the others are
    sent.

    >>> class Plugin:
    ...     @hookimpl
    ...     async def around_embedding_call(self, event, call_next):
    ...         async with limiter(event.embedder):
    ...             return await call_next()
    """
    raise AssertionError(event, call_next)


@_hook(HookKind.TRANSFORM)
def transform_embedding_response(event: e.EmbeddingResponseEvent) -> MaybeAsync[EmbeddingResponse | None]:
    """Return other vectors, as many as there are, or None to leave them.

    >>> class Plugin:
    ...     @hookimpl
    ...     def transform_embedding_response(self, event):
    ...         return attrs.evolve(event.response, vectors=of_unit_length(event.response.vectors))
    """
    raise AssertionError(event)


@_hook(HookKind.DECIDE)
def decide_embedding_response(event: e.EmbeddingResponseEvent) -> MaybeAsync[Decision | None]:
    """Say whether these vectors may be used: Allow, Deny, or Ask for their release. The caller gets Denied.

    >>> class Plugin:
    ...     @hookimpl
    ...     def decide_embedding_response(self, event):
    ...         return None if event.response.vectors.dimensions == 1536 else Deny("of another model")
    """
    raise AssertionError(event)


@_hook(HookKind.TRANSFORM)
def transform_memory_write(event: e.MemoryWriteEvent) -> MaybeAsync[Sequence[MemoryItem] | None]:
    """Return other items to save, or None to leave them. Namespace and store stay.

    >>> class Plugin:
    ...     @hookimpl
    ...     def transform_memory_write(self, event):
    ...         return [attrs.evolve(item, ttl_s=86_400.0) for item in event.items]
    """
    raise AssertionError(event)


@_hook(HookKind.DECIDE)
def decide_memory_write(event: e.MemoryWriteEvent) -> MaybeAsync[Decision | None]:
    """Say whether this may be written or deleted. Allow, Deny or Ask; the caller gets Denied.

    >>> class Plugin:
    ...     @hookimpl
    ...     def decide_memory_write(self, event):
    ...         return Deny("nothing is forgotten here") if event.delete else None
    """
    raise AssertionError(event)


@_hook(HookKind.DECIDE)
def decide_memory_read(event: e.MemoryReadEvent) -> MaybeAsync[Decision | None]:
    """Say whether this may be read. Allow, Deny or Ask; the caller gets Denied.

    >>> class Plugin:
    ...     @hookimpl
    ...     def decide_memory_read(self, event):
    ...         return None if event.namespace == event.scope.principal else Deny("not yours")
    """
    raise AssertionError(event)


@_hook(HookKind.TRANSFORM)
def transform_memory_result(event: e.MemoryResultEvent) -> MaybeAsync[Sequence[MemoryItem] | None]:
    """Return other items (fewer, or changed) for the reader, or None to leave them.

    >>> class Plugin:
    ...     @hookimpl
    ...     def transform_memory_result(self, event):
    ...         return [item for item in event.items if not item.key.startswith("draft-")]
    """
    raise AssertionError(event)


@_hook(HookKind.DECIDE)
def decide_question(event: e.QuestionEvent) -> MaybeAsync[Decision | None]:
    """Say whether a tool may put this question to a person. Allow or Deny.

    Fires before the question is asked. Deny: it is not, and the tool gets Denied. The answer goes to
    the tool, and so perhaps to a server: a tool must not ask for secrets.

    >>> class Plugin:
    ...     @hookimpl
    ...     def decide_question(self, event):
    ...         return Deny("no passwords") if "password" in event.rendered.lower() else None
    """
    raise AssertionError(event)


@_hook(HookKind.FIRST)
def answer_question(event: e.QuestionEvent) -> MaybeAsync[Elicited | None]:
    """Put ``event.rendered`` to a person; return Accepted, Declined, Cancelled, or None (not mine).

    For front ends: only plugins that the operator lists under ``approvers`` are asked. The answer has
    to fit ``event.schema``; it is data, and approves nothing. Without an answer the tool gets Cancelled.

    >>> class Plugin:
    ...     @hookimpl
    ...     async def answer_question(self, event):
    ...         filled = await show_form_in_chat(event.rendered, event.schema)
    ...         return Declined() if filled is None else Accepted(filled)
    """
    raise AssertionError(event)


@_hook(HookKind.FIRST)
def resolve_approval(event: e.ApprovalEvent) -> MaybeAsync[bool | Approval | None]:
    """Return True (approved), False (refused), an Approval, or None (not mine) for exactly ``event.digest``.

    Fires when a decision is Ask. Only plugins that the operator lists under ``approvers`` are asked;
    a refusal is final. No answer is a denial that says so.

    >>> class Plugin:
    ...     @hookimpl
    ...     async def resolve_approval(self, event):
    ...         return await ask_in_chat(event.rendered, event.asks)
    """
    raise AssertionError(event)


@_hook(HookKind.LEDGER)
def reserve(event: e.ReserveEvent) -> MaybeAsync[Deny | Json]:
    """Reserve the possible cost of one attempt at a model call, a tool call or an embedding, or refuse it with Deny.

    Fires after the decisions and approvals, before every attempt, retries included. A refused model
    call ends the turn; of a refused tool call the model reads ``tell_model`` and the turn continues,
    unless the Deny has ``ends_turn``. ``settle`` gets the returned value (None: nothing is reserved),
    once for every reservation, however the attempt ended. A failure is a refusal; a reservation that
    comes after the deadline is settled when it comes, with no usage.

    >>> class Plugin:
    ...     @hookimpl
    ...     def reserve(self, event):
    ...         return self.budget.take(event.input_tokens + event.max_output_tokens) or Deny("spent")
    """
    raise AssertionError(event)


@_hook(HookKind.LEDGER)
def settle(event: e.SettleEvent) -> MaybeAsync[Usage | None]:
    """Replace the reservation of this plugin for one attempt by its actual cost.

    Fires at the end of every attempt with a reservation, cancelled and broken ones included; it is
    not cancelled itself. It may return the price of a model call as ``Usage(cost_usd=…)``, which is
    added to the usage of the call and the turn, unless the vendor or an earlier ledger gave one. The
    other fields of that Usage are ignored, and so is the price of a tool call.

    >>> class Plugin:
    ...     @hookimpl
    ...     def settle(self, event):
    ...         self.budget.book(event.reservation, event.usage.total)
    ...         return Usage(cost_usd=event.usage.total * 2e-6)
    """
    raise AssertionError(event)


@_hook(HookKind.SINK)
def write_record(event: Observation) -> None:
    """Record an event; raise if that fails. Synchronous, in order, without gaps.

    Fires for every decision before anything is executed (DecisionMade), and for the begin and end of
    sessions, turns, model calls, tool calls, questions, and failures of hooks. If it fails, the decision
    becomes a denial, and so does every later one until a record is written again; not for a plugin
    that the operator lists as optional.

    >>> class Plugin:
    ...     @hookimpl
    ...     def write_record(self, event):
    ...         self.file.write(line_of(event))
    """
    raise AssertionError(event)


@_hook(HookKind.OBSERVE)
def observe(event: Observation) -> MaybeAsync[None]:
    """Receive an event. The answer is ignored; a failure never affects the operation.

    Subscribe with ``@hookimpl(events=(ToolFinished, DecisionMade))``. Events come in order,
    after they passed the result hooks; a slow observer never delays a turn and may miss events.

    >>> from pluggent_hookspecs import ToolFinished
    >>> class Plugin:
    ...     @hookimpl(events=(ToolFinished,))
    ...     def observe(self, event):
    ...         count(event.capability, event.elapsed_s)
    """
    raise AssertionError(event)
