"""Whoever asked for a call is asked back only where the operator granted that, and for that one call alone."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from pluggent_cli.command_host import CommandHost, CommandPlugin
from pluggent_hookspecs import (
    Accepted,
    Approval,
    Ask,
    Cancelled,
    DecisionMade,
    ToolContext,
    ToolErrorKind,
    ToolLogged,
    ToolOutput,
    ToolSpec,
    hookimpl,
    tool,
)
from talking import WAIT_S, hosting
from tool_sources import Brings, Changing

PLUGIN = "acme-desk"
GRANTED = CommandPlugin(PLUGIN, WAIT_S)
TOWN = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}


@tool(effects=("shell",))
def reboot() -> str:
    """Reboot."""
    return "rebooted"


@tool(effects=())
async def travel(context: ToolContext) -> str:
    """Ask where to."""
    answer = await context.elicit("Where to?", TOWN)
    return str(answer.content["town"]) if isinstance(answer, Accepted) else type(answer).__name__


class Desk:
    """A requester that says what it is told to, and keeps what it was asked."""

    def __init__(self, answer):
        self._answer = answer
        self.asked = []

    async def approve(self, event):
        return await self._said(event)

    async def answer(self, event):
        return await self._said(event)

    async def _said(self, event):
        self.asked.append(event)
        if isinstance(self._answer, Exception):
            raise self._answer
        if self._answer is ...:
            await asyncio.Event().wait()
        return self._answer


class Decisions:
    """An observer that takes down who settled what."""

    def __init__(self):
        self.made = []

    @hookimpl(events=(DecisionMade,))
    def observe(self, event):
        self.made.append((event.verdict, event.by))


class Narrow:
    """A policy that asks certain approvers about everything, and lets an approval count for long."""

    def __init__(self, *approvers):
        self._approvers = approvers

    @hookimpl
    def decide_tool_call(self, event):
        return Ask("look at it", approvers=self._approvers, reach="session")


@asynccontextmanager
async def lent(*things, borrower=None, **options):
    """Lend a host whose person is whoever asked, as the command line does."""
    operations = CommandHost(
        lambda: hosting(
            plugins=[Brings(*things)], strict=True, approver=operations.approve,
            answerer=operations.answer, **options,
        ), borrower,
    )  # fmt: skip
    try:
        yield operations
    finally:
        await operations.aclose()


async def test_16_a_requester_approves_nothing_that_the_operator_did_not_grant():
    desk = Desk(answer=True)
    async with lent(reboot) as operations:
        done = await operations.call_tool("reboot", {}, origin="mcp", requester=desk)

    assert done.outcome is ToolErrorKind.DENIED
    assert desk.asked == []


async def test_the_denial_says_how_the_requester_could_be_asked():
    async with lent(reboot, borrower=CommandPlugin(PLUGIN)) as operations:
        done = await operations.call_tool("reboot", {}, origin="mcp", requester=Desk(answer=True))
        alone = await operations.call_tool("reboot", {}, origin="mcp")

    assert '[grants] approvers = ["acme-desk"]' in done.output.for_model
    assert "approvers = " not in alone.output.for_model


@pytest.mark.parametrize(("answer", "outcome"), [(True, None), (Approval(True), None), (False, ToolErrorKind.DENIED)])
async def test_a_granted_requester_decides_and_the_record_names_the_plugin(answer, outcome):
    desk, decisions = Desk(answer), Decisions()
    async with lent(reboot, borrower=GRANTED, policies=[decisions]) as operations:
        done = await operations.call_tool("reboot", {}, origin="mcp", requester=desk)

    assert done.outcome is outcome
    assert [event.capability for event in desk.asked] == ["app:brings:tool/reboot"]
    assert decisions.made[-1] == ("refused" if outcome else "approved", PLUGIN)


async def test_its_approval_is_for_that_call_alone_whatever_it_says():
    desk = Desk(Approval(True, reach="session"))
    async with lent(reboot, borrower=GRANTED, policies=[Narrow()]) as operations:
        for _ in range(2):
            assert (await operations.call_tool("reboot", {}, origin="mcp", requester=desk)).outcome is None
        last = await operations.call_tool("reboot", {}, origin="mcp")

    assert len(desk.asked) == 2
    assert last.outcome is ToolErrorKind.DENIED


@pytest.mark.parametrize("answer", [None, RuntimeError("the line is dead")])
async def test_a_requester_that_cannot_answer_leaves_it_denied(answer):
    async with lent(reboot, borrower=GRANTED) as operations:
        done = await operations.call_tool("reboot", {}, origin="mcp", requester=Desk(answer))

    assert done.outcome is ToolErrorKind.DENIED
    assert "nobody was there" in done.output.for_model


async def test_a_requester_that_says_nothing_is_waited_for_no_longer_than_granted():
    async with lent(reboot, borrower=CommandPlugin(PLUGIN, 0.01)) as operations:
        done = await operations.call_tool("reboot", {}, origin="mcp", requester=Desk(...))

    assert done.outcome is ToolErrorKind.DENIED


@pytest.mark.parametrize(("approvers", "outcome"), [(["acme-*"], None), (["boss"], ToolErrorKind.DENIED)])
async def test_an_ask_limited_to_others_is_not_put_to_it(approvers, outcome):
    desk = Desk(answer=True)
    async with lent(reboot, borrower=GRANTED, policies=[Narrow(*approvers)]) as operations:
        done = await operations.call_tool("reboot", {}, origin="mcp", requester=desk)

    assert done.outcome is outcome
    assert len(desk.asked) == (outcome is None)


async def test_two_calls_at_once_ask_each_its_own_requester():
    desks = [Desk(answer=True), Desk(answer=False)]
    async with lent(reboot, borrower=GRANTED) as operations:
        done = await asyncio.gather(
            *(operations.call_tool("reboot", {}, origin="mcp", requester=desk) for desk in desks)
        )

    assert [each.outcome for each in done] == [None, ToolErrorKind.DENIED]
    assert [len(desk.asked) for desk in desks] == [1, 1]


@pytest.mark.parametrize(("borrower", "said"), [(GRANTED, "Rome"), (None, "Cancelled")])
async def test_questions_of_a_tool_go_to_a_granted_requester_only(borrower, said):
    async with lent(travel, borrower=borrower) as operations:
        done = await operations.call_tool(
            "travel", {}, origin="mcp", requester=Desk(Accepted({"town": "Rome"}))
        )  # fmt: skip
        cancelled = await operations.call_tool("travel", {}, origin="mcp", requester=Desk(Cancelled()))

    assert (done.output.for_model, cancelled.output.for_model) == (said, "Cancelled")


async def test_while_results_are_filtered_no_question_goes_past_the_filter():
    class Filter:
        @hookimpl
        def transform_tool_result(self, event):
            return None

    desk = Desk(Accepted({"town": "Rome"}))
    async with lent(travel, borrower=GRANTED, policies=[Filter()]) as operations:
        done = await operations.call_tool("travel", {}, origin="mcp", requester=desk)

    assert (done.output.for_model, desk.asked) == ("Cancelled", [])


# ---- what a call tells, and how it ended -----------------------------------------------------


@tool(effects=())
def noisy(context: ToolContext) -> str:
    """Say something for a log."""
    context.log("warning", "hot", logger="oven", data={"degrees": 250})
    return "done"


@pytest.mark.parametrize("level", ["warn", "", "INFO"])
async def test_a_level_that_no_log_has_is_an_error_of_the_tool(level):
    @tool(effects=())
    def wrong(context: ToolContext) -> None:
        """Say it wrongly."""
        context.log(level, "x")

    async with lent(wrong) as operations:
        done = await operations.call_tool("wrong", {}, origin="mcp")

    assert done.outcome is ToolErrorKind.FAILED
    assert "is no level of a log; there are debug, info" in done.output.for_model


async def test_what_a_call_has_for_a_log_is_told_while_it_runs():
    told: list[ToolLogged] = []
    async with lent(noisy) as operations:
        await operations.call_tool("noisy", {}, origin="mcp", on_log=told.append)

    assert [(e.name, e.level, e.message, e.logger, e.data) for e in told] == [
        ("noisy", "warning", "hot", "oven", {"degrees": 250})
    ]


async def test_while_results_are_filtered_no_log_goes_past_the_filter():
    class Filter:
        @hookimpl
        def transform_tool_result(self, event):
            return None

    told: list[ToolLogged] = []
    async with lent(noisy, policies=[Filter()]) as operations:
        done = await operations.call_tool("noisy", {}, origin="mcp", on_log=told.append)

    assert (done.output.for_model, told) == ("done", [])


class Measuring:
    """A tool that says how its data look, and returns *data*."""

    def __init__(self, data):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        self.spec = ToolSpec("measure", effects=(), result_schema=schema)
        self._data = data

    async def call(self, arguments, context):
        return ToolOutput("measured", data=self._data)


@pytest.mark.parametrize(
    ("data", "outcome", "says"),
    [
        ({"n": 1}, None, "measured"),
        (None, None, "measured"),
        ({"n": "one"}, ToolErrorKind.RESULT, "do not fit its own schema of results, so they are not shown: $.n"),
        ({}, ToolErrorKind.RESULT, "$.n: is required"),
    ],
)
async def test_data_that_do_not_fit_the_schema_of_results_are_no_result(data, outcome, says):
    async with lent(Measuring(data)) as operations:
        done = await operations.call_tool("measure", {}, origin="mcp")

    assert done.outcome is outcome
    assert says in done.output.for_model


async def test_news_of_tools_are_waited_for():
    source = Changing("old")
    async with lent(source) as operations:
        await operations.tools()
        waiting = asyncio.create_task(operations.changed())
        source.now("new")

        await asyncio.wait_for(waiting, WAIT_S)
        assert [tool.spec.name for tool in await operations.tools()] == ["new"]
        waiting = asyncio.create_task(operations.changed())
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
