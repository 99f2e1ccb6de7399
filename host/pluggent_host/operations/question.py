"""A question to a person as an operation: decided, put to whoever may answer, and told. It approves nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from time import perf_counter
from typing import cast

import attrs
from pluggent_hookspecs import Json, thaw
from pluggent_hookspecs.events import QuestionEvent, Scope
from pluggent_hookspecs.observations import HookFailed
from pluggent_hookspecs.questions import Accepted, Cancelled, Declined, Elicited

from pluggent_host.common.escape import escape_all
from pluggent_host.common.ids import APP
from pluggent_host.common.sanitize import clean, clean_json
from pluggent_host.operations.digests import asked_by, framed
from pluggent_host.operations.forms import MOST_BYTES, Form, form_of, plain_object
from pluggent_host.operations.operation import Attempt, Hooks, Journal, Operation
from pluggent_host.operations.services import Services
from pluggent_host.tools.arguments import ArgumentProblems, canonical

HOOK = "answer_question"


@attrs.frozen
class Question:
    """What a tool wants to know, clean, and the form that was made of its schema."""

    message: str
    source: str
    schema: Mapping[str, Json]
    form: Form


def question_of(message: object, schema: object, source: object) -> Question:
    """Return the question that a tool asks. Raises ArgumentProblems if nobody can be asked so."""
    if not isinstance(message, str) or not isinstance(source, str):
        raise ArgumentProblems(["a question is a text, a schema and a source"])
    plain_object(schema)  # refused here if it is none; as it was given, its fields are in order
    given = cast("Mapping[str, Json]", clean_json(thaw(cast("Json", schema))))
    size = len(message.encode("utf-8", "surrogatepass")) + len(source) + len(canonical(given))
    if size > MOST_BYTES:
        raise ArgumentProblems([f"a question has {MOST_BYTES:,} bytes at most; this one has {size:,}"])
    return Question(clean(message), clean(source), given, form_of(given))


class QuestionOperation(Operation[QuestionEvent, Elicited]):
    """One question. ``by`` is who answered it."""

    name = "question"
    hooks = Hooks("", "decide_question")

    def __init__(
        self, journal: Journal, scope: Scope, services: Services, capability: str, question: Question, id: str
    ) -> None:
        self.journal = journal
        self.scope = scope
        self.id = id
        self.by = ""
        self._services = services
        self._question = question
        self._capability = capability
        event = QuestionEvent(scope, capability, question.source, question.message, question.schema)
        self.event = attrs.evolve(event, rendered=self.rendered(event))

    def freeze(self, event: QuestionEvent) -> QuestionEvent:
        parts = (self.scope.session_id, self.id, event.capability, event.source, event.message)
        asked = framed(*map(str.encode, parts)) + canonical(thaw(event.schema)) + asked_by(event.scope)
        return attrs.evolve(event, digest=hashlib.sha256(asked).hexdigest())

    def capability(self) -> str:
        return self._capability

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
            return Cancelled("in a dry run nobody is asked")
        settings, started = self._services.settings, perf_counter()
        for impl in self._services.chains[HOOK]:
            in_code = impl.plugin.startswith(APP)
            if not in_code and impl.plugin not in settings.grants.approvers:
                continue
            # A person has no deadline; a program that the operator listed has one.
            limit = float("inf") if in_code else started + settings.timeouts.approver_s
            answer = await self._services.caller.call(impl, event, limit)
            read, problem = (None, answer.problem) if answer.problem else self._read(answer.value)
            if problem:
                self._services.tell(HookFailed(self.scope, impl.plugin, HOOK, problem))
            elif read is not None:
                self.by = impl.plugin
                return read
        return Cancelled("nobody was there to answer")

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
