"""The rules of policy, one after the other, through an open host. Numbers are those of the rules."""

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from naming import shown
from pluggent_hookspecs import (
    ANSWERS,
    ApprovalEvent,
    Ask,
    ConfigError,
    Decision,
    DecisionMade,
    Deny,
    Discarded,
    Effect,
    FinishReason,
    HookError,
    Image,
    Message,
    ModelParameters,
    ModelResponse,
    Param,
    PluginContext,
    Provider,
    ProviderError,
    ProviderErrorKind,
    Reasoning,
    ReasoningShown,
    Respond,
    Role,
    Text,
    TextShown,
    Tool,
    ToolCall,
    ToolContext,
    ToolOutput,
    TurnEnded,
    UserNotified,
    hookimpl,
    tool,
)
from pluggent_hookspecs.memory import MemoryStore
from pluggent_host import Host
from pluggent_host.confinement import stays_inside
from pluggent_host.session import Session
from pluggent_host.settings import Grants, HostSettings, Limits, Timeouts
from pluggent_host.testing.fakes import Recorder, ScriptedModel, call
from policy_stage import Danger, Stage, either_way, in_order, reach, results, stage

DANGER = "app:tools:tool/danger"
ASKS = HostSettings(effects={DANGER: ("shell",)})
both_orders = pytest.mark.parametrize("turned", [False, True])


def deciding(hook: str, *answers: object) -> object:
    """Return a plugin whose *hook* gives *answers* one after the other, the last one for ever."""
    waiting = list(answers)

    def decide(self: object, event: object) -> object:
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    decide.__name__ = hook
    return type("Decider", (), {hook: hookimpl(decide)})()


def yes(event: ApprovalEvent) -> bool:
    return True


# ---- rule 2: the default is a vote


async def test_the_hosts_default_stands_among_the_votes() -> None:
    seen = await reach("say", effects=())

    (made,) = [made for made in seen.decisions if made.operation == "tool_call"]
    assert [(vote.plugin, vote.verdict) for vote in made.votes] == [("host", "allow")]


async def test_only_an_answered_approval_satisfies_an_ask() -> None:
    assert (await reach("say", config=ASKS)).ran == ()
    assert (await reach("say", config=ASKS, approver=lambda _: None)).ran == ()
    assert (await reach("say", config=ASKS, approver=lambda _: False)).ran == ()
    assert (await reach("say", config=ASKS, approver=yes)).ran == ("x",)


async def test_an_unanswered_ask_ends_the_turn_and_says_what_was_needed() -> None:
    danger = Danger()

    async with stage(call("danger", path="x"), "never said", tools=danger.tools(), config=ASKS) as on:
        result = await on.session.say("go")

    assert result.why == "denied"
    assert "danger" in result.detail
    assert danger.ran == []


@pytest.mark.parametrize("answer", ["yes", 1, "True", {"approved": True}, object()], ids=shown)
async def test_an_approver_that_does_not_say_true_approves_nothing(answer: Any) -> None:
    assert (await reach("say", config=ASKS, approver=lambda _: answer)).ran == ()


async def test_an_approver_that_fails_approves_nothing() -> None:
    def fails(event: ApprovalEvent) -> bool:
        raise RuntimeError("the terminal is gone")

    assert (await reach("say", config=ASKS, approver=fails)).ran == ()


async def test_a_refusal_is_final_and_the_next_approver_is_not_asked() -> None:
    """Rule 16."""
    asked: list[str] = []

    class No:
        @hookimpl
        def resolve_approval(self, event):
            asked.append("no")
            return False

    class Yes:
        @hookimpl
        async def resolve_approval(self, event):
            asked.append("yes")
            return True

    seen = await reach("say", in_order(No(), Yes()), config=ASKS)

    assert (seen.ran, asked) == ((), ["no"])


async def test_an_approver_that_has_no_opinion_or_fails_leaves_it_to_the_next() -> None:
    class Silent:
        @hookimpl
        def resolve_approval(self, event):
            return None

    class Broken:
        @hookimpl
        async def resolve_approval(self, event):
            raise RuntimeError

    class Yes:
        @hookimpl
        async def resolve_approval(self, event):
            return True

    assert (await reach("say", in_order(Silent(), Broken(), Yes()), config=ASKS)).ran == ("x",)


async def test_the_approver_reads_the_frozen_arguments_escaped_and_whole() -> None:
    """Rules 10 and 17: what a person sees is made by the host from the frozen bytes."""
    asked: list[ApprovalEvent] = []
    evil = "a\u202eb\u200b\x1b[31m\n" + "x" * 5000

    class Rewriter:
        @hookimpl
        def transform_tool_call(self, event):
            return {"path": evil}

    await reach("say", [Rewriter()], config=ASKS, approver=asked.append)

    (event,) = asked
    assert all(character.isprintable() or character == "\n" for character in event.rendered)
    assert "x" * 5000 in event.rendered
    assert DANGER in event.rendered
    assert event.capability == DANGER


# ---- rule 3


async def test_two_different_answers_deny_and_name_both_plugins() -> None:
    plugins = in_order(deciding("decide_tool_call", Respond("one")), deciding("decide_tool_call", Respond("two")))

    seen = await reach("say", plugins)

    made = next(made for made in seen.decisions if made.operation == "tool_call")
    assert seen.ran == ()
    assert made.verdict == "deny"
    assert "a_decider" in made.by
    assert "b_decider" in made.by


async def test_a_deny_can_end_the_turn() -> None:
    async with stage(
        call("danger", path="x"), "never said", plugins=[deciding("decide_tool_call", Deny("no", ends_turn=True))],
        tools=Danger().tools(),
    ) as on:  # fmt: skip
        result = await on.session.say("go")

    assert result.why == "denied"
    assert len(on.model.requests) == 1
    assert results(on.session.history) == ["Denied: no"]


@both_orders
async def test_a_deny_ends_the_turn_if_any_policy_says_so(turned: bool) -> None:
    first, last = deciding("decide_tool_call", Deny("no")), deciding("decide_tool_call", Deny("stop", ends_turn=True))

    async with stage(
        call("danger", path="x"), plugins=either_way(first, last, turned=turned), tools=Danger().tools()
    ) as on:
        assert (await on.session.say("go")).why == "denied"


async def test_a_denied_result_can_end_the_turn() -> None:
    plugins = [deciding("decide_tool_result", Deny("no", ends_turn=True))]

    async with stage(call("quiet"), "never said", plugins=plugins, tools=Danger().tools()) as on:
        result = await on.session.say("go")

    assert result.why == "denied"
    assert len(on.model.requests) == 1


async def test_a_response_passes_the_result_hooks() -> None:
    class Redactor:
        @hookimpl
        def transform_tool_result(self, event):
            return ToolOutput("redacted")

    seen = await reach("say", [deciding("decide_tool_call", Respond("secret")), Redactor()])

    assert seen.told == ("redacted",)


async def test_a_response_to_a_model_request_is_the_reply_and_nothing_is_sent() -> None:
    async with stage("from the model", plugins=[deciding("decide_model_request", Respond("from a plugin"))]) as on:
        result = await on.session.say("go")

    assert (result.text, on.model.requests) == ("from a plugin", [])


async def test_a_response_to_an_input_ends_the_turn_with_it() -> None:
    async with stage("from the model", plugins=[deciding("decide_input", Respond("from a plugin"))]) as on:
        result = await on.session.say("go")

    assert (result.why, result.text, on.model.requests) == ("completed", "from a plugin", [])
    assert [message.text for message in on.session.history] == ["go", "from a plugin"]


# ---- rule 4: around


async def test_an_around_that_answers_is_recorded_as_a_respond() -> None:
    class Around:
        @hookimpl
        async def around_tool_call(self, event, call_next):
            return ToolOutput("mine")

    seen = await reach("say", [Around()])

    assert seen.told == ("mine",)
    assert ("respond", "app:around") in [(made.verdict, made.by) for made in seen.decisions]


async def test_the_answer_of_an_around_passes_the_result_hooks() -> None:
    class Around:
        @hookimpl
        async def around_tool_call(self, event, call_next):
            await call_next()
            return ToolOutput("secret")

    class Redactor:
        @hookimpl
        def transform_tool_result(self, event):
            return ToolOutput("redacted")

    assert (await reach("say", [Around(), Redactor()])).told == ("redacted",)


class Twice:
    @hookimpl
    async def around_tool_call(self, event, call_next):
        await call_next()
        return await call_next()


@pytest.mark.parametrize("second", [Deny("no longer"), Ask("still?"), Respond("cached"), "no decision"], ids=shown)
async def test_a_retrier_gets_a_new_decision_when_the_old_one_is_stale(
    second: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pluggent_host.operations.STALE_S", -1.0)

    seen = await reach("say", [Twice(), deciding("decide_tool_call", None, second)])

    assert seen.ran == ("x",)


async def test_a_retrier_goes_on_when_the_new_decision_is_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pluggent_host.operations.STALE_S", -1.0)

    assert (await reach("say", [Twice(), deciding("decide_tool_call", None)])).ran == ("x", "x")


async def test_an_approval_holds_for_every_attempt_at_the_same_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pluggent_host.operations.STALE_S", -1.0)
    asked: list[ApprovalEvent] = []

    def approve(event: ApprovalEvent) -> bool:
        asked.append(event)
        return True

    seen = await reach("say", [Twice(), deciding("decide_tool_call", Ask("may I?"))], approver=approve)

    assert (seen.ran, len(asked)) == (("x", "x"), 1)


async def test_a_new_ask_is_not_covered_by_the_old_approval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 11: an approval answers exactly the asks recorded."""
    monkeypatch.setattr("pluggent_host.operations.STALE_S", -1.0)
    plugins = [Twice(), deciding("decide_tool_call", Ask("may I?"), Ask("may I really?"))]

    assert (await reach("say", plugins, approver=yes)).ran == ("x",)


async def test_a_fresh_decision_is_not_repeated_for_a_retrier() -> None:
    assert (await reach("say", [Twice(), deciding("decide_tool_call", None, Deny("no longer"))])).ran == ("x", "x")


async def test_a_retrier_does_not_repeat_a_call_of_unknown_outcome_unasked() -> None:
    """Rule 21: never twice without asking."""
    ran: list[str] = []

    @tool(effects=("shell",), timeout_s=0.05)
    async def hang() -> str:
        """Hang, the first time."""
        ran.append("hang")
        if len(ran) == 1:
            await asyncio.Event().wait()
        return "done"

    class Retrier:
        @hookimpl
        async def around_tool_call(self, event, call_next):
            output = await call_next()
            return await call_next() if output.is_error else output

    async with stage(call("hang"), plugins=[Retrier()], tools=[hang]) as on:
        await on.session.say("go")

    assert ran == ["hang"]


@pytest.mark.parametrize("effects", [("network_read",), ()])
async def test_a_retrier_may_repeat_what_changes_nothing(effects: tuple[str, ...]) -> None:
    ran: list[str] = []

    @tool(effects=effects, timeout_s=0.05)
    async def hang() -> str:
        """Hang, the first time."""
        ran.append("hang")
        if len(ran) == 1:
            await asyncio.Event().wait()
        return "done"

    class Retrier:
        @hookimpl
        async def around_tool_call(self, event, call_next):
            output = await call_next()
            return await call_next() if output.is_error else output

    async with stage(call("hang"), plugins=[Retrier()], tools=[hang]) as on:
        await on.session.say("go")

    assert ran == ["hang", "hang"]
    assert on.read_by_model() == ["done"]


@pytest.mark.parametrize("reply", ["one", ProviderError(ProviderErrorKind.REFUSED, "no")], ids=["replies", "fails"])
async def test_an_around_turn_that_answers_after_the_turn_adds_no_second_one(reply: Any) -> None:
    class Around:
        @hookimpl
        async def around_turn(self, event, call_next):
            with contextlib.suppress(ProviderError):
                await call_next()
            return "other words"

    async with stage(reply, plugins=[Around()]) as on:
        with pytest.raises(HookError, match="the result of a turn cannot be replaced"):
            await on.session.say("go")

    said = [message.text for message in on.session.history if message.role is Role.USER]
    assert said == ["go"]
    assert len(on.recorder.of(TurnEnded)) == 1


# ---- rule 5: the table

FIRED = [hook for hook in ANSWERS if hook not in ("decide_plan", "decide_resource")]


@pytest.mark.parametrize("hook", [hook for hook in FIRED if "memory" not in hook])
@pytest.mark.parametrize("answer", [Deny("no"), Ask("?"), Respond(object()), True, "allow"], ids=shown)
async def test_every_decide_hook_stops_what_it_decides(hook: str, answer: object) -> None:
    """Anything but allow or a usable respond, nobody being there to ask, stops the operation."""
    danger = Danger(effects=())
    plugins = [deciding(hook, answer)]

    async with stage(call("danger", path="x"), "the last words", plugins=plugins, tools=danger.tools()) as on:
        result = await on.session.say("go")

    happened = {
        "decide_input": bool(on.model.requests),
        "decide_model_request": bool(on.model.requests),
        "decide_model_response": bool(danger.ran),
        "decide_tool_call": bool(danger.ran),
        "decide_tool_result": "did x" in repr(on.session.history),
        "decide_output": "the last words" in repr((result, on.session.history)),
    }
    assert not happened[hook]


@pytest.mark.parametrize("hook", [hook for hook in FIRED if "memory" not in hook])
async def test_every_decide_hook_can_be_answered_by_a_person(hook: str) -> None:
    danger = Danger(effects=())
    plugins = [deciding(hook, Ask("may I?"))]

    async with stage(
        call("danger", path="x"), "the last words", plugins=plugins, tools=danger.tools(), approver=yes
    ) as on:
        result = await on.session.say("go")

    assert (danger.ran, result.text) == (["x"], "the last words")
    assert "approved" in [made.verdict for made in on.decisions()]


# ---- rule 6: two texts


async def test_the_model_and_the_person_are_told_different_things() -> None:
    deny = Deny("try something else", tell_user="the operator forbids it")
    seen = await reach("say", [deciding("decide_tool_call", deny)])

    made = next(made for made in seen.decisions if made.operation == "tool_call")
    assert seen.told == ("Denied: try something else",)
    assert made.reason == "the operator forbids it"


async def test_a_person_whose_message_is_denied_reads_the_text_for_people() -> None:
    deny = Deny("for the model", tell_user="for the person")

    async with stage(plugins=[deciding("decide_input", deny)]) as on:
        result = await on.session.say("go")

    assert "for the person" in f"{result.text} {result.detail}"
    assert "for the model" not in f"{result.text} {result.detail}"


# ---- rule 7: defaults by effect

ALLOWED = {Effect.FILESYSTEM_READ, Effect.NETWORK_READ, Effect.MEMORY}
MATRIX: list[tuple[tuple[str, ...] | None, str]] = [
    *(((str(effect),), "allow" if effect in ALLOWED else "ask") for effect in Effect),
    ((), "allow"),
    (None, "ask"),
    (("x:teleport",), "ask"),
    (("filesystem_read", "network_read"), "allow"),
    (("filesystem_read", "shell"), "ask"),
    (("memory", "x:teleport"), "ask"),
]


@pytest.mark.parametrize(("effects", "default"), MATRIX, ids=repr)
async def test_the_default_follows_from_the_effects(effects: tuple[str, ...] | None, default: str) -> None:
    danger = Danger(effects)

    async with stage(tools=danger.tools(), config=HostSettings(strict=True)) as on:
        offered = {offered.name: offered.default for offered in on.session.tools}
        output = await on.session.call_tool("danger", {"path": "x"})

    assert offered["danger"] == default
    assert danger.ran == (["x"] if default == "allow" else [])
    assert output.is_error is (default == "ask")


@pytest.mark.parametrize("effects", [None, ("shell",), ("destructive", "x:teleport")])
async def test_tools_of_the_application_are_allowed_unless_it_is_strict(effects: tuple[str, ...] | None) -> None:
    assert (await reach("say", effects=effects)).ran == ("x",)
    assert (await reach("say", effects=effects, config=HostSettings(strict=True))).ran == ()


async def test_effects_that_the_operator_sets_count_before_the_tools_own() -> None:
    loosened = HostSettings(strict=True, effects={DANGER: ()})

    assert (await reach("say", effects=(), config=ASKS)).ran == ()
    assert (await reach("say", effects=("shell",), config=loosened)).ran == ("x",)


@given(
    st.one_of(st.none(), st.sets(st.sampled_from([*map(str, Effect), "x:one", "x:two"]))),
    st.booleans(),
    st.one_of(st.none(), st.sets(st.sampled_from([*map(str, Effect), "x:one"]))),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_combination_of_effects_runs_unasked_what_has_one_that_asks(
    own: set[str] | None, strict: bool, operators: set[str] | None
) -> None:
    config = HostSettings(strict=strict, effects={} if operators is None else {DANGER: tuple(sorted(operators))})
    effects = operators if operators is not None else own
    harmless = effects is not None and effects <= ALLOWED
    trusted = operators is None and not strict

    seen = asyncio.run(reach("call_tool", effects=None if own is None else tuple(sorted(own)), config=config))

    assert (seen.ran == ("x",)) is (harmless or trusted)


# ---- rules 7 and 32: what writing inside the workspace may not become


@tool(effects=("filesystem_write",))
async def write(path: Annotated[str, Param(format="path")]) -> str:
    """Write a file."""
    return f"wrote {path}"


async def writes_unasked(path: str, workspace: Path, **options: Any) -> bool:
    async with stage(tools=[write], workspace=workspace, config=HostSettings(strict=True), **options) as on:
        return not (await on.session.call_tool("write", {"path": path})).is_error


@pytest.mark.parametrize("path", ["~/.profile", "~root/.profile", "~", "file:///etc/passwd", "FILE:/etc/passwd", ""])
async def test_a_path_that_tools_read_in_another_way_than_the_host_asks(path: str, tmp_path: Path) -> None:
    assert not await writes_unasked(path, tmp_path)


@pytest.mark.parametrize("value", [[["../../x"]], {"to": "../../x"}, 1, True], ids=shown)
def test_a_marked_path_that_is_no_text_is_not_inside(value: Any, tmp_path: Path) -> None:
    schema = {"properties": {"path": {"format": "path"}}}

    assert not stays_inside(schema, json.dumps({"path": value}).encode(), str(tmp_path))


def test_a_path_deeper_in_the_arguments_is_looked_at_too(tmp_path: Path) -> None:
    path = {"type": "string", "format": "path"}
    schema = {"properties": {"path": path, "more": {"type": "object", "properties": {"path": path}}}}

    assert not stays_inside(schema, b'{"path":"a","more":{"path":"/etc/passwd"}}', str(tmp_path))


async def test_the_hosts_own_state_is_not_written_unasked_although_it_lies_in_the_workspace(tmp_path: Path) -> None:
    """Rule 32."""
    state = tmp_path / ".pluggent"

    assert not await writes_unasked(".pluggent/sessions/s.jsonl", tmp_path, state_dir=state)
    assert not await writes_unasked(str(state / "sessions" / "new.jsonl"), tmp_path, state_dir=state)


# ---- rule 9: what is offered


async def test_a_tool_that_was_not_offered_is_unknown_even_if_it_exists() -> None:
    danger = Danger()

    class Narrow:
        @hookimpl
        def select_tools(self, event):
            return [spec.name for spec in event.tools if spec.name != "danger"]

    async with stage(call("danger", path="x"), plugins=[Narrow()], tools=danger.tools()) as on:
        await on.session.say("go")

    assert danger.ran == []
    assert "there is no tool 'danger'" in on.read_by_model()[0]
    assert "danger" not in {spec.name for spec in on.model.requests[0].tools}


async def test_a_request_transform_can_take_a_tool_away_and_the_call_of_it_is_unknown() -> None:
    danger = Danger()

    class Narrow:
        @hookimpl
        def transform_model_request(self, event):
            return attrs.evolve(event.request, tools=tuple(s for s in event.request.tools if s.name != "danger"))

    async with stage(call("danger", path="x"), plugins=[Narrow()], tools=danger.tools()) as on:
        await on.session.say("go")

    assert danger.ran == []
    assert "there is no tool 'danger'" in on.read_by_model()[0]


@both_orders
async def test_what_one_transform_took_away_another_cannot_bring_back(turned: bool) -> None:
    danger = Danger()

    class Narrow:
        @hookimpl
        def transform_model_request(self, event):
            self.all = event.request.tools
            return attrs.evolve(event.request, tools=())

    narrow = Narrow()

    class Widen:
        @hookimpl
        def transform_model_request(self, event):
            return attrs.evolve(event.request, tools=getattr(narrow, "all", event.request.tools))

    async with stage(
        call("danger", path="x"), plugins=either_way(narrow, Widen(), turned=turned), tools=danger.tools()
    ) as on:
        if turned:
            await on.session.say("go")
        else:
            with pytest.raises(HookError, match="only be narrowed"):
                await on.session.say("go")

    assert danger.ran == []


@pytest.mark.parametrize(
    "edit",
    [
        lambda spec: attrs.evolve(spec, description="harmless"),
        lambda spec: attrs.evolve(spec, parameters={"type": "object"}),
        lambda spec: attrs.evolve(spec, effects=()),
        lambda spec: attrs.evolve(spec, name="other"),
        lambda spec: attrs.evolve(spec, idempotent=True),
    ],
    ids=["description", "parameters", "effects", "name", "idempotent"],
)
async def test_a_transform_that_edits_a_definition_is_refused_and_named(edit: Any) -> None:
    class Editor:
        @hookimpl
        def transform_model_request(self, event):
            return attrs.evolve(event.request, tools=tuple(edit(spec) for spec in event.request.tools))

    async with stage("hello", plugins=[Editor()], tools=Danger().tools()) as on:
        with pytest.raises(HookError, match="app:editor"):
            await on.session.say("go")

    assert on.model.requests == []


@pytest.mark.parametrize("selected", [["danger", "unknown"], ["unknown"], "danger", 7, [1], [["danger"]]], ids=shown)
async def test_a_selection_of_tools_that_are_not_there_fails_the_turn_and_names_the_plugin(selected: Any) -> None:
    class Selector:
        @hookimpl
        def select_tools(self, event):
            return selected

    async with stage("hello", plugins=[Selector()], tools=Danger().tools()) as on:
        with pytest.raises(HookError, match="app:selector"):
            await on.session.say("go")

    assert on.model.requests == []


async def test_a_selection_that_fails_while_it_is_read_fails_the_turn_and_names_the_plugin() -> None:
    class Selector:
        @hookimpl
        def select_tools(self, event):
            return (1 / 0 for _ in event.tools)

    async with stage("hello", plugins=[Selector()], tools=Danger().tools()) as on:
        with pytest.raises(HookError, match="app:selector"):
            await on.session.say("go")


async def test_the_offer_of_one_round_does_not_bind_the_next() -> None:
    danger = Danger(effects=())

    class OnlyFirst:
        rounds = 0

        @hookimpl
        def select_tools(self, event):
            self.rounds += 1
            return None if self.rounds == 1 else ["quiet"]

    first, second = call("danger", "one", path="1"), call("danger", "two", path="2")
    async with stage(first, second, plugins=[OnlyFirst()], tools=danger.tools()) as on:
        await on.session.say("go")

    assert danger.ran == ["1"]


async def test_a_transform_of_a_call_cannot_name_another_tool() -> None:
    """It changes arguments only: a key ``name`` is an argument, and this tool has none."""

    class Rewriter:
        @hookimpl
        def transform_tool_call(self, event):
            return {"name": "quiet", "arguments": {}}

    assert (await reach("say", [Rewriter()])).ran == ()


async def test_every_call_of_a_reply_has_an_id_of_its_own() -> None:
    calls = (ToolCall("call_0_1", "quiet"), ToolCall("", "quiet"), ToolCall("x", "quiet"), ToolCall("x", "quiet"))

    async with stage(calls, tools=Danger().tools()) as on:
        await on.session.say("go")

    ids = [message.tool_call_id for message in on.session.history if message.role is Role.TOOL]
    assert len(set(ids)) == 4


# ---- rule 10: one reading of the arguments


@pytest.mark.parametrize(
    "text",
    [
        '{"path": NaN}', '{"path": Infinity}', '{"path": -Infinity}', '{"path": "\\ud800"}',
        '{"path": 1}', "[]", "null", '"path"', '{"path": "x"} {"path": "y"}', "{'path': 'x'}", '{"path": "x",}', "{",
        '{"path": ' + "[" * 100 + "]" * 100 + "}", '{"path": "x", "more": 1}', "{}",
    ],
    ids=lambda text: ascii(text)[:30],
)  # fmt: skip
async def test_arguments_that_are_not_strictly_right_run_nothing(text: str) -> None:
    danger, decided = Danger(effects=()), Recorder()

    async with stage(ToolCall("c", "danger", text), tools=danger.tools(), plugins=[decided]) as on:
        await on.session.say("go")
        await on.session.call_tool("danger", text)

    assert danger.ran == []
    assert on.decisions("tool_call") == []
    assert "invalid arguments" in results(on.session.history)[0]


async def test_half_a_character_in_arguments_is_not_mended_but_refused() -> None:
    danger = Danger(effects=())

    half = ToolCall("c", "danger", '{"path": "\ud800"}')
    async with stage(half, tools=danger.tools()) as on:
        await on.session.say("go")
        output = await on.session.call_tool("danger", half.arguments)

    assert danger.ran == []
    assert output.is_error
    assert "invalid arguments" in results(on.session.history)[0]


async def test_policy_and_tool_see_the_same_value_of_a_duplicate_key() -> None:
    danger, seen = Danger(effects=()), []

    class Policy:
        @hookimpl
        def decide_tool_call(self, event):
            seen.append((dict(event.arguments), event.arguments_json))

    twice = ToolCall("c", "danger", '{"path": "good", "path": "evil"}')
    async with stage(twice, tools=danger.tools(), plugins=[Policy()]) as on:
        await on.session.say("go")

    assert seen == [({"path": "evil"}, b'{"path":"evil"}')]
    assert danger.ran == ["evil"]


async def test_defaults_and_coercions_are_there_before_the_first_hook() -> None:
    seen: list[bytes] = []

    @tool(effects=())
    async def fetch(limit: float, unit: str = "km") -> str:
        """Fetch."""
        return f"{limit!r} {unit}"

    class Watcher:
        @hookimpl
        def transform_tool_call(self, event):
            seen.append(event.arguments_json)

        @hookimpl
        def decide_tool_call(self, event):
            seen.append(event.arguments_json)

    async with stage(call("fetch", limit=3), tools=[fetch], plugins=[Watcher()]) as on:
        await on.session.say("go")

    assert seen[0] == seen[1]
    assert b'"unit":"km"' in seen[0]
    assert on.read_by_model() == ["3.0 km"]


@pytest.mark.parametrize(
    "value",
    [
        {}, {"path": 1}, {"path": "x", "more": 1}, {"path": float("nan")}, {"path": "\ud800"}, {"path": object()},
        [("path", "x")], "path", 5, True, {"path": ["x"]}, {1: "x"},
    ],
    ids=shown,
)  # fmt: skip
async def test_what_a_transform_returns_is_checked_like_the_models_own_arguments(value: Any) -> None:
    class Rewriter:
        @hookimpl
        def transform_tool_call(self, event):
            return value

    seen = await reach("say", [Rewriter()])

    assert seen.ran == ()
    assert len(seen.told) == 1
    assert "Denied" in seen.told[0]


async def test_a_transform_that_fails_runs_nothing_and_names_its_plugin() -> None:
    class Broken:
        @hookimpl
        def transform_tool_call(self, event):
            raise ValueError("broken")

    seen = await reach("say", [Broken()])

    assert seen.ran == ()
    assert "app:broken" in seen.told[0]


async def test_big_integers_survive_the_freeze() -> None:
    got: list[int] = []

    @tool(effects=())
    async def count(number: int) -> str:
        """Count."""
        got.append(number)
        return "counted"

    number = 2**200 + 1
    async with stage(ToolCall("c", "count", f'{{"number": {number}}}'), tools=[count], plugins=[Recorder()]) as on:
        await on.session.say("go")

    assert got == [number]


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
@settings(max_examples=60, deadline=None)
def test_what_the_policy_saw_is_what_the_tool_gets(arguments: dict[str, Any]) -> None:
    got: list[Any] = []
    seen: list[bytes] = []

    @tool(effects=())
    async def take(value: dict[str, Any]) -> str:
        """Take it."""
        got.append(value)
        return "taken"

    class Policy:
        @hookimpl
        def decide_tool_call(self, event):
            seen.append(event.arguments_json)

    async def main() -> None:
        async with stage(tools=[take], plugins=[Policy()]) as on:
            await on.session.call_tool("take", {"value": arguments})

    asyncio.run(main())

    assert got == [json.loads(seen[0])["value"]]


# ---- rule 11: digests


async def digest_of(
    path: str = "x", session: str = "s", effects: tuple[str, ...] | None = (), id: str = "c",
    description: str = "Do it.", name: str = "danger", before: int = 0,
) -> str:  # fmt: skip
    async def run(path: str) -> str:
        return path

    run.__doc__ = description
    marked = tool(name=name, effects=effects)(run)
    skipped = (call(name, f"skipped-{number}", path="y") for number in range(before))
    calls = (*skipped, call(name, id, path=path))
    async with stage(calls, tools=[marked], id=session) as on:
        await on.session.say("go")
    return on.decisions("tool_call")[before].digest


async def test_the_digest_depends_on_each_of_its_parts() -> None:
    digests = [
        await digest_of(),
        await digest_of(path="y"),
        await digest_of(session="t"),
        await digest_of(effects=("shell",)),
        await digest_of(effects=None),
        await digest_of(id="d"),
        await digest_of(description="Do something else."),
        await digest_of(name="other"),
        await digest_of(before=1),
    ]

    assert len(set(digests)) == len(digests)
    assert await digest_of() == digests[0]


async def test_the_digest_of_a_model_request_depends_on_each_of_its_parts() -> None:
    async def digest(text: str = "go", session: str = "s", tools: bool = False, **parameters: Any) -> str:
        async with stage("hello", id=session, tools=Danger().tools() if tools else ()) as on:
            await on.session.say(text, parameters=ModelParameters(**parameters))
        return on.decisions("model_call")[0].digest

    digests = [
        await digest(),
        await digest("stop"),
        await digest(session="t"),
        await digest(tools=True),
        await digest(temperature=0.0),
        await digest(temperature=1.0),
        await digest(extra={"a": 1}),
        await digest(extra={"a": 2}),
        await digest(output_schema={"type": "object"}),
        await digest(stop=("a",)),
    ]

    assert len(set(digests)) == len(digests)
    assert await digest() == digests[0]


async def test_an_approval_is_for_one_call_and_the_next_one_is_asked_about_again() -> None:
    danger = Danger()
    asked: list[ApprovalEvent] = []

    def approve(event: ApprovalEvent) -> bool:
        asked.append(event)
        return True

    calls = [call("danger", "one", path="x"), call("danger", "two", path="x")]
    async with stage(*calls, tools=danger.tools(), config=ASKS, approver=approve) as on:
        await on.session.say("go")

    assert danger.ran == ["x", "x"]
    assert len({event.digest for event in asked}) == 2
    made = {made.digest for made in on.decisions("tool_call")}
    assert {event.digest for event in asked} <= made


async def test_the_digest_of_the_chains_is_recorded() -> None:
    async with stage("hello", plugins=[deciding("decide_input", None)]) as on:
        await on.session.say("go")

    begun = [entry for entry in on.session.records() if type(entry).__name__ == "TurnBegan"]
    assert [getattr(entry, "chains", "") for entry in begun] == [on.host.chains.digest]


# ---- rule 13: who is late is in test_bypasses; here what a cancellation leaves


async def test_a_turn_cancelled_while_a_policy_decides_dispatches_nothing_and_closes_the_call() -> None:
    danger, waiting = Danger(), asyncio.Event()

    class Slow:
        @hookimpl
        async def decide_tool_call(self, event):
            waiting.set()
            await asyncio.Event().wait()

    async with stage(call("danger", path="x"), "and on", tools=danger.tools(), plugins=[Slow()]) as on:
        turn = asyncio.create_task(on.session.say("go"))
        await waiting.wait()
        turn.cancel()
        await asyncio.wait((turn,))

        assert [ended.why for ended in on.recorder.of(TurnEnded)] == ["cancelled"]
        assert results(on.session.history) == ["This call was not run: the turn ended before."]
        assert danger.ran == []


# ---- rule 15: the record comes first


def ran_without_room(how: str) -> list[str]:
    """Run a turn in a process that may not write a file longer than a few bytes; return what ran."""
    program = textwrap.dedent(
        f"""
        import asyncio, resource, sys, tempfile
        from pluggent_host import Host
        from pluggent_host.testing.fakes import ScriptedModel, call
        from pluggent_hookspecs import PluggentError, hookimpl, tool

        @tool(effects=("shell",))
        async def danger(path: str) -> str:
            "Do it."
            print("ran", path)
            return "done"

        class Fills:
            @hookimpl
            def decide_tool_call(self, event):
                resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

        async def main():
            model = ScriptedModel(call("danger", path="x"))
            async with Host.open(
                model="scripted/m", plugins=[model, Fills()], tools=[danger], installed=False, state_dir=sys.argv[1]
            ) as host:
                session = await host.session()
                try:
                    {how}
                except PluggentError as error:
                    print("error", type(error).__name__)

        asyncio.run(main())
        print("over")
        """
    )
    with tempfile.TemporaryDirectory() as folder:
        # Output goes through a pipe: the limit is on files.
        done = subprocess.run(  # noqa: S603 (this interpreter)
            [sys.executable, "-c", program, folder], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.stdout.endswith("over\n"), done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="RLIMIT_FSIZE is POSIX")
@pytest.mark.parametrize("how", ["await session.say('go')", "await session.call_tool('danger', {'path': 'x'})"])
def test_a_decision_that_cannot_be_recorded_is_a_denial(how: str) -> None:
    assert "ran x" not in ran_without_room(how)


async def test_the_decision_is_recorded_before_the_call_is_dispatched() -> None:
    order: list[str] = []

    @tool(effects=("shell",))
    async def look() -> str:
        """Look what is recorded already."""
        order.extend(type(entry).__name__ for entry in on.session.records())
        return "seen"

    async with stage(call("look"), tools=[look]) as on:
        await on.session.say("go")

    assert order.index("Dispatched") > max(place for place, name in enumerate(order) if name == "Decided")


# ---- rule 18: batches


@attrs.define
class Diary:
    """Tools with effects that write down that they ran."""

    ran: list[str] = attrs.field(factory=list)

    def tool(self, name: str, effects: tuple[str, ...] = ("shell",), **more: Any) -> Any:
        async def run() -> str:
            """Run."""
            self.ran.append(name)
            return name

        return tool(name=name, effects=effects, **more)(run)


def once_ran(diary: Diary, name: str, then: Decision, before: Decision | None = None) -> object:
    """Return a policy that answers *then* about ``late`` as soon as *name* has run."""

    class Policy:
        @hookimpl
        def decide_tool_call(self, event):
            if event.tool.name != "late":
                return None
            return then if name in diary.ran else before

    return Policy()


async def test_a_decision_is_repeated_after_an_effect_of_a_sibling() -> None:
    diary = Diary()
    tools = [diary.tool("first"), diary.tool("late")]

    async with stage(
        (call("first"), call("late")), tools=tools, plugins=[once_ran(diary, "first", Deny("too late"))]
    ) as on:
        await on.session.say("go")

    assert diary.ran == ["first"]
    assert on.read_by_model() == ["first", "Denied: too late"]


async def test_a_decision_is_repeated_when_a_sibling_had_an_effect_before_the_approval() -> None:
    diary = Diary()
    tools = [diary.tool("first"), diary.tool("late")]
    plugins = [once_ran(diary, "first", Deny("too late"), Ask("may I?"))]

    async with stage((call("first"), call("late")), tools=tools, plugins=plugins, approver=yes) as on:
        await on.session.say("go")

    assert diary.ran == ["first"]


async def test_a_decision_is_repeated_when_an_approved_sibling_had_an_effect() -> None:
    diary = Diary()
    tools = [diary.tool("first"), diary.tool("late")]
    config = HostSettings(strict=True)

    async with stage(
        (call("first"), call("late")), tools=tools, plugins=[once_ran(diary, "first", Deny("too late"))],
        approver=yes, config=config,
    ) as on:  # fmt: skip
        await on.session.say("go")

    assert diary.ran == ["first"]


async def test_a_decision_is_repeated_after_an_effect_of_a_concurrent_sibling() -> None:
    diary = Diary()
    tools = [diary.tool("first", concurrent=True), diary.tool("late", exclusive=True)]

    async with stage(
        (call("first"), call("late")), tools=tools, plugins=[once_ran(diary, "first", Deny("too late"))]
    ) as on:
        await on.session.say("go")

    assert diary.ran == ["first"]


async def test_an_answer_too_is_decided_again_after_an_effect() -> None:
    diary = Diary()
    tools = [diary.tool("first"), diary.tool("late", exclusive=True)]
    plugins = [once_ran(diary, "first", Deny("too late"), Respond("cached"))]

    async with stage((call("first"), call("late")), tools=tools, plugins=plugins) as on:
        await on.session.say("go")

    assert on.read_by_model() == ["first", "Denied: too late"]


async def test_an_ask_that_comes_up_in_the_second_decision_is_put_to_a_person() -> None:
    diary = Diary()
    asked: list[ApprovalEvent] = []
    tools = [diary.tool("first"), diary.tool("late")]

    def refuse(event: ApprovalEvent) -> bool:
        asked.append(event)
        return False

    async with stage(
        (call("first"), call("late")), tools=tools, plugins=[once_ran(diary, "first", Ask("still?"))], approver=refuse
    ) as on:
        await on.session.say("go")

    assert diary.ran == ["first"]
    assert len(asked) == 1


async def test_calls_that_need_no_approval_run_before_anybody_is_asked() -> None:
    diary = Diary()
    asked_after: list[list[str]] = []
    tools = [diary.tool("asked"), diary.tool("free", ())]
    config = HostSettings(effects={"app:tools:tool/asked": ("shell",)})

    def approve(event: ApprovalEvent) -> bool:
        asked_after.append(list(diary.ran))
        return True

    async with stage((call("asked"), call("free")), tools=tools, config=config, approver=approve) as on:
        await on.session.say("go")

    assert asked_after == [["free"]]
    assert diary.ran == ["free", "asked"]
    assert on.read_by_model() == ["asked", "free"]


async def test_a_refused_call_stays_refused_for_the_turn() -> None:
    """Rule 17."""
    asked: list[ApprovalEvent] = []
    danger = Danger()

    def refuse(event: ApprovalEvent) -> bool:
        asked.append(event)
        return False

    calls = [call("danger", "one", path="x"), call("danger", "two", path="x"), call("danger", "three", path="y")]
    async with stage(*calls, tools=danger.tools(), config=ASKS, approver=refuse) as on:
        await on.session.say("go")

    assert len(asked) == 2
    assert danger.ran == []


@pytest.mark.parametrize(("limits", "limit"), [(Limits(asks=2), "asks"), (Limits(denials=2, asks=99), "denials")])
async def test_too_many_asks_or_denials_end_the_turn(limits: Limits, limit: str) -> None:
    """Rule 17."""
    danger = Danger()
    calls = [call("danger", f"c{number}", path=str(number)) for number in range(9)]
    config = ASKS._replace(limits=limits)

    async with stage(*calls, tools=danger.tools(), config=config, approver=lambda _: limit == "asks") as on:
        result = await on.session.say("go")

    assert (result.why, result.limit) == ("limit", limit)
    assert len(on.model.requests) == 3


async def test_every_call_has_exactly_one_result_before_the_model_is_asked_again() -> None:
    danger = Danger()
    calls = (
        call("danger", "a", path="x"),
        call("nothing", "b"),
        ToolCall("c", "danger", "not json"),
        call("quiet", "d"),
        call("danger", "e", path="y"),
    )

    async with stage(calls, tools=danger.tools(), config=ASKS, approver=lambda event: "y" in event.rendered) as on:
        await on.session.say("go")

    told = [message.tool_call_id for message in on.model.requests[1].messages if message.role is Role.TOOL]
    assert told == ["a", "b", "c", "d", "e"]


# ---- rule 21: effects once


async def test_a_key_is_the_same_for_every_attempt_and_another_for_every_call() -> None:
    keys: list[str] = []

    @tool(effects=())
    async def key(context: ToolContext) -> str:
        """Tell the key."""
        keys.append(context.idempotency_key)
        return "k"

    async with stage((call("key", "a"), call("key", "b")), call("key", "c"), tools=[key], plugins=[Twice()]) as on:
        await on.session.say("go")
        await on.session.call_tool("key", {})

    assert list(Counter(keys).values()) == [2, 2, 2, 2]


async def test_a_key_is_never_given_twice_even_after_reopening(tmp_path: Path) -> None:
    keys: list[str] = []

    @tool(effects=())
    async def key(context: ToolContext) -> str:
        """Tell the key."""
        keys.append(context.idempotency_key)
        return "k"

    class Policy:
        @hookimpl
        def decide_input(self, event):
            return Deny("no") if event.message.text == "bad" else None

    for said in (["bad", "good"], ["good"], ["bad", "bad", "good"], ["good"]):
        async with stage(call("key"), plugins=[Policy()], tools=[key], state_dir=tmp_path, id="one") as on:
            for text in said:
                await on.session.say(text)

    assert len(set(keys)) == len(keys) == 4


@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_call_of_unknown_outcome_asks_before_it_runs_again_unless_it_is_idempotent(idempotent: bool) -> None:
    ran: list[str] = []

    @tool(effects=("shell",), timeout_s=0.05, idempotent=idempotent)
    async def hang() -> str:
        """Hang, the first time."""
        ran.append("hang")
        if len(ran) == 1:
            await asyncio.Event().wait()
        return "done"

    async with stage(call("hang", "one"), call("hang", "two"), tools=[hang]) as on:
        await on.session.say("go")

    assert len(ran) == (2 if idempotent else 1)


async def test_a_call_of_unknown_outcome_runs_again_when_a_person_agrees() -> None:
    ran: list[str] = []
    asked: list[str] = []

    @tool(effects=("shell",), timeout_s=0.05)
    async def hang() -> str:
        """Hang, the first time."""
        ran.append("hang")
        if len(ran) == 1:
            await asyncio.Event().wait()
        return "done"

    def approve(event: ApprovalEvent) -> bool:
        asked.extend(question for _, question in event.asks)
        return True

    calls = [call("hang", "one"), call("hang", "two"), call("hang", "three")]
    async with stage(*calls, tools=[hang], approver=approve) as on:
        await on.session.say("go")

    assert len(ran) == 3
    assert len(asked) == 1
    assert "may already have taken effect" in asked[0]


async def test_an_interrupted_call_asks_before_it_runs_again() -> None:
    ran: list[str] = []
    started = asyncio.Event()

    @tool(effects=("shell",))
    async def hang() -> str:
        """Hang, the first time."""
        ran.append("hang")
        started.set()
        if len(ran) == 1:
            await asyncio.Event().wait()
        return "done"

    async with stage(call("hang", "one"), call("hang", "two"), tools=[hang]) as on:
        turn = asyncio.create_task(on.session.say("go"))
        await started.wait()
        turn.cancel()
        await asyncio.wait((turn,))
        result = await on.session.say("again")

    assert ran == ["hang"]
    assert result.why == "denied"


async def test_a_failed_call_is_known_and_may_be_made_again() -> None:
    ran: list[str] = []

    @tool(effects=("shell",))
    async def fail() -> str:
        """Fail."""
        ran.append("fail")
        raise ValueError("no")

    async with stage(call("fail", "one"), call("fail", "two"), tools=[fail]) as on:
        await on.session.say("go")

    assert len(ran) == 2


# ---- rule 24: streams


async def streamed(on: Stage, text: str = "go") -> list[Any]:
    async with on.session.stream(text) as events:
        return [event async for event in events]


async def read(session: Session, events: list[Any]) -> None:
    """Put the events of a streamed turn into *events*, as far as they come."""
    async with session.stream("go") as stream:
        async for event in stream:
            events.append(event)  # noqa: PERF401 (what came before a failure is wanted)


def on_screen(events: list[Any]) -> str:
    """Return what a consumer has on the screen after *events*."""
    screen = ""
    for event in events:
        if isinstance(event, TextShown | ReasoningShown):
            screen += event.text
        elif isinstance(event, Discarded):
            screen = ""
    return screen


class Upper:
    @hookimpl
    def transform_model_response(self, event):
        return attrs.evolve(event.response, message=Message.assistant(event.response.message.text.upper()))


class UpperOutput:
    @hookimpl(band="security")
    async def transform_output(self, event):
        await asyncio.sleep(0)
        return Message.assistant(event.message.text.upper())


RESULT_HOOKS = [Upper, UpperOutput]


@pytest.mark.parametrize("plugin", RESULT_HOOKS)
async def test_nothing_of_a_stream_is_shown_before_the_result_hooks_have_decided(plugin: type) -> None:
    async with stage("some private words", plugins=[plugin()]) as on:
        events = await streamed(on)

    texts = [event.text for event in events if isinstance(event, TextShown)]
    assert texts == ["SOME PRIVATE WORDS"]
    assert "private" not in repr((events, on.recorder.events, on.session.records()))


async def test_without_result_hooks_a_stream_is_shown_as_it_comes() -> None:
    async with stage("some public words") as on:
        events = await streamed(on)

    assert [event.text for event in events if isinstance(event, TextShown)] == ["some ", "public ", "words"]


@pytest.mark.parametrize("plugin", RESULT_HOOKS)
async def test_provisional_text_is_discarded_when_a_result_hook_changes_it(plugin: type) -> None:
    async with stage("some words", plugins=[plugin()], config=HostSettings(stream="provisional")) as on:
        events = await streamed(on)

    assert any(isinstance(event, Discarded) for event in events)
    assert on_screen(events) == "SOME WORDS"


@pytest.mark.parametrize("hook", ["decide_model_response", "decide_output"])
@pytest.mark.parametrize("reasoning", [False, True], ids=["text", "reasoning"])
async def test_provisional_text_is_discarded_when_the_reply_is_denied(hook: str, reasoning: bool) -> None:
    reply: Any = "private words"
    if reasoning:
        reply = ModelResponse(Message.assistant((Reasoning("private thoughts"),)), FinishReason.STOP)
    config = HostSettings(stream="provisional")

    async with stage(reply, plugins=[deciding(hook, Deny("no"))], config=config) as on:
        events = await streamed(on)

    assert on_screen(events) == ""


@pytest.mark.parametrize("hook", ["transform_model_response", "transform_output"])
async def test_provisional_text_is_discarded_when_a_result_hook_fails(hook: str) -> None:
    def fail(self: object, event: object) -> None:
        raise ValueError("broken")

    fail.__name__ = hook
    plugin = type("Broken", (), {hook: hookimpl(fail)})()
    events: list[Any] = []

    async with stage("private words", plugins=[plugin], config=HostSettings(stream="provisional")) as on:
        with pytest.raises(HookError):
            await read(on.session, events)

    assert on_screen(events) == ""
    assert "private" not in repr(on.session.history)


async def test_a_result_hook_that_fails_shows_nothing_of_a_held_stream() -> None:
    class Broken:
        @hookimpl
        def transform_model_response(self, event):
            raise ValueError("broken")

    async with stage("private words", plugins=[Broken()]) as on:
        with pytest.raises(HookError, match="app:broken"):
            await streamed(on)

    assert "private" not in repr((on.recorder.events, on.session.history, on.session.records()))


async def test_what_came_of_a_broken_stream_passes_the_result_hooks() -> None:
    model = ScriptedModel("some private words", cut=2)
    recorder = Recorder()

    async with Host.open(model="scripted/m", plugins=[model, recorder, Upper()], installed=False) as host:
        session = await host.session()
        with pytest.raises(ProviderError):
            await read(session, [])

    assert "private" not in repr((recorder.events, session.history, session.records()))


async def test_what_came_of_a_broken_stream_is_withheld_when_it_is_denied() -> None:
    model, recorder = ScriptedModel("some private words", cut=2), Recorder()
    plugins = [model, recorder, deciding("decide_model_response", Deny("no"))]

    async with Host.open(model="scripted/m", plugins=plugins, installed=False) as host:
        session = await host.session()
        with pytest.raises(ProviderError):
            await read(session, [])

    assert "private" not in repr((recorder.events, session.history, session.records()))


# ---- rule 25: everything a person sees


def serving(**more: Any) -> Any:
    @tool(effects=())
    async def serve() -> ToolOutput:
        """Serve the person."""
        return ToolOutput("for the model", for_user="private words", media=(Image(url="private.png"),), **more)

    return serve


SERVE = "app:tools:tool/serve"


async def test_what_a_tool_has_for_the_person_passes_the_output_hooks() -> None:
    class Redactor:
        @hookimpl
        def transform_output(self, event):
            return Message.assistant("redacted") if event.source == SERVE else None

    async with stage(call("serve"), tools=[serving()], plugins=[Redactor()]) as on:
        await on.session.say("go")

    (told,) = on.recorder.of(UserNotified)
    assert (told.message.text, told.message.content, told.source) == ("redacted", (Text("redacted"),), SERVE)


@pytest.mark.parametrize("answer", [Deny("no"), Ask("may I?"), True])
async def test_what_a_tool_has_for_the_person_can_be_denied(answer: object) -> None:
    async with stage(call("serve"), tools=[serving()], plugins=[deciding("decide_output", answer, None)]) as on:
        await on.session.say("go")

    assert on.recorder.of(UserNotified) == []


@pytest.mark.parametrize("granted", [False, True])
async def test_handled_counts_only_with_the_operators_grant(granted: bool) -> None:
    config = HostSettings(grants=Grants(handled=(SERVE,) if granted else ()))

    async with stage(call("serve"), "after", tools=[serving(handled=True)], config=config) as on:
        result = await on.session.say("go")

    assert result.why == ("handled" if granted else "completed")
    assert len(on.model.requests) == (1 if granted else 2)


@pytest.mark.parametrize("granted", [False, True])
async def test_silent_counts_only_with_the_operators_grant(granted: bool) -> None:
    config = HostSettings(grants=Grants(handled=(SERVE,) if granted else ()))

    async with stage(call("serve"), "after", tools=[serving(silent=True)], config=config) as on:
        await on.session.say("go")

    assert bool(on.recorder.of(UserNotified)) is not granted


async def test_a_handled_output_passes_the_output_hooks_although_no_model_call_follows() -> None:
    config = HostSettings(grants=Grants(handled=(SERVE,)))
    plugins = [deciding("decide_output", Deny("not for people"))]

    async with stage(call("serve"), tools=[serving(handled=True)], config=config, plugins=plugins) as on:
        result = await on.session.say("go")

    assert on.recorder.of(UserNotified) == []
    assert "private" not in result.text


async def test_the_words_beside_a_tool_call_pass_the_output_hooks_too() -> None:
    reply = ModelResponse(Message.assistant("private words", (call("quiet"),)), FinishReason.TOOL_CALLS)

    async with stage(reply, "fine words", tools=Danger().tools(), plugins=[UpperOutput()]) as on:
        await on.session.say("go")

    assert [said.text for said in on.recorder.of(TextShown)] == ["PRIVATE WORDS", "FINE WORDS"]


# ---- rule 26: what records hold


async def test_what_a_redactor_removed_stands_in_no_record() -> None:
    class Normal:
        @hookimpl
        def transform_input(self, event):
            return Message.user(event.message.text.strip())

        @hookimpl
        def transform_tool_call(self, event):
            return {"path": event.arguments["path"].strip()}

    class Redactor:
        @hookimpl(band="security")
        def transform_input(self, event):
            return Message.user(event.message.text.replace("secret", "***"))

        @hookimpl(band="security")
        def transform_tool_call(self, event):
            return {"path": event.arguments["path"].replace("secret", "***")}

    danger = Danger()
    async with stage(call("danger", path=" secret "), plugins=[Normal(), Redactor()], tools=danger.tools()) as on:
        await on.session.say(" my secret ")

    assert danger.ran == ["***"]
    assert "secret" not in repr((on.recorder.of(DecisionMade), on.decisions()))
    decisions = [entry for entry in on.session.records() if type(entry).__name__ == "Decided"]
    assert "secret" not in repr(decisions)


async def test_the_change_of_a_security_transform_names_paths_and_no_values() -> None:
    class Redactor:
        @hookimpl(band="security")
        def transform_tool_call(self, event):
            return {"path": "***"}

    seen = await reach("say", [Redactor()])

    (change,) = [change for made in seen.decisions for change in made.changes]
    assert (change.plugin, change.paths, change.before, change.after) == ("app:redactor", ("path",), None, None)


async def test_the_change_of_an_ordinary_transform_is_recorded_with_its_values() -> None:
    class Rewriter:
        @hookimpl
        def transform_tool_call(self, event):
            return {"path": "y"}

    seen = await reach("say", [Rewriter()])

    (change,) = [change for made in seen.decisions for change in made.changes]
    assert (change.plugin, change.before, change.after) == ("app:rewriter", {"path": "x"}, {"path": "y"})


# ---- rule 30, and the lists of the operator


@pytest.mark.parametrize(
    "config",
    [
        HostSettings(grants=Grants(security=("no-such-plugin",))),
        HostSettings(grants=Grants(may_allow=("no-such-plugin",))),
        HostSettings(grants=Grants(may_respond=("no-such-plugin",))),
        HostSettings(grants=Grants(approvers=("no-such-plugin",))),
        HostSettings(grants=Grants(retriers=("no-such-plugin",))),
        HostSettings(grants=Grants(optional=("no-such-plugin",))),
        HostSettings(order=("no-such-plugin",)),
        HostSettings(effects={"no-such-plugin:tool/x": ()}),
        HostSettings(required={"no-such-plugin": ()}),
        HostSettings(plugins={"no-such-plugin": {}}),
        HostSettings(aliases={"x": "no-such-plugin:tool/x"}),
    ],
    ids=["security", "may_allow", "may_respond", "approvers", "retriers", "optional", "order", "effects", "required",
         "plugins", "aliases"],
)  # fmt: skip
async def test_unknown_names_in_operator_lists_are_errors(config: HostSettings) -> None:
    with pytest.raises(ConfigError, match="no-such-plugin"):
        await reach("say", config=config)


# ---- rule 31: what contexts and hosts hand out

FORBIDDEN = (Provider, Tool, MemoryStore)
OPAQUE = (str, bytes, int, float, bool, type(None), type, Path)


def reachable(thing: object, depth: int = 4) -> list[tuple[str, object]]:
    """Return everything that public attributes lead to from *thing*, with the way there."""
    found: list[tuple[str, object]] = []
    seen: set[int] = set()
    waiting = [("", thing, depth)]
    while waiting:
        path, item, left = waiting.pop()
        if id(item) in seen or isinstance(item, OPAQUE):
            continue
        seen.add(id(item))
        found.append((path, item))
        if left == 0:
            continue
        if isinstance(item, Mapping):
            waiting += [(f"{path}[{key!r}]", value, left - 1) for key, value in list(item.items())]
        elif isinstance(item, tuple | list | set | frozenset):
            waiting += [(f"{path}[{number}]", value, left - 1) for number, value in enumerate(item)]
        for name in dir(item):
            if not name.startswith("_"):
                try:
                    waiting.append((f"{path}.{name}", getattr(item, name), left - 1))
                except Exception:  # noqa: BLE001, S112 (an attribute that cannot be read leads nowhere)
                    continue
    return found


def leaks(thing: object) -> list[str]:
    return [path for path, item in reachable(thing) if isinstance(item, FORBIDDEN) and not isinstance(item, type)]


async def test_contexts_and_hosts_hand_out_no_provider_tool_or_store() -> None:
    leaked: dict[str, list[str]] = {}

    class Nosy:
        def open(self, context: PluginContext) -> Any:
            leaked["plugin context"] = leaks(context)
            return asyncio.timeout(None)

        @hookimpl
        def decide_tool_call(self, event):
            leaked["event"] = leaks(event)

        @hookimpl
        async def around_tool_call(self, event, call_next):
            leaked["call_next"] = leaks(call_next)
            return await call_next()

        @hookimpl
        async def around_model_call(self, event, call_next):
            leaked["model call"] = leaks((event, call_next))
            return await call_next()

    @tool(effects=())
    async def look(context: ToolContext) -> str:
        """Look around."""
        leaked["context"] = leaks(context)
        leaked["memory"] = leaks(context.memory("inmemory"))
        return "seen"

    async with stage(call("look"), plugins=[Nosy()], tools=[look], installed=True) as on:
        await on.session.say("go")
        leaked["host"] = leaks(on.host)
        leaked["session"] = leaks(on.session)
        leaked["host memory"] = leaks(on.host.memory("inmemory"))
        async with on.session.stream("go") as events:
            leaked["stream"] = leaks(events)
            _ = [event async for event in events]

    assert set(leaked) >= {"plugin context", "event", "call_next", "model call", "context", "memory", "host", "session"}
    assert {place: paths for place, paths in leaked.items() if paths} == {}


def test_the_walk_finds_what_it_looks_for() -> None:
    class Holder:
        def __init__(self) -> None:
            self.inner = {"list": [ScriptedModel()]}

    assert leaks(Holder()) == [".inner['list'][0]"]


# ---- timeouts of the policies do not depend on how many calls there are


async def test_each_call_has_the_whole_time_of_its_hooks() -> None:
    class Slow:
        @hookimpl
        async def decide_tool_call(self, event):
            await asyncio.sleep(0.02)

    danger = Danger(effects=())
    calls = tuple(call("danger", f"c{number}", path=str(number)) for number in range(4))
    config = HostSettings(timeouts=Timeouts(hook_s=0.06))

    async with stage(calls, tools=danger.tools(), plugins=[Slow()], config=config) as on:
        await on.session.say("go")

    assert danger.ran == ["0", "1", "2", "3"]
