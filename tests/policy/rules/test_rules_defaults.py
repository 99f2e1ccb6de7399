"""Defaults by effect, lists of the operator, and what a model is offered: rules 7, 9, 30, 32 and 44."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import attrs
import pytest
from each_of import each_of
from hypothesis import given, settings, strategies as st
from pluggent_hookspecs import Allow, ConfigError, Effect, HookError, Param, Role, ToolCall, tool
from pluggent_host.settings import Grants, HostSettings
from pluggent_host.tools.workspace_guard import why_outside
from pluggent_testing.fakes import call
from policy_rules import ASKS, DANGER, both_orders, hooked
from policy_stage import Danger, either_way, reach, said, stage
from talking import assert_whole

STRICT = HostSettings(strict=True)

# ---- rule 7: defaults by effect

ALLOWED = {Effect.FILESYSTEM_READ, Effect.NETWORK_READ, Effect.MEMORY}


@each_of(
    ("effects", "default"),
    [
        *(((str(effect),), "allow" if effect in ALLOWED else "ask") for effect in Effect),
        ((), "allow"), (None, "ask"), (("x:teleport",), "ask"), (("filesystem_read", "network_read"), "allow"),
        (("filesystem_read", "shell"), "ask"), (("memory", "x:teleport"), "ask"),
    ],
)  # fmt: skip
async def test_the_default_follows_from_the_effects(effects: tuple[str, ...] | None, default: str):
    danger = Danger(effects)

    async with stage(tools=danger.tools(), config=STRICT) as on:
        offered = {offered.name: offered.default for offered in on.session.tools}
        output = await on.session.call_tool("danger", {"path": "x"})

    assert (offered["danger"], danger.ran) == (default, ["x"] if default == "allow" else [])
    assert output.is_error is (default == "ask")


async def test_a_tool_of_the_application_without_declared_effects_is_allowed_unless_it_is_strict():
    assert (await reach("say", effects=None)).ran == ("x",)
    assert (await reach("say", effects=None, config=STRICT)).ran == ()


@each_of(
    ("effects", "ran"),
    [(("shell",), ()), (("network_read", "x:teleport"), ()), (("network_read",), ("x",)), ((), ("x",))],
)
async def test_effects_that_a_tool_of_the_application_declares_count_strict_or_not(effects: tuple[str, ...], ran: Any):
    """Rule 44."""
    assert (await reach("say", effects=effects)).ran == ran
    assert (await reach("say", effects=effects, config=STRICT)).ran == ran


async def test_the_application_says_otherwise_by_a_policy_or_by_effects_in_its_settings():
    """Rule 44."""
    permits = hooked(decide_tool_call=lambda _: Allow("it may"))
    assert (await reach("say", [permits], effects=("shell",))).ran == ("x",)
    assert (await reach("say", effects=("shell",), config=HostSettings(effects={DANGER: ()}))).ran == ("x",)


async def test_effects_that_the_operator_sets_count_before_the_tools_own():
    assert (await reach("say", effects=(), config=ASKS)).ran == ()
    assert (await reach("say", effects=("shell",), config=STRICT._replace(effects={DANGER: ()}))).ran == ("x",)


EFFECTS = [*map(str, Effect), "x:one"]


@given(
    st.none() | st.sets(st.sampled_from([*EFFECTS, "x:two"])), st.booleans(),
    st.none() | st.sets(st.sampled_from(EFFECTS)),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_no_combination_of_effects_runs_unasked_what_has_one_that_asks(
    own: set[str] | None, strict: bool, operators: set[str] | None
):
    config = HostSettings(strict=strict, effects={} if operators is None else {DANGER: tuple(sorted(operators))})
    effects = operators if operators is not None else own

    seen = asyncio.run(reach("call_tool", effects=None if own is None else tuple(sorted(own)), config=config))

    harmless = effects is not None and effects <= ALLOWED
    assert (seen.ran == ("x",)) is (harmless or (effects is None and not strict))


# ---- rules 7 and 32: what writing inside the workspace may not become


@each_of("path", ["~/.profile", "~root/.profile", "~", "file:///etc/passwd", "FILE:/etc/passwd", "",
                  ".pluggent/sessions/s.jsonl", "{state}/sessions/new.jsonl"])  # fmt: skip
async def test_what_is_not_sure_to_be_in_the_workspace_and_the_hosts_own_state_are_not_written_unasked(
    path: str, tmp_path: Path
):
    @tool(effects=("filesystem_write",))
    async def write(path: Annotated[str, Param(format="path")]) -> str:
        """Write a file."""
        return f"wrote {path}"

    state = tmp_path / ".pluggent"
    async with stage(tools=[write], workspace=tmp_path, config=STRICT, state_dir=state) as on:
        assert (await on.session.call_tool("write", {"path": path.format(state=state)})).is_error
        assert not (await on.session.call_tool("write", {"path": "here"})).is_error


@each_of("more", [[["../../x"]], {"to": "../../x"}, 1, True, "deeper"])
def test_a_marked_path_that_is_no_text_or_lies_deeper_is_not_inside(more: Any, tmp_path: Path):
    path = {"type": "string", "format": "path"}
    schema = {"properties": {"path": path, "more": {"type": "object", "properties": {"path": path}}}}
    arguments = {"path": "a", "more": {"path": "/etc/passwd"}} if more == "deeper" else {"path": more}

    assert why_outside(schema, json.dumps(arguments).encode(), str(tmp_path))


# ---- rule 30: the lists of the operator


@each_of(
    "config",
    [
        *(HostSettings(grants=Grants(**{grant: ("no-such-plugin",)}))
          for grant in ("security", "may_allow", "may_respond", "approvers", "retriers", "optional")),
        HostSettings(order=("no-such-plugin",)),
        HostSettings(effects={"no-such-plugin:tool/x": ()}),
        HostSettings(required={"no-such-plugin": ()}),
        HostSettings(plugins={"no-such-plugin": {}}),
        HostSettings(aliases={"x": "no-such-plugin:tool/x"}),
    ],
)  # fmt: skip
async def test_unknown_names_in_operator_lists_are_errors(config: HostSettings):
    with pytest.raises(ConfigError, match="no-such-plugin"):
        await reach("say", config=config)


# ---- rule 9: what is offered


def narrowed(event: Any) -> Any:
    return attrs.evolve(event.request, tools=tuple(spec for spec in event.request.tools if spec.name != "danger"))


@each_of("hooks", [{"select_tools": lambda event: [spec.name for spec in event.tools if spec.name != "danger"]},
                   {"transform_model_request": narrowed}])  # fmt: skip
async def test_a_tool_that_was_not_offered_is_unknown_even_if_it_exists(hooks: Any):
    danger = Danger()

    on, _ = await said(call("danger", path="x"), plugins=[hooked(**hooks)], tools=danger.tools())

    assert danger.ran == []
    assert "there is no tool 'danger'" in on.read_by_model()[0]
    assert "danger" not in {spec.name for spec in on.model.requests[0].tools}


@both_orders
async def test_what_one_transform_took_away_another_cannot_bring_back(turned: bool):
    danger, tools = Danger(), list[Any]()

    def narrow(event: Any) -> Any:
        tools.extend(event.request.tools)
        return attrs.evolve(event.request, tools=())

    def widen(event: Any) -> Any:
        return attrs.evolve(event.request, tools=tuple(tools) or event.request.tools)

    plugins = either_way(*(hooked(transform_model_request=each) for each in (narrow, widen)), turned=turned)
    async with stage(call("danger", path="x"), plugins=plugins, tools=danger.tools()) as on:
        if turned:
            await on.session.say("go")
        else:
            with pytest.raises(HookError, match="only be narrowed"):
                await on.session.say("go")

    assert danger.ran == []


def edited(**fields: Any) -> Any:
    return {
        "transform_model_request": lambda event: attrs.evolve(
            event.request, tools=tuple(attrs.evolve(spec, **fields) for spec in event.request.tools)
        )
    }


def selected(names: object) -> Any:
    return {"select_tools": lambda _: names}


@each_of(
    "hooks",
    [
        edited(description="harmless"), edited(parameters={"type": "object"}), edited(effects=()), edited(name="other"),
        edited(idempotent=True), selected(["danger", "unknown"]), selected(["unknown"]), selected("danger"),
        selected(7), selected([1]), selected([["danger"]]),
        {"select_tools": lambda event: (1 / 0 for _ in event.tools)},
    ],
)  # fmt: skip
async def test_a_plugin_that_edits_a_definition_or_selects_what_is_not_there_fails_the_turn_and_is_named(hooks: Any):
    async with stage("hello", plugins=[hooked(name="Editor", **hooks)], tools=Danger().tools()) as on:
        with pytest.raises(HookError, match="app:editor"):
            await on.session.say("go")

    assert on.model.requests == []


async def test_the_offer_of_one_round_does_not_bind_the_next():
    danger, offers = Danger(effects=()), [None, ["quiet"], ["quiet"]]

    calls = [call("danger", id, path=id) for id in ("1", "2")]
    await said(*calls, plugins=[hooked(select_tools=lambda _: offers.pop(0))], tools=danger.tools())

    assert danger.ran == ["1"]


async def test_a_transform_of_a_call_cannot_name_another_tool():
    """It changes arguments only: a key ``name`` is an argument, and this tool has none."""
    assert (await reach("say", [hooked(transform_tool_call={"name": "quiet", "arguments": {}})])).ran == ()


@each_of("ids", [("call_0_1", "", "x", "x"), ("", ""), ("x", "x"), ("", "call_0_0"), ("x", "", "x", "y")])
async def test_every_call_of_a_reply_has_an_id_of_its_own(ids: tuple[str, ...]):
    calls = tuple(ToolCall(id, "danger", f'{{"path": "{number}"}}') for number, id in enumerate(ids))

    on, _ = await said(calls, tools=Danger(()).tools())

    assert_whole(on.session.history)
    assert len({message.tool_call_id for message in on.session.history if message.role is Role.TOOL}) == len(ids)
    assert on.read_by_model() == [f"did {number}" for number in range(len(ids))]
