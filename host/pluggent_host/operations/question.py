"""A question to a person as an operation: decided by policies, then put to those who may answer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter
from typing import Any, Final, cast

import attrs
from pluggent_contract_values.escape import escape_all
from pluggent_contract_values.question_fields import Field, fields_of
from pluggent_contract_values.sanitize import clean, clean_json
from pluggent_function_tools.arguments import ArgumentProblems, Checker, canonical, parse
from pluggent_hookspecs import Json, Value, freeze, thaw
from pluggent_hookspecs.events import QuestionEvent, Scope
from pluggent_hookspecs.observations import HookFailed, Observation
from pluggent_hookspecs.questions import Accepted, Cancelled, Declined, Elicited
from pluggent_plugin_loader.names import APP

from pluggent_host.common.names import framed
from pluggent_host.hooks.caller import Caller
from pluggent_host.hooks.order import Chain
from pluggent_host.operations.operation import Attempt, Hooks, Journal, Operation, asked_by
from pluggent_host.settings import HostSettings

HOOK = "answer_question"
MOST_BYTES: Final = 16_384
"""How long a question may be, message and schema together: a person has to read it."""
Given = tuple[Elicited, str]
"""An answer, and who gave it."""


@attrs.frozen(eq=False, repr=False)
class Form:
    """Fields, and the schema that an answer has to fit: what is understood of the one that was given."""

    fields: tuple[Field, ...]
    schema: Mapping[str, Json]

    def fitted(self, content: Mapping[str, Json]) -> dict[str, Any]:
        """Return *content* with the defaults filled in. Raises ArgumentProblems for what does not fit."""
        checker = Checker(self.schema)
        value = checker.completed(plain_object(content))
        problems = [*checker.problems(value), *(each for field in self.fields for each in _ill_formed(field, value))]
        if problems:
            raise ArgumentProblems(problems)
        return value

    def problems(self, field: Field, value: Json) -> tuple[str, ...]:
        """Return what is wrong with *value* for one field; empty if nothing is."""
        checker, given = Checker({"type": "object", "properties": {field.name: field.schema}}), {field.name: value}
        return (*checker.problems(given), *_ill_formed(field, given))


def form_of(schema: Mapping[str, Json]) -> Form:
    """Return the form that *schema* describes. Raises ArgumentProblems, with every problem, if none can be made."""
    fields = fields_of(schema)
    understood: dict[str, Json] = {
        "type": "object",
        "properties": {field.name: field.schema for field in fields},
        "additionalProperties": False,
    }
    if required := sorted(field.name for field in fields if field.required):
        understood["required"] = required
    Checker(understood).problems({})  # a bound that is none is told here, and not to the person
    return Form(fields, cast("Mapping[str, Json]", freeze(understood)))


def plain_object(value: object) -> dict[str, Any]:
    """Return *value*, which a plugin gave, as a JSON object with nothing in it that cannot be written down.

    Raises ArgumentProblems if it is none.
    """
    try:
        return parse(canonical(clean_json(thaw(cast("Json", value)))).decode())
    except (AttributeError, TypeError, RecursionError) as error:
        raise ArgumentProblems(["$: is not a JSON object"]) from error


def _ill_formed(field: Field, value: Mapping[str, Any]) -> Iterator[str]:
    wanted, given = field.bounds.get("format"), value.get(field.name)
    if wanted is not None and isinstance(given, str) and Checker({"format": wanted}, formats=True).problems(given):
        yield f"$.{field.name}: is not a valid {wanted}"


@attrs.frozen(repr=False)
class Question(Value):
    """What a tool wants to know, clean, and the form that was made of its schema."""

    message: str
    source: str
    schema: Mapping[str, Json]
    form: Form


def question_of(message: object, schema: object, source: object) -> Question:
    """Return the question that a tool asks. Raises ArgumentProblems if a person cannot be asked that way."""
    if not isinstance(message, str) or not isinstance(source, str):
        raise ArgumentProblems(["a question is a text, a schema and a source"])
    plain_object(schema)  # refused here if it is none; as it was given, its fields are in order
    given = cast("Mapping[str, Json]", clean_json(thaw(cast("Json", schema))))
    size = len(message.encode("utf-8", "surrogatepass")) + len(source) + len(canonical(given))
    if size > MOST_BYTES:
        raise ArgumentProblems([f"a question has {MOST_BYTES:,} bytes at most; this one has {size:,}"])
    return Question(clean(message), clean(source), given, form_of(given))


@attrs.frozen(eq=False, repr=False)
class Answerers:
    """Who may answer questions: the application's own hooks, and the plugins that the operator lists."""

    chain: Chain
    caller: Caller
    settings: HostSettings
    emit: Callable[[Observation], None]

    async def answer(self, event: QuestionEvent, read: Callable[[object], tuple[Elicited | None, str]]) -> Given | None:
        """Return the first answer that *read* can read, and who gave it; None if there is none."""
        started = perf_counter()
        for impl in self.chain:
            in_code = impl.plugin.startswith(APP)
            if not in_code and impl.plugin not in self.settings.grants.approvers:
                continue
            # A person has no deadline; a program that the operator listed has one.
            limit = float("inf") if in_code else started + self.settings.timeouts.approver_s
            answer = await self.caller.call(impl, event, limit)
            given, problem = (None, answer.problem) if answer.problem else read(answer.value)
            if problem:
                self.emit(HookFailed(event.scope, impl.plugin, HOOK, problem))
            elif given is not None:
                return given, impl.plugin
        return None


class QuestionOperation(Operation[QuestionEvent, Elicited]):
    """One question. ``by`` is who answered it."""

    name = "question"
    hooks = Hooks("", "decide_question")

    def __init__(
        self, journal: Journal, scope: Scope, answerers: Answerers, capability: str, question: Question, id: str
    ) -> None:
        event = QuestionEvent(scope, capability, question.source, question.message, question.schema)
        super().__init__(journal, scope, id, capability, event)
        self.by = ""
        self._answerers = answerers
        self._question = question
        self.event = attrs.evolve(event, rendered=self.rendered(event))

    def freeze(self, event: QuestionEvent) -> QuestionEvent:
        parts = (self.scope.session_id, self.id, event.capability, event.source, event.message)
        asked = framed(*map(str.encode, parts)) + canonical(thaw(event.schema)) + asked_by(event.scope)
        return attrs.evolve(event, digest=hashlib.sha256(asked).hexdigest())

    def rendered(self, event: QuestionEvent) -> str:
        """Return all that a person is told: who asks, what, and for which data; everything of theirs is marked."""
        who = f"'{escape_all(event.source)}', by way of {escape_all(event.capability)}," if event.source else ""
        lines = [f"{who or escape_all(event.capability)} asks you:"]
        lines += [f"  | {escape_all(line)}" for line in event.message.split("\n")]
        lines += [f"  {line}" for field in self._question.form.fields for line in field.lines()]
        return "\n".join(lines)

    def response(self, value: object) -> Elicited:
        raise ValueError("only a person answers a question")

    # ---- asking --------------------------------------------------------------------------

    async def execute(self, event: QuestionEvent, attempt: Attempt) -> Elicited:
        if self.scope.dry_run:
            return Cancelled("no person is asked in a dry run")
        given = await self._answerers.answer(event, self._read)
        if given is not None:
            answer, self.by = given
            return answer
        return Cancelled("no person was there to answer")

    def _read(self, value: object) -> tuple[Elicited | None, str]:
        """Return the answer that *value* is, or what is wrong with it; nothing of what a person typed."""
        match value:
            case None | Declined() | Cancelled():
                return value, ""
            case Accepted(content):
                try:
                    return Accepted(self._question.form.fitted(content)), ""
                except ArgumentProblems as error:
                    places = {problem.partition(":")[0] for problem in error.problems if problem.startswith("$")}
                    return None, f"answered with something that does not fit at {', '.join(sorted(places)) or '$'}"
            case _:
                return None, f"answered {type(value).__name__}, not Accepted, Declined, Cancelled or None"
