"""A failure stops the calls behind it where the tool or the operator wants it so, on every way, and across a pause."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from fake_plugins import about, plugin
from places import BATCH, SKIPPED, BatchTools, Log
from pluggent_cli.config.sources import load_settings
from pluggent_cli.sessions.explain import as_document, explain
from pluggent_function_tools.function_tool import definition_digest, function_tool
from pluggent_hookspecs import ApprovalEvent, Ask, Deny, Respond, ToolCall, ToolErrorKind, ToolOutput, tool
from pluggent_hookspecs.errors import ConfigError
from pluggent_host import HostSettings, Limits, Why
from pluggent_host.settings import Timeouts
from pluggent_testing.fakes import call
from pluggent_transcript.entries import Dispatched, Settled
from pluggent_transcript.limits import ToolLimits
from saved import read_session
from talking import WAIT_S, assert_whole, hosting, results, said, talking

PAUSING = HostSettings(on_ask="pause", timeouts=Timeouts(hook_s=5.0))
NO = ValueError("no")


async def hang(context: object) -> None:
    await asyncio.Event().wait()


LIMITED = HostSettings(limits=Limits(per_tool={"gate": ToolLimits(calls=0)}))
LEDGER = plugin(reserve=lambda event: Deny("spent") if event.capability.endswith("gate") else None, settle=None)
WITHHOLDS = plugin(decide_tool_result=lambda event: Deny("secret") if event.tool.name == "gate" else None)
STOPS: dict[str, tuple[BatchTools, dict[str, Any], str]] = {
    "raises": (BatchTools(NO), {}, "failed"),
    "says": (BatchTools(ToolOutput.error("no")), {}, "failed"),
    "unusable": (BatchTools(object()), {}, "failed"),
    "timed out": (BatchTools(hang, timeout_s=0.01), {}, "failed"),
    "denied": (BatchTools(), {"plugins": [about("gate", Deny("no"))]}, "was denied"),
    "refused": (BatchTools(), {"plugins": [about("gate", Ask("may I?"))], "approver": lambda _: False}, "was denied"),
    "no person there": (BatchTools(), {"plugins": [about("gate", Ask("may I?"))]}, "was denied"),
    "limit": (BatchTools(), {"config": LIMITED}, "failed"),
    "withheld": (BatchTools("fine"), {"plugins": [WITHHOLDS]}, "failed"),
    "ledger": (BatchTools(), {"plugins": [LEDGER]}, "was denied"),
}


@pytest.mark.parametrize("how", STOPS)
async def test_nothing_behind_a_call_that_did_not_succeed_is_run(how: str) -> None:
    tools, options, skipped = STOPS[how]
    ran = how in ("raises", "says", "unusable", "timed out", "withheld")

    result, session = await said(BATCH, tools=tools.all(), **options)

    assert results(session.history)[::2] == ["before", SKIPPED.format(skipped)]
    assert tools.ran == (["before", "gate"] if ran else ["before"])
    assert result.why is (Why.DENIED if how == "no person there" else Why.COMPLETED)


async def test_a_call_with_invalid_arguments_stops_too() -> None:
    tools = BatchTools()

    _, session = await said((call("before"), ToolCall("c", "gate", '{"more": 1}'), call("behind")), tools=tools.all())

    assert (results(session.history)[2], tools.ran) == (SKIPPED.format("failed"), ["before"])


@pytest.mark.parametrize("does", ["fine", None, ToolOutput("fine", for_user="look")])
async def test_a_call_that_succeeds_lets_the_others_run_and_so_does_a_failure_of_another_one(does: object) -> None:
    tools = BatchTools(does)

    await said((call("nothing"), *BATCH), tools=tools.all())

    assert tools.ran == ["before", "gate", "behind"]


async def test_an_answer_of_a_policy_is_a_success() -> None:
    tools = BatchTools()

    await said(BATCH, tools=tools.all(), plugins=[about("gate", Respond("cached"))])

    assert tools.ran == ["before", "behind"]


async def test_in_a_dry_run_what_was_not_run_counts_as_a_success() -> None:
    _, session = await said(BATCH, tools=BatchTools(effects=None).all(), dry_run=True)

    assert all("not run" in text for text in results(session.history)[1:])
    assert not any("Look at that result" in text for text in results(session.history))


async def test_the_next_reply_is_another_batch_and_a_skipped_call_counts_against_no_limit_of_its_tool() -> None:
    tools = BatchTools(NO)
    config = HostSettings(limits=Limits(per_tool={"behind": ToolLimits(calls=1)}))

    await said(BATCH, call("behind", "again"), tools=tools.all(), config=config)

    assert tools.ran == ["before", "gate", "behind"]


async def test_nothing_behind_it_begins_or_is_dispatched_before_it_has_succeeded() -> None:
    dispatched: list[str] = []
    log = Log()

    @tool(concurrent=True, stops_batch=True)
    async def gate() -> str:
        """Look what is dispatched while it runs."""
        entries = session.records()
        dispatched.extend(id for entry in entries if isinstance(entry, Dispatched) for id, _, _ in entry.calls)
        return "done"

    tools = [gate, log.tool("w", concurrent=True), log.tool("r", effects=())]
    async with talking((call("gate", "g"), call("w", "w1", n=1), call("r", "r1", n=1)), tools=tools) as session:
        await session.say("go")

    assert results(session.history) == ["done", "w1", "r1"]
    assert dispatched == ["g"]


async def test_calls_before_it_run_beside_it_and_go_on_to_their_end() -> None:
    gone = asyncio.Event()

    @tool(effects=())
    async def slow() -> str:
        """End after the gate has failed."""
        await asyncio.wait_for(gone.wait(), WAIT_S)
        return "slow"

    @tool(effects=(), stops_batch=True)
    async def gate() -> None:
        """Fail while the other one runs."""
        gone.set()
        raise NO

    _, session = await said((call("slow"), call("gate"), call("slow", "again")), tools=[slow, gate])

    assert results(session.history) == ["slow", "Error: 'gate' failed: ValueError: no", SKIPPED.format("failed")]


async def test_a_call_behind_it_that_is_refused_on_its_own_account_says_so() -> None:
    _, session = await said((call("gate"), call("nothing"), call("behind")), tools=BatchTools(NO).all())

    assert results(session.history)[1].startswith("Error: there is no tool 'nothing'")
    assert results(session.history)[2] == SKIPPED.format("failed")


async def test_no_person_is_asked_about_a_call_that_will_not_run() -> None:
    asked: list[ApprovalEvent] = []
    tools = BatchTools(NO)
    config = HostSettings(strict=True, effects={"app:tools:tool/before": (), "app:tools:tool/gate": ()})

    await said(BATCH, tools=tools.all(), approver=asked.append, config=config)

    assert (tools.ran, asked) == (["before", "gate"], [])


async def test_it_is_asked_about_in_its_place_after_what_is_before_it() -> None:
    tools, ran = BatchTools(), list[list[str]]()

    def approve(event: ApprovalEvent) -> bool:
        ran.append(list(tools.ran))
        return True

    await said(BATCH, tools=tools.all(), plugins=[about("gate", Ask("?"))], approver=approve)

    assert (ran, tools.ran) == ([["before"]], ["before", "gate", "behind"])


async def test_nothing_overtakes_an_exclusive_call_that_is_asked_about_only_when_its_turn_comes() -> None:
    tools = BatchTools(stops_batch=False, exclusive=True)
    policy = plugin(decide_tool_call=lambda event: Ask("?") if event.tool.name == "gate" and tools.ran else None)

    batch = (call("behind", "1"), call("gate"), call("before"))
    await said(batch, tools=tools.all(), plugins=[policy], approver=lambda _: True)

    assert tools.ran == ["behind", "gate", "before"]


# ---- the record


async def test_a_skipped_call_is_on_record_and_explained_and_had_no_effect_to_undo(tmp_path: Path) -> None:
    async with (
        hosting(BATCH, tools=BatchTools(NO).all(), state_dir=tmp_path) as host,
        await host.session("s") as session,
    ):
        await session.say("go")
        outcomes = [entry.outcome for entry in session.records() if isinstance(entry, Settled)]
        (turn,) = read_session(tmp_path / "sessions", "s").turns
        exchange = await session.undo()

    told = as_document(explain("s", turn))["operations"]
    assert outcomes == ["", ToolErrorKind.FAILED, ToolErrorKind.SKIPPED]
    assert [one["outcome"] for one in told if one["operation"] == "tool_call"] == ["", "failed", "skipped"]
    assert exchange is not None
    assert exchange.effects == ()


# ---- the operator


@pytest.mark.parametrize("named", ["*", "gate", "app:tools:tool/gate", "app:tools:tool/g*"])
async def test_the_operator_can_name_tools_that_stop(named: str) -> None:
    tools = BatchTools(NO, stops_batch=False)

    await said(BATCH, tools=tools.all(), config=HostSettings(stops_batch=(named,)))

    assert tools.ran == ["before", "gate"]


async def test_where_every_call_stops_an_unknown_tool_does_too() -> None:
    tools, config = BatchTools(), HostSettings(stops_batch=("*",))

    await said((call("before"), call("nothing"), call("behind")), tools=tools.all(), config=config)

    assert tools.ran == ["before"]


async def test_a_tool_named_by_the_operator_that_no_session_has_is_an_error() -> None:
    with pytest.raises(ConfigError, match="stops_batch: 'gaet' is not a tool of this session"):
        await said(tools=BatchTools().all(), config=HostSettings(stops_batch=("gaet",)))


def test_a_definition_that_says_it_stops_is_another_definition() -> None:
    def plain() -> None:
        """Do."""

    digests = {definition_digest(function_tool(tool(stops_batch=stops)(plain)).spec) for stops in (False, True)}

    assert len(digests) == 2


def test_every_file_can_add_tools_that_stop_and_none_can_take_them_away(tmp_path: Path) -> None:
    user, project = tmp_path / ".config" / "pluggent" / "pluggent.toml", tmp_path / "project" / "pluggent.toml"
    for file, name in ((user, "deploy"), (project, "migrate")):
        file.parent.mkdir(parents=True)
        file.write_text(f'stops_batch = ["{name}"]\n')
    environ = {"HOME": str(tmp_path), "PLUGGENT_STOPS_BATCH": "test, lint"}

    loaded = load_settings(environ=environ, cwd=project.parent)  # the project's file is not trusted

    assert (set(loaded.settings.stops_batch), loaded.notes) == ({"deploy", "migrate", "test", "lint"}, ())


# ---- a pause


@pytest.mark.parametrize("agreed", [True, False])
async def test_what_is_behind_a_call_that_waits_for_a_person_waits_with_it(agreed: bool) -> None:
    tools = BatchTools()

    async with talking(BATCH, tools=tools.all(), plugins=[about("gate", Ask("may I?"))], config=PAUSING) as session:
        paused = await session.say("go")
        ran = list(tools.ran)
        await session.resume({each.call_id: agreed for each in paused.pending if each.asks})

    assert [(each.name, bool(each.asks)) for each in paused.pending] == [("gate", True), ("behind", False)]
    assert_whole(session.history)
    assert (ran, tools.ran) == (["before"], ["before", "gate", "behind"] if agreed else ["before"])


@pytest.mark.parametrize("how", ["refused", "denied"])
async def test_a_refusal_or_a_denial_on_resume_stops_calls_that_a_person_has_approved(how: str) -> None:
    tools, decisions = BatchTools(), {"before": None, "gate": Ask("may I?"), "behind": Ask("may I?")}
    policy = plugin(decide_tool_call=lambda event: decisions[event.tool.name])

    async with talking(BATCH, tools=tools.all(), plugins=[policy], config=PAUSING) as session:
        paused = await session.say("go")
        if how == "denied":
            decisions["gate"] = Deny("not any more")  # type: ignore[assignment]
        await session.resume({each.call_id: how == "denied" or each.name == "behind" for each in paused.pending})

    assert [each.name for each in paused.pending] == ["gate", "behind"]
    assert (results(session.history)[2], tools.ran) == (SKIPPED.format("was denied"), ["before"])


async def test_the_process_may_end_after_any_line_and_nothing_behind_a_failure_ever_runs(tmp_path: Path) -> None:
    def hosted(tools: BatchTools, folder: Path, *replies: Any) -> Any:
        policies = [about("gate", Ask("may I?"))]
        return hosting(*replies, tools=tools.all(), plugins=policies, config=PAUSING, state_dir=folder)

    tools = BatchTools(NO)
    async with hosted(tools, tmp_path / "whole", BATCH) as host, await host.session("s") as session:
        paused = await session.say("go")
        await session.resume({paused.pending[0].call_id: True})
    assert tools.ran == ["before", "gate"]
    whole = (tmp_path / "whole" / "sessions" / "s.jsonl").read_bytes().splitlines(keepends=True)
    for length in range(1, len(whole) + 1):
        folder, later = tmp_path / f"{length}", BatchTools(NO)
        shutil.copytree(tmp_path / "whole", folder)
        (folder / "sessions" / "s.jsonl").write_bytes(b"".join(whole[:length]))
        async with hosted(later, folder) as host, await host.session("s") as session:
            if session.paused:
                await session.resume({each.call_id: True for each in session.pending})
            await session.say("and now?")
            assert_whole(session.history)
        assert "behind" not in later.ran, whole[:length]
