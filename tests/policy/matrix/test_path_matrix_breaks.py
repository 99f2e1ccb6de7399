"""The path matrix notices hosts that are broken, each in the test and the cell that are about it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import attrs
import pytest
from pluggent_hookspecs import Deny, QuestionAnswered, TextShown, ToolOutput, Vote
from pluggent_hookspecs.hooks import HOOKS, HookInfo
from pluggent_hookspecs.markers import HookKind
from pluggent_host import Host, Session, session
from pluggent_host.hooks.caller import NOTHING, Answer, Caller, Late
from pluggent_host.hooks.event_bus import Observers
from pluggent_host.hooks.ledgers import Ledgers
from pluggent_host.hooks.votes import ballot
from pluggent_host.operations import pipeline
from pluggent_host.operations.around import Attempting
from pluggent_host.operations.memory import Memory
from pluggent_host.operations.operation import MADE_BY_DECIDE, Ready
from pluggent_host.operations.pipeline import Operations
from pluggent_host.turns import loop as turn, nested
from pluggent_host.turns.loop import select_tools
from pluggent_host.turns.nested import NestedModelCall
from pluggent_host.turns.streaming import Deltas
from pluggent_testing.paths import PATHS, PathMatrix, entries as paths_entries, path_matrix
from pluggent_testing.paths.matrix import cells_of
from pluggent_testing.paths.probes import ANSWERED, witness
from policy_rules import hooked

REFUSES = "test_what_a_hook_refuses_has_no_effect"
CHANGES = "test_what_a_hook_changes_is_what_counts"
FIRES = "test_every_hook_fires_once_for_each_operation"
RECORDED = "test_every_decision_is_recorded_before_it_has_an_effect"
SETTLED = "test_every_attempt_is_reserved_and_settled"
REACHED = "test_every_hook_of_the_application_is_reached"
UNRECORDED = "test_what_a_sink_cannot_record_has_no_effect"
UNAPPROVED = "test_an_approver_that_fails_has_agreed_to_nothing"
OBSERVED = "test_an_observer_that_fails_changes_nothing"


@attrs.frozen
class Break:
    """What is broken, and what has to notice: tests, each with a cell."""

    make: Callable[[pytest.MonkeyPatch], None]
    noticed: tuple[tuple[str, str], ...]


def _undecided(when: Callable[[Any], bool], method: str = "decide") -> Callable[[pytest.MonkeyPatch], None]:
    """Let no policy decide about operations of some kind."""

    def make(patch: pytest.MonkeyPatch) -> None:
        decide = getattr(Operations, method)

        async def broken(self: Operations, operation: Any, *event: Any) -> Any:
            if when(operation):
                return Ready(MADE_BY_DECIDE, operation, operation.freeze(operation.event))
            return await decide(self, operation, *event)

        patch.setattr(Operations, method, broken)

    return make


def _called_directly(patch: pytest.MonkeyPatch) -> None:
    """Let ``call_tool`` alone call the tool."""

    async def broken(
        services: Any, conversation: Any, agent: Any, scope: Any, name: str, arguments: Any, book: Any
    ) -> ToolOutput:
        output = await agent.tools[name].tool.call({"mark": "mark-one"}, None)
        return output if isinstance(output, ToolOutput) else ToolOutput(output)

    patch.setattr(session, "call_directly", broken)


def _shown_at_once(patch: pytest.MonkeyPatch) -> None:
    """Let a stream be shown as it comes."""

    def broken(self: Any, text: str, reasoning: str) -> bool:
        self._journal.emit(TextShown(self._scope, text))
        return True

    patch.setattr(Deltas, "show", broken)


def _not_awaited(patch: pytest.MonkeyPatch) -> None:
    """Let what has to be awaited count as no opinion."""

    async def broken(self: Caller, impl: Any, answer: Answer, deadline: float) -> Answer:
        if inspect.iscoroutine(answer.value):
            answer.value.close()
        return NOTHING

    patch.setattr(Caller, "awaited", broken)


def _late_is_fine(patch: pytest.MonkeyPatch) -> None:
    """Let who is late count as having no opinion."""

    async def broken(self: Caller, impl: Any, answer: Answer, deadline: float) -> Answer:
        try:
            return Answer(await self.bounded(answer.value, lambda: deadline - perf_counter()))
        except Late:
            return NOTHING

    patch.setattr(Caller, "awaited", broken)


def _faults_are_fine(patch: pytest.MonkeyPatch) -> None:
    """Let a policy that fails, or answers nonsense, count as having no opinion."""

    def broken(hook: str, plugin: str, answer: Answer, *, may_respond: bool) -> Any:
        decision, vote = ballot(hook, plugin, answer, may_respond=may_respond)
        return (None, Vote(plugin, "none")) if "failed" in getattr(decision, "tell_model", "") else (decision, vote)

    patch.setattr(pipeline, "ballot", broken)


def _results_pass(when: Callable[[Any], bool]) -> Callable[[pytest.MonkeyPatch], None]:
    """Let the results of some operations pass no hooks."""

    def make(patch: pytest.MonkeyPatch) -> None:
        finish = Operations.finish

        async def broken(self: Operations, operation: Any, event: Any, result: Any) -> Any:
            return result if when(operation) else await finish(self, operation, event, result)

        patch.setattr(Operations, "finish", broken)

    return make


def _unchanged(patch: pytest.MonkeyPatch) -> None:
    """Ask transforms, and go on with what there was before."""
    transform = Operations._transform  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] # it is to be broken

    async def broken(self: Operations, operation: Any, *rest: Any) -> Any:
        await transform(self, operation, *rest)
        return operation.event, ()

    patch.setattr(Operations, "_transform", broken)


def _decided_before(patch: pytest.MonkeyPatch) -> None:
    """Ask policies about what there was before the transforms."""
    transform, ballots = Operations._transform, Operations._ballots  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] # it is to be broken
    before: dict[int, Any] = {}

    async def remembering(self: Operations, operation: Any, *rest: Any) -> Any:
        before[id(operation)] = operation.event
        return await transform(self, operation, *rest)

    async def broken(self: Operations, operation: Any, hook: str, event: Any, *rest: Any, **more: Any) -> Any:
        seen = before.get(id(operation), event) if hook == operation.hooks.decide else event
        return await ballots(self, operation, hook, seen, *rest, **more)

    patch.setattr(Operations, "_transform", remembering)
    patch.setattr(Operations, "_ballots", broken)


def _nothing(*given: object, **named: object) -> None:
    """Do nothing."""


def _unwritten(patch: pytest.MonkeyPatch) -> None:
    """Record decisions nowhere."""
    patch.setattr(Operations, "_record", _nothing)


def _paid_once(patch: pytest.MonkeyPatch) -> None:
    """Reserve the first attempt alone."""
    attempt = vars(Attempting)["_attempt"]

    async def broken(self: Any, made: Any) -> Any:
        if made.number == 1:
            return await attempt(self, made)
        return await self.operation.execute(self.event, made)

    patch.setattr(Attempting, "_attempt", broken)


def _never_settled(patch: pytest.MonkeyPatch) -> None:
    """Settle nothing."""

    async def broken(*given: object) -> None:
        """Do nothing."""

    patch.setattr(Ledgers, "_settle", broken)


def _read_directly(patch: pytest.MonkeyPatch) -> None:
    """Let ``get`` go to the store at once."""

    async def broken(self: Any, namespace: str, key: str) -> Any:
        _, store = await self._Memory__open()
        return await store.get(namespace, key)

    patch.setattr(Memory, "get", broken)


def _agreed(patch: pytest.MonkeyPatch) -> None:
    """Let every ask pass without an approval."""

    async def broken(self: Operations, asked: Any) -> Any:
        return Ready(MADE_BY_DECIDE, asked.operation, asked.event, asked.asks)

    patch.setattr(Operations, "ask", broken)


def _offered_all(patch: pytest.MonkeyPatch) -> None:
    """Ask which tools to offer, and offer all."""

    async def broken(chain: Any, caller: Any, hook_s: float, journal: Any, scope: Any, tools: Any) -> Any:
        await select_tools(chain, caller, hook_s, journal, scope, tools)
        return tools

    patch.setattr(turn, "select_tools", broken)


def _without_agreement(patch: pytest.MonkeyPatch) -> None:
    """Let a tool ask the model whatever anybody wrote."""
    patch.setattr(NestedModelCall, "doubt", _nothing)


def _answers_told(patch: pytest.MonkeyPatch) -> None:
    """Tell observers what was answered instead of the names of what was asked."""

    def broken(*facts: Any) -> Any:
        return attrs.evolve(QuestionAnswered(*facts), fields=(ANSWERED,))

    patch.setattr(nested, "QuestionAnswered", broken)


def _observers_matter(patch: pytest.MonkeyPatch) -> None:
    """Let what an observer raises come out."""

    def broken(self: Any, impl: Any, event: Any) -> None:
        impl.function(event)

    patch.setattr(Observers, "_call_inline", broken)


BREAKS: Mapping[str, Break] = {
    "call_tool goes round the operations": Break(
        _called_directly,
        (
            (FIRES, "call_tool"), (REFUSES, "call_tool-decide_tool_call-deny"), (REACHED, "call_tool"),
            (REFUSES, "call_tool-transform_tool_call-fails"), (CHANGES, "call_tool-transform_tool_result-changes"),
            (UNRECORDED, "call_tool-write_record-fails"), (REFUSES, "call_tool-reserve-deny"),
            (FIRES, "command"), (REFUSES, "command-decide_tool_call-deny"), (REACHED, "command-by-id"),
            (REFUSES, "command-by-id-reserve-fails"), (CHANGES, "command-for-others-transform_tool_result-changes"),
            (UNAPPROVED, "command-approved-resolve_approval-fails"), (UNRECORDED, "command-write_record-fails"),
        ),
    ),
    "resume does not decide again": Break(
        _undecided(lambda _: True, "decide_frozen"),
        (
            (FIRES, "resume"), (REFUSES, "resume-decide_tool_call-deny"), (REFUSES, "resume-decide_input-deny"),
            (REACHED, "resume-reopened"), (REFUSES, "sync-resume-decide_tool_call-deny"),
            (REFUSES, "resume-stream-decide_tool_call-fails"),
        ),
    ),
    "nothing is decided below a tool": Break(
        _undecided(lambda operation: operation.scope.origin == "tool"),
        (
            (REFUSES, "nested-tool-decide_tool_call-deny"), (REFUSES, "nested-model-decide_model_request-deny"),
            (REFUSES, "nested-memory-decide_memory_read-deny"), (REFUSES, "nested-memory-decide_memory_write-deny"),
            (REFUSES, "nested-question-decide_question-deny"), (REACHED, "nested-tool"), (RECORDED, "nested-tool"),
            (REFUSES, "stream-nested-decide_tool_call-deny"), (REFUSES, "call_tool-nested-decide_tool_call-deny"),
        ),
    ),
    "another request is sent without a decision": Break(
        _undecided(lambda operation: operation.id.endswith(".r1")),
        (
            (REFUSES, "reissue-decide_model_request-deny"), (REFUSES, "fallback-decide_model_request-deny"),
            (REFUSES, "fallback-stream-decide_model_request-deny"), (FIRES, "fallback"),
        ),
    ),
    "streams are shown as they come": Break(
        _shown_at_once,
        (
            (REFUSES, "stream-held-decide_output-deny"), (REFUSES, "stream-decide_model_response-deny"),
            (CHANGES, "stream-transform_output-changes"), (CHANGES, "stream-transform_delta-changes"),
            (REFUSES, "sync-stream-decide_output-deny"),
        ),
    ),
    "nothing is awaited": Break(_not_awaited, ((REFUSES, "say-decide_tool_call-deny"), (REFUSES, "say-reserve-deny"))),
    "who is late has no objection": Break(
        _late_is_fine, ((REFUSES, "say-decide_tool_call-late"), (REFUSES, "memory-decide_memory_write-late"))
    ),
    "who fails has no objection": Break(
        _faults_are_fine,
        ((REFUSES, "batch-decide_tool_call-fails"), (REFUSES, "chat-decide_output-fails")),
    ),
    "results of tools pass": Break(
        _results_pass(lambda operation: operation.name == "tool_call"),
        (
            (REFUSES, "failing-tool-decide_tool_result-deny"), (CHANGES, "refused-calls-transform_tool_result-changes"),
            (CHANGES, "nested-tool-transform_tool_result-changes"), (FIRES, "refused-calls"),
        ),
    ),
    "what broke off passes": Break(
        _results_pass(lambda operation: getattr(operation, "partial", None) is not None),
        (
            (REFUSES, "stream-broken-decide_model_response-deny"),
            (CHANGES, "stream-broken-transform_model_response-changes"),
        ),
    ),
    "transforms are asked in vain": Break(
        _unchanged,
        (
            (CHANGES, "say-transform_input-changes"), (CHANGES, "batch-serial-transform_tool_call-changes"),
            (CHANGES, "retry-transform_model_request-changes"), (CHANGES, "memory-transform_memory_write-changes"),
            (CHANGES, "run_sync-transform_output-changes"),
        ),
    ),
    "policies see what there was before": Break(
        _decided_before,
        (
            (CHANGES, "say-transform_input-changes"), (CHANGES, "say-transform_tool_call-changes"),
            (CHANGES, "say-transform_model_request-changes"), (CHANGES, "memory-transform_memory_write-changes"),
            (CHANGES, "call_tool-transform_tool_call-changes"),
        ),
    ),
    "nothing is recorded": Break(
        _unwritten,
        ((RECORDED, "say"), (UNRECORDED, "batch-write_record-fails"), (UNRECORDED, "memory-write_record-fails")),
    ),
    "only first attempts are paid for": Break(
        _paid_once, ((SETTLED, "retry"), (SETTLED, "retry-tool"), (FIRES, "retry"))
    ),
    "nothing is settled": Break(_never_settled, ((SETTLED, "say"), (SETTLED, "stream-broken"))),
    "memory is read directly": Break(
        _read_directly,
        (
            (REFUSES, "memory-decide_memory_read-deny"), (CHANGES, "sync-memory-transform_memory_result-changes"),
            (FIRES, "nested-memory"),
        ),
    ),
    "no person is asked for an approval": Break(
        _agreed,
        (
            (REFUSES, "approved-tool-call-resolve_approval-deny"), (REFUSES, "resume-resolve_approval-deny"),
            (UNAPPROVED, "approved-nested-resolve_approval-fails"),
            (UNAPPROVED, "approved-memory-write-resolve_approval-fails"),
        ),
    ),
    "no person has to agree to what a tool asks for others": Break(
        _without_agreement,
        (
            (FIRES, "nested-model-agreed"), (REFUSES, "nested-model-agreed-resolve_approval-deny"),
            (UNAPPROVED, "nested-model-agreed-resolve_approval-fails"),
        ),
    ),
    "answers of people are recorded": Break(
        _answers_told, ((RECORDED, "nested-question"), (RECORDED, "command-nested"))
    ),
    "all tools are offered": Break(_offered_all, ((CHANGES, "say-select_tools-changes"),)),
    "observers matter": Break(_observers_matter, ((OBSERVED, "say"),)),
}  # fmt: skip
"""Each break by a sentence that says what is wrong."""


async def agrees(event: object) -> None:
    """Change nothing."""


class Suite(PathMatrix):
    def composition(self) -> Mapping[str, Any]:
        return {
            "installed": False,
            "plugins": [hooked(name="Own", decide_tool_call=None, transform_tool_result=agrees)],
        }


def run(suite: PathMatrix, test: str, cell: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one cell of *test* as pytest would."""
    function = getattr(suite, test)
    names, rows = cells_of(test, suite.paths) or ("", ())
    (values,) = (row.values for row in rows if row.id == cell)
    fixtures = {
        "folder": folder,
        "monkeypatch": monkeypatch,
        "witnessed": lambda path: suite.play(path, folder, lambda log: (witness(log),)),
    }
    given: dict[str, Any] = dict(zip(names.split(","), values, strict=True))
    wanted = inspect.signature(function).parameters
    function(**given, **{name: value for name, value in fixtures.items() if name in wanted})


CASES = [
    pytest.param(broken, test, cell, id=f"{sentence}: {test.removeprefix('test_')}[{cell}]")
    for sentence, broken in BREAKS.items()
    for test, cell in broken.noticed
]


@pytest.mark.parametrize(("broken", "test", "cell"), CASES)
@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_broken_host_is_noticed(
    broken: Break, test: str, cell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(Suite(), test, cell, tmp_path, monkeypatch)

    broken.make(monkeypatch)

    with pytest.raises((AssertionError, RuntimeError)):  # or what the probe raised comes out
        run(Suite(), test, cell, tmp_path, monkeypatch)


def test_a_public_method_on_no_path_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "whisper", lambda *_: None, raising=False)

    with pytest.raises(AssertionError, match=r"Session\.whisper"):
        Suite().test_every_public_method_is_on_a_path_or_has_a_reason_not_to_be()


def test_a_reason_for_a_method_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Host, "load_all")

    with pytest.raises(AssertionError, match=r"Host\.load_all"):
        Suite().test_every_public_method_is_on_a_path_or_has_a_reason_not_to_be()


def test_a_hook_that_no_path_knows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HOOKS, "decide_thing", HookInfo("decide_thing", HookKind.DECIDE, print))

    with pytest.raises(AssertionError, match="decide_thing"):
        Suite().test_every_hook_of_the_contract_is_on_a_path()


def test_a_path_that_is_left_out_has_to_be_one() -> None:
    class Wrong(Suite):
        left_out = {"sya": "misspelt"}  # noqa: RUF012 (as an application writes it)

    with pytest.raises(AssertionError, match="sya"):
        Wrong().test_every_path_that_is_left_out_is_one()


def test_a_path_that_is_left_out_is_skipped_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Without(Suite):
        left_out = {"say": "nothing is said here"}  # noqa: RUF012 (as an application writes it)

    with pytest.raises(pytest.skip.Exception, match="nothing is said here"):
        run(Without(), REFUSES, "say-decide_input-deny", tmp_path, monkeypatch)


def test_a_policy_that_refuses_the_tools_of_the_suite_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strict = hooked(name="Strict", decide_tool_call=Deny("only what I know"))

    class Refusing(Suite):
        def composition(self) -> Mapping[str, Any]:
            return {"installed": False, "plugins": [strict]}

    with pytest.raises(AssertionError, match="tool_call deny by app:strict: only what I know"):
        run(Refusing(), "test_every_hook_fires_once_for_each_operation", "say", tmp_path, monkeypatch)


def test_every_public_method_is_known() -> None:
    assert {"Session.say", "ToolContext.call_model", "MemoryAccess.search"} <= paths_entries.methods()


def test_the_table_names_every_path_and_every_hook() -> None:
    head, _, *rows = path_matrix().splitlines()

    fired = {name for name, info in HOOKS.items() if info.kind is not HookKind.PROVIDE}
    assert {cell.strip() for cell in head.split("|")} - {"", "path"} == fired
    assert [row.split("|")[1].strip() for row in rows] == [*PATHS]
