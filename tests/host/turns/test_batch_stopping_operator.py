"""A failure that stops the calls behind it: how the operator wants it, what is on record, and where a turn pauses."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pluggent_cli.config.sources import load_settings
from pluggent_cli.sessions.explain import as_document, explain
from pluggent_hookspecs import (
    Ask,
    Deny,
    ToolErrorKind,
    hookimpl,
    tool,
)
from pluggent_hookspecs.errors import ConfigError
from pluggent_host import HostSettings, Limits
from pluggent_host.settings import Timeouts, ToolLimits
from pluggent_host.tools.function_tool import definition_digest, function_tool
from pluggent_host.transcript.entries import Settled
from pluggent_testing.fakes import call
from policy_stage import stage
from stopping import BATCH, SKIPPED, Tools, about_gate
from talking import assert_whole, hosting, results, talking
from transcript_file import read_session

# ---- what is on record


async def test_a_skipped_call_is_on_record_with_a_kind_of_its_own() -> None:
    tools = Tools(ValueError("no"))

    async with talking(BATCH, "ok", tools=tools.all()) as session:
        await session.say("go")
        outcomes = [entry.outcome for entry in session.records() if isinstance(entry, Settled)]

    assert outcomes == ["", ToolErrorKind.FAILED, ToolErrorKind.SKIPPED]


async def test_a_skipped_call_does_not_count_against_the_limits_of_its_tool() -> None:
    tools = Tools(ValueError("no"))
    config = HostSettings(limits=Limits(per_tool={"behind": ToolLimits(calls=1)}))

    async with talking(BATCH, call("behind", "again"), "ok", tools=tools.all(), config=config) as session:
        await session.say("go")

    assert tools.ran == ["before", "gate", "behind"]


async def test_a_skipped_call_has_had_no_effect_that_undoing_would_name() -> None:
    tools = Tools(ValueError("no"))

    async with talking(BATCH, "ok", tools=tools.all()) as session:
        await session.say("go")
        exchange = await session.undo()

    assert exchange is not None
    assert exchange.effects == ()


# ---- the operator


@pytest.mark.parametrize("named", ["*", "gate", "app:tools:tool/gate", "app:tools:tool/g*"])
async def test_the_operator_can_name_tools_that_stop(named: str) -> None:
    tools = Tools(ValueError("no"), stops_batch=False)

    async with talking(BATCH, "ok", tools=tools.all(), config=HostSettings(stops_batch=(named,))) as session:
        await session.say("go")

    assert tools.ran == ["before", "gate"]


async def test_where_every_call_stops_an_unknown_tool_does_too() -> None:
    tools = Tools()

    async with talking(
        (call("before"), call("nothing"), call("behind")), "ok", tools=tools.all(),
        config=HostSettings(stops_batch=("*",)),
    ) as session:  # fmt: skip
        await session.say("go")

    assert tools.ran == ["before"]


async def test_a_tool_named_by_the_operator_that_no_session_has_is_an_error() -> None:
    with pytest.raises(ConfigError, match="stops_batch: 'gaet' is no tool of this session"):
        async with stage(tools=Tools().all(), config=HostSettings(stops_batch=("gaet",))):
            pass


def test_a_definition_that_says_it_stops_is_another_definition() -> None:
    def plain() -> None:
        """Do."""

    digests = {definition_digest(function_tool(tool(stops_batch=stops)(plain)).spec) for stops in (False, True)}

    assert len(digests) == 2


# ---- a pause


PAUSING = HostSettings(on_ask="pause", timeouts=Timeouts(hook_s=5.0))


@pytest.mark.parametrize("agreed", [True, False])
async def test_what_stands_behind_a_call_that_waits_for_a_person_waits_with_it(agreed: bool) -> None:
    tools = Tools()

    async with talking(BATCH, "ok", tools=tools.all(), plugins=[about_gate(Ask("may I?"))], config=PAUSING) as session:
        paused = await session.say("go")
        ran = list(tools.ran)
        await session.resume({each.call_id: agreed for each in paused.pending if each.asks})

        assert [(each.name, bool(each.asks)) for each in paused.pending] == [("gate", True), ("behind", False)]
        assert_whole(session.history)
    assert ran == ["before"]
    assert tools.ran == (["before", "gate", "behind"] if agreed else ["before"])


async def test_a_refusal_on_resume_stops_calls_that_a_person_has_approved() -> None:
    class Asks:
        @hookimpl
        def decide_tool_call(self, event: Any) -> Any:
            return Ask("may I?") if event.tool.name != "before" else None

    tools = Tools()
    async with talking(BATCH, "ok", tools=tools.all(), plugins=[Asks()], config=PAUSING) as session:
        paused = await session.say("go")
        answers = {each.call_id: each.name == "behind" for each in paused.pending}
        await session.resume(answers)

        assert results(session.history)[2] == SKIPPED.format("was denied")
    assert [each.name for each in paused.pending] == ["gate", "behind"]
    assert tools.ran == ["before"]


async def test_a_policy_that_denies_it_on_resume_stops_what_is_behind_it() -> None:
    class Changes:
        decision: Any = Ask("may I?")

        @hookimpl
        def decide_tool_call(self, event: Any) -> Any:
            return self.decision if event.tool.name == "gate" else None

    tools, policy = Tools(), Changes()
    async with talking(BATCH, "ok", tools=tools.all(), plugins=[policy], config=PAUSING) as session:
        paused = await session.say("go")
        policy.decision = Deny("not any more")
        await session.resume({paused.pending[0].call_id: True})

    assert tools.ran == ["before"]


async def test_the_process_may_end_after_any_line_and_nothing_behind_a_failure_ever_runs(tmp_path: Path) -> None:
    def hosted(tools: Tools, folder: Path, *replies: Any) -> Any:
        policies = [about_gate(Ask("may I?"))]
        return hosting(*replies, tools=tools.all(), plugins=policies, config=PAUSING, state_dir=folder)

    tools = Tools(ValueError("no"), effects=("shell",))
    async with hosted(tools, tmp_path / "whole", BATCH, "ok") as host, await host.session("s") as session:
        paused = await session.say("go")
        await session.resume({paused.pending[0].call_id: True})
    assert tools.ran == ["before", "gate"]
    whole = (tmp_path / "whole" / "sessions" / "s.jsonl").read_bytes().splitlines(keepends=True)
    for length in range(1, len(whole) + 1):
        folder, later = tmp_path / f"{length}", Tools(ValueError("no"), effects=("shell",))
        shutil.copytree(tmp_path / "whole", folder)
        (folder / "sessions" / "s.jsonl").write_bytes(b"".join(whole[:length]))
        async with hosted(later, folder, "ok") as host, await host.session("s") as session:
            if session.paused:
                await session.resume({each.call_id: True for each in session.pending})
            await session.say("and now?")
            assert_whole(session.history)
        assert "behind" not in later.ran, whole[:length]


def test_every_file_can_add_tools_that_stop_and_none_can_take_them_away(tmp_path: Path) -> None:
    user, project = tmp_path / ".config" / "pluggent" / "pluggent.toml", tmp_path / "project" / "pluggent.toml"
    for file, name in ((user, "deploy"), (project, "migrate")):
        file.parent.mkdir(parents=True)
        file.write_text(f'stops_batch = ["{name}"]\n')
    environ = {"HOME": str(tmp_path), "PLUGGENT_STOPS_BATCH": "test, lint"}

    settings, _, notes = load_settings(environ=environ, cwd=project.parent)  # the project's file is not trusted

    assert set(settings.stops_batch) == {"deploy", "migrate", "test", "lint"}
    assert notes == ()


async def test_explain_shows_a_skipped_call_as_what_it_is(tmp_path: Path) -> None:
    async with hosting(BATCH, "ok", tools=Tools(ValueError("no")).all(), state_dir=tmp_path) as host:
        await (await host.session("s")).say("go")

    (turn,) = read_session(tmp_path / "sessions", "s").turns
    told = as_document(explain("s", turn))["operations"]
    assert [one["outcome"] for one in told if one["operation"] == "tool_call"] == ["", "failed", "skipped"]
