"""What is said to a session, and how one turn of it is to go. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, cast, get_args

import attrs
from pluggent_function_tools.structured_output import OutputForm, output_form
from pluggent_hookspecs import Value
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.messages import Message, Part, Role, Text
from pluggent_hookspecs.models import ModelParameters
from pluggent_transcript.limits import GivenLimits, check_limits, limited
from pluggent_transcript.pending import Waiting

from pluggent_host.turns.meter import check_names
from pluggent_host.turns.record import Agent

Content = str | Part | Sequence[str | Part] | Message
MAX_METADATA = 4096
"""Characters of all metadata together: every decision's record carries them."""


class TurnOptions(TypedDict, total=False):
    """How one turn is to go; what is not given is the session's.

    ``limits`` is a Limits, which takes the place of the session's as a whole, defaults and
    ``per_tool`` included, or a mapping of those that differ: ``{"tool_rounds": 3}``.
    ``metadata`` is the application's own, added to the session's and seen by every policy and
    record. In a ``dry_run`` everything is decided and recorded, and no tool with effects is run
    (what declares ``effects=()`` is). ``origin`` is the way in, such as api or cli.
    """

    parameters: ModelParameters | None
    limits: GivenLimits | None
    metadata: Mapping[str, str] | None
    dry_run: bool
    origin: str


@attrs.frozen(repr=False)
class How(Value):
    """TurnOptions, checked, with the ``output`` that is wanted; ``caller`` as in Scope."""

    output: Any = None
    parameters: ModelParameters | None = None
    limits: GivenLimits | None = None
    metadata: Mapping[str, str] | None = None
    dry_run: bool = False
    origin: str = ""
    caller: Literal["model", "application"] = "model"

    def by(self, origin: str) -> How:
        """Return this with *origin*, unless it names one itself."""
        return self if self.origin else attrs.evolve(self, origin=origin)

    def agent(self, agent: Agent) -> Agent:
        """Return *agent* for this turn. Raises TypeError, ConfigError and SessionError for what cannot be."""
        check("parameters", self.parameters, ModelParameters)
        limits = agent.limits
        if self.limits is not None:
            check_limits(self.limits)
            limits = limited(limits, self.limits)
            check_names(limits.per_tool, agent.tools)
        parameters = self.parameters or agent.parameters
        form = None if self.output is None else output_form(self.output)
        if form is not None:
            if parameters.output_schema is not None:
                raise SessionError("output and parameters.output_schema are both given; output makes its own schema")
            parameters = attrs.evolve(parameters, output_schema=form.schema)
        return attrs.evolve(agent, parameters=parameters, limits=limits, form=form)

    def scope(self, scope: Scope, turn_id: str) -> Scope:
        """Return *scope* for this turn."""
        check("dry_run", self.dry_run, bool)
        check("origin", self.origin, str)
        metadata = scope.metadata
        if self.metadata:
            metadata = checked_metadata({**metadata, **checked_metadata(self.metadata)})
        # Field by field: attrs.evolve() takes as long as ten hooks, in the way of every call.
        return Scope(
            scope.session_id, turn_id, self.origin or scope.origin, scope.agent, scope.principal, scope.channel,
            scope.chat_id, scope.workspace, scope.parent_id, self.dry_run or scope.dry_run, metadata, scope.claimed,
            self.caller,
        )  # fmt: skip


def going_on(
    agent: Agent, scope: Scope, waiting: Waiting, form: OutputForm[Any] | None, output: Any = None
) -> tuple[Agent, Scope]:
    """Restore the agent and scope of the paused turn; *form* is that of its reply, if this process knows it."""
    terms = waiting.paused.terms
    if output is not None or (form is None and terms.output is not None):
        form = output_form(terms.output if output is None else output)
    parameters = terms.parameters_beside(agent.parameters)
    if form is not None:
        parameters = attrs.evolve(parameters, output_schema=form.schema)
    agent = attrs.evolve(agent, parameters=parameters, limits=terms.with_limits(agent.limits), form=form)
    scope = attrs.evolve(scope, turn_id=waiting.paused.turn_id, origin="resume", metadata=terms.metadata)
    return agent, scope


def check(name: str, value: object, wanted: type) -> None:
    """Raise TypeError unless *value* is None or of the *wanted* type; *name* is what it was given as."""
    if value is not None and not isinstance(value, wanted):
        raise TypeError(f"{name}: expected {wanted.__name__}, got {type(value).__name__}")


def checked_metadata(metadata: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return *metadata*. Raises TypeError unless it maps text to text, SessionError if it is too long."""
    given: Mapping[Any, Any] = {} if metadata is None else metadata
    if not _is_mapping(given) or not all(isinstance(text, str) for pair in given.items() for text in pair):
        raise TypeError("metadata: expected a mapping of text to text")
    if (length := sum(len(key) + len(value) for key, value in given.items())) > MAX_METADATA:
        raise SessionError(f"metadata of {length} characters is too long: {MAX_METADATA} are allowed together")
    return given


def _is_mapping(given: object) -> bool:
    return isinstance(given, Mapping)


def user_message(content: Content) -> Message:
    """Return what is said as a message. Raises TypeError and SessionError for what cannot be said."""
    message = content if isinstance(content, Message) else _made(content)
    if not message.content:
        raise SessionError("there is nothing to say: the message is empty")
    if message.role is not Role.USER or message.tool_calls:
        raise SessionError(f"only a user's message can be said, not one of role {message.role} or with tool calls")
    return message


def _made(content: str | Part | Sequence[str | Part]) -> Message:
    given = cast("Sequence[object]", content if isinstance(content, list | tuple) else (content,))
    parts = [Text(part) if isinstance(part, str) else part for part in given if part != ""]
    if not all(isinstance(part, _PARTS) for part in parts):
        raise TypeError(f"expected text, a part, several of them or a Message, got {type(content).__name__}")
    return Message.user(cast("tuple[Part, ...]", tuple(parts)))


_PARTS = get_args(Part)
