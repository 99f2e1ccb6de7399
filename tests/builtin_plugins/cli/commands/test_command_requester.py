"""A requester is asked back only where the operator granted that, and for that one call alone."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

from each_of import each_of
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
from tool_sources import Brings

PLUGIN = "acme-desk"
GRANTED = CommandPlugin(PLUGIN, WAIT_S)
DENIED = ToolErrorKind.DENIED
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


@tool(effects=())
def noisy(context: ToolContext) -> str:
    """Say something for a log."""
    context.log("warning", "hot", logger="oven", data={"degrees": 250})
    return "done"


class Desk:
    """A requester that gives one answer, and keeps what it was asked."""

    def __init__(self, answer: Any = True):
        self._answer = answer
        self.asked = []

    async def approve(self, event) -> Any:
        self.asked.append(event)
        if isinstance(self._answer, Exception):
            raise self._answer
        if self._answer is ...:
            await asyncio.Event().wait()
        return self._answer

    answer = approve


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


class Filter:
    """A policy that may change results."""

    @hookimpl
    def transform_tool_result(self, event):
        return None


@asynccontextmanager
async def lent(*things, borrower=None, **options):
    """Lend a host whose person is the requester, as the command line does."""
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


async def called(thing, *, requester=None, borrower=None, on_log=None, **options):
    """Call a tool on behalf of an MCP client, and return the outcome."""
    async with lent(thing, borrower=borrower, **options) as operations:
        (only,) = await operations.tools()
        return await operations.call_tool(only.spec.name, {}, origin="mcp", requester=requester, on_log=on_log)


async def test_16_a_requester_approves_nothing_that_the_operator_did_not_grant():
    desk = Desk()
    done = await called(reboot, requester=desk)

    assert (done.outcome, desk.asked) == (DENIED, [])


async def test_the_denial_says_how_the_requester_could_be_asked():
    asked, alone = [await called(reboot, requester=one, borrower=CommandPlugin(PLUGIN)) for one in (Desk(), None)]

    assert '[grants] approvers = ["acme-desk"]' in asked.output.for_model
    assert "approvers = " not in alone.output.for_model


@each_of(("answer", "outcome"), [(True, None), (Approval(True), None), (False, DENIED)])
async def test_a_granted_requester_decides_and_the_record_names_the_plugin(answer, outcome):
    desk, decisions = Desk(answer), Decisions()
    done = await called(reboot, requester=desk, borrower=GRANTED, policies=[decisions])

    assert (done.outcome, [event.capability for event in desk.asked]) == (outcome, ["app:brings:tool/reboot"])
    assert decisions.made[-1] == ("refused" if outcome else "approved", PLUGIN)


async def test_its_approval_is_for_that_call_alone_whatever_it_says():
    desk = Desk(Approval(True, reach="session"))
    async with lent(reboot, borrower=GRANTED, policies=[Narrow()]) as operations:
        for _ in range(2):
            assert (await operations.call_tool("reboot", {}, origin="mcp", requester=desk)).outcome is None
        last = await operations.call_tool("reboot", {}, origin="mcp")

    assert (len(desk.asked), last.outcome) == (2, DENIED)


@each_of(
    ("answer", "borrower", "says"),
    [
        (None, GRANTED, "no approver answered"),
        (RuntimeError("the line is dead"), GRANTED, "no approver answered"),
        (..., CommandPlugin(PLUGIN, 0.01), ""),
    ],
)
async def test_a_requester_that_cannot_answer_or_not_within_the_time_granted_leaves_it_denied(answer, borrower, says):
    done = await called(reboot, requester=Desk(answer), borrower=borrower)

    assert (done.outcome, says in done.output.for_model) == (DENIED, True)


@each_of(("approvers", "outcome"), [(["acme-*"], None), (["boss"], DENIED)])
async def test_an_ask_limited_to_others_is_not_put_to_it(approvers, outcome):
    desk = Desk()
    done = await called(reboot, requester=desk, borrower=GRANTED, policies=[Narrow(*approvers)])

    assert (done.outcome, len(desk.asked)) == (outcome, int(outcome is None))


async def test_two_calls_at_once_ask_each_its_own_requester():
    desks = [Desk(answer=True), Desk(answer=False)]
    async with lent(reboot, borrower=GRANTED) as operations:
        calls = (operations.call_tool("reboot", {}, origin="mcp", requester=desk) for desk in desks)
        done = await asyncio.gather(*calls)

    assert [each.outcome for each in done] == [None, DENIED]
    assert [len(desk.asked) for desk in desks] == [1, 1]


@each_of(
    ("borrower", "policies", "answer", "said", "asked"),
    [
        (GRANTED, [], Accepted({"town": "Rome"}), "Rome", 1),
        (GRANTED, [], Cancelled(), "Cancelled", 1),
        (None, [], Accepted({"town": "Rome"}), "Cancelled", 0),
        (GRANTED, [Filter()], Accepted({"town": "Rome"}), "Cancelled", 0),
    ],
)
async def test_questions_of_a_tool_go_to_a_granted_requester_only_and_past_no_filter(
    borrower, policies, answer, said, asked
):
    desk = Desk(answer)
    done = await called(travel, requester=desk, borrower=borrower, policies=policies)

    assert (done.output.for_model, len(desk.asked)) == (said, asked)


# ---- what a call emits, and how it ends ------------------------------------------------------


@each_of("level", ["warn", "", "INFO"])
async def test_a_level_that_no_log_has_is_an_error_of_the_tool(level):
    @tool(effects=())
    def wrong(context: ToolContext) -> None:
        """Say it wrongly."""
        context.log(level, "x")

    done = await called(wrong)

    assert done.outcome is ToolErrorKind.FAILED
    assert "is not a log level; there are debug, info" in done.output.for_model


@each_of(("policies", "logged"), [([], [("noisy", "warning", "hot", "oven", {"degrees": 250})]), ([Filter()], [])])
async def test_what_a_call_logs_is_emitted_while_it_runs_and_past_no_filter(policies, logged):
    events: list[ToolLogged] = []
    done = await called(noisy, on_log=events.append, policies=policies)

    assert done.output.for_model == "done"
    assert [(e.name, e.level, e.message, e.logger, e.data) for e in events] == logged


class Measuring:
    """A tool that says how its data look, and returns *data*."""

    def __init__(self, data):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        self.spec = ToolSpec("measure", effects=(), result_schema=schema)
        self._data = data

    async def call(self, arguments, context):
        return ToolOutput("measured", data=self._data)


@each_of(
    ("data", "outcome", "says"),
    [
        ({"n": 1}, None, "measured"),
        (None, None, "measured"),
        ({"n": "one"}, ToolErrorKind.RESULT, "do not fit its own schema of results, so they are not shown: $.n"),
        ({}, ToolErrorKind.RESULT, "$.n: is required"),
    ],
)
async def test_data_that_do_not_fit_the_schema_of_results_are_no_result(data, outcome, says):
    done = await called(Measuring(data))

    assert (done.outcome, says in done.output.for_model) == (outcome, True)
