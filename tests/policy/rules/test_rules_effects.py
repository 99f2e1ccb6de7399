"""The rules of effects and of the operator's lists: rules 7, 30, 32."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from naming import shown
from pluggent_hookspecs import ConfigError, Effect, Param, tool
from pluggent_host.settings import Grants, HostSettings
from pluggent_host.tools.workspace_guard import stays_inside
from policy_rules import ASKS, DANGER
from policy_stage import Danger, reach, stage

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
