"""Tools at a model's vendor: offered under the policies on requests, their calls approved as those of any tool."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from permitting import settings as settings_of
from pluggent_hookspecs import (
    HOSTED_APPROVED,
    Ask,
    Deny,
    HostedTool,
    Message,
    ModelResponse,
    ProviderError,
    ProviderErrorKind,
    Respond,
    Role,
    Text,
    ToolCall,
    ToolContext,
    ToolFinished,
    VendorPart,
    hookimpl,
    tool,
)
from pluggent_host import Approval, Host, TurnResult, Why
from pluggent_host.session import Session
from pluggent_host.settings import Grants, HostSettings
from pluggent_permissions.plugin import Permissions
from pluggent_testing.fakes import Recorder, ScriptedModel

SEARCH = HostedTool("scripted:hosted/web_search", ("network_read",), "1")
CODE = HostedTool("scripted:hosted/code_interpreter", ("shell",), "1")
WIKI = HostedTool("scripted:hosted/mcp/wiki", ("network_read",), "1")
PLAIN, PAUSING = HostSettings(), HostSettings(on_ask="pause")
READ = ToolCall("r1", "read_page", '{"page":"a"}', hosted="mcp/wiki")
DELETE = ToolCall("d1", "delete_page", '{"page":"a"}', hosted="mcp/wiki")


class Policy:
    """Answers what it is told to, by hook."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.seen: list[Any] = []

    @hookimpl
    def transform_model_request(self, event: Any) -> Any:
        return self._answer("transform_model_request", event)

    @hookimpl
    def decide_model_request(self, event: Any) -> Any:
        return self._answer("decide_model_request", event)

    @hookimpl
    def transform_tool_call(self, event: Any) -> Any:
        return self._answer("transform_tool_call", event)

    @hookimpl
    def decide_tool_call(self, event: Any) -> Any:
        self.seen.append(event)
        return self._answer("decide_tool_call", event)

    def _answer(self, hook: str, event: Any) -> Any:
        answer = self.answers.get(hook)
        return answer(event) if callable(answer) else answer


def results(model: ScriptedModel) -> list[tuple[str, bool]]:
    """Return what the calls of the last request's conversation returned."""
    return [(each.text, each.is_error) for each in model.requests[-1].messages if each.role is Role.TOOL]


@asynccontextmanager
async def opened(
    model: ScriptedModel, *plugins: object, answer: Any = None, config: HostSettings = PLAIN, tools: Any = (),
    folder: Path | None = None,
) -> AsyncGenerator[Session]:  # fmt: skip
    """Open a session; *answer* is that of a person to all that is asked, or gives it."""
    given: Any = answer if callable(answer) or answer is None else lambda _: answer
    async with (
        Host.open(
            model="scripted/m", plugins=[model, *plugins], tools=tools, config=config, approver=given, installed=False,
            state_dir=folder,
        ) as host,
        await host.session("s") as session,
    ):  # fmt: skip
        yield session


async def said(model: ScriptedModel, *plugins: object, **more: Any) -> TurnResult[Any]:
    """Return the result of one turn."""
    async with opened(model, *plugins, **more) as session:
        return await session.say("go")


# ---- the offer


async def test_a_request_of_a_turn_has_them_and_a_policy_sees_their_ids():
    model = ScriptedModel("done", hosted=[SEARCH, WIKI])
    seen: list[str] = []
    policy = Policy(decide_model_request=lambda event: seen.extend(each.capability for each in event.request.hosted))

    await said(model, policy)

    assert seen == ["scripted:hosted/web_search", "scripted:hosted/mcp/wiki"]
    assert model.requests[0].hosted == (SEARCH, WIKI)


async def test_a_policy_may_leave_them_out_and_add_none():
    def without(event: Any) -> Any:
        return attrs.evolve(event.request, hosted=())

    def more(event: Any) -> Any:
        return attrs.evolve(event.request, hosted=(*event.request.hosted, CODE))

    model = ScriptedModel("done", hosted=[SEARCH])
    await said(model, Policy(transform_model_request=without))
    assert model.requests[0].hosted == ()

    model = ScriptedModel("done", hosted=[SEARCH])
    with pytest.raises(Exception, match="can only be narrowed"):
        await said(model, Policy(transform_model_request=more))
    assert model.requests == []


def ruled(*rules: Mapping[str, Any], **more: Any) -> Permissions:
    made = [{"id": f"r{number}", **each} for number, each in enumerate(rules)]
    return Permissions(settings_of({"rules": made, **more}))


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ({"decision": "deny", "when": {"tool": "scripted:hosted/web_search"}}, [CODE]),
        ({"decision": "deny", "when": {"tool": "*:hosted/*"}}, []),
        ({"decision": "deny", "when": {"tool": "web_*"}, "tools_may_be_missing": True}, [CODE]),
        ({"decision": "deny", "when": {"effects": "network_read"}}, [CODE]),
        ({"decision": "deny", "when": {"arguments": {"url": {"url": {"host": "bad.example"}}}}}, []),
        ({"decision": "deny", "when": {"effects": "shell", "agent": "other"}}, [SEARCH, CODE]),
    ],
    ids=str,
)
async def test_what_rules_deny_of_tools_is_denied_of_those_at_the_vendor(rule: Any, left: list[HostedTool]):
    model = ScriptedModel("done", hosted=[SEARCH, CODE])

    result = await said(model, ruled(rule))

    assert result.why is Why.COMPLETED
    assert list(model.requests[0].hosted) == left


async def test_what_needs_a_person_is_asked_before_the_request_is_sent():
    model = ScriptedModel("done", hosted=[SEARCH, CODE])

    result = await said(model, ruled(mode="assistant"), answer=False)

    assert (result.why, model.requests) == (Why.DENIED, [])
    assert (await said(model, ruled(mode="assistant"), answer=True)).why is Why.COMPLETED


async def test_what_a_tool_asks_a_model_has_none_of_them():
    @tool(effects=())
    async def think(context: ToolContext) -> str:
        return (await context.call_model("hm")).message.text

    model = ScriptedModel(ToolCall("1", "think"), "deep", "done", hosted=[SEARCH])
    await said(model, tools=[think])

    assert [request.hosted for request in model.requests] == [(SEARCH,), (), (SEARCH,)]


# ---- what they did


async def test_observers_are_told_what_they_did_once_it_has_passed_the_policies():
    part = VendorPart("x", {"type": "web_search_call", "query": "q" * 9_000}, "web_search")
    model, watch = ScriptedModel(ModelResponse(Message.assistant((part, Text("done")))), hosted=[SEARCH]), Recorder()

    await said(model, watch)

    (event,) = [each for each in watch.events if isinstance(each, ToolFinished)]
    assert (event.name, event.capability) == ("web_search", "scripted:hosted/web_search")
    told = str(event.output.for_model)
    assert told.startswith('{"query":"qqq')
    assert told.endswith("[cut: 9037 characters]")


# ---- calls that the vendor makes


async def test_a_call_at_the_vendor_is_decided_and_asked_as_any_other():
    model, policy = ScriptedModel(READ, "done", hosted=[WIKI]), Policy()

    result = await said(model, policy, answer=True)

    assert (result.why, results(model)) == (Why.COMPLETED, [(HOSTED_APPROVED, False)])
    (event,) = policy.seen
    assert (event.capability, event.arguments_json) == ("scripted:hosted/mcp/wiki/read_page", b'{"page":"a"}')
    assert event.effects is None


@pytest.mark.parametrize(
    ("plugins", "answer", "words"),
    [
        ([], False, "Denied"),
        ([Policy(decide_tool_call=Deny("not this page"))], True, "Denied: not this page"),
        ([ruled({"decision": "deny", "when": {"tool": "scripted:hosted/mcp/wiki/delete_*"}})], True, "Denied"),
        ([ruled({"decision": "deny", "when": {"tool": "delete_page*"}, "tools_may_be_missing": True})], True, "Denied"),
        ([ruled({"decision": "deny", "when": {"arguments": {"page": {"equals": "a"}}},
                 "unless": {"tool": "scripted:hosted/mcp/wiki"}})], True, "Denied"),
        ([Policy(transform_tool_call=lambda _: {"page": "b"})], True, "a policy failed"),
        ([Policy(decide_tool_call=lambda event: Respond("cached") if event.round == 0 else None)], True, "cached"),
    ],
    ids=["person", "policy", "rule", "short", "argument", "changed", "answered"],
)  # fmt: skip
async def test_whatever_is_not_an_approval_refuses_it(plugins: list[object], answer: bool, words: str):
    model = ScriptedModel(DELETE, "done", hosted=[WIKI])
    settings = HostSettings(grants=Grants(may_respond=("app:Policy",)))

    await said(model, *plugins, answer=answer, config=settings)

    ((text, _),) = results(model)
    assert words in text
    assert text != HOSTED_APPROVED


@pytest.mark.parametrize(
    "call",
    [
        attrs.evolve(READ, hosted="mcp/other"),
        attrs.evolve(READ, name="read page\u202e"),
        attrs.evolve(READ, arguments='{"page":"a","page":"b"}'),
        attrs.evolve(READ, arguments='{"x":{"page":"a","pag\\u0065":"b"}}'),
        attrs.evolve(READ, arguments="[1]"),
    ],
    ids=["no such server", "no name", "one name twice", "twice inside", "no object"],
)
async def test_a_call_that_nobody_can_judge_is_refused_unasked(call: ToolCall):
    model = ScriptedModel(call, "done", hosted=[WIKI])
    asked: list[Any] = []

    def answer(request: Any) -> bool:
        asked.append(request)
        return True

    await said(model, answer=answer)

    ((_, is_error),) = results(model)
    assert (is_error, asked) == (True, [])


async def test_a_tool_of_the_same_name_here_is_not_run_in_its_place():
    ran: list[str] = []

    @tool(effects=())
    def read_page(page: str) -> str:
        ran.append(page)
        return page

    model = ScriptedModel(READ, "done", hosted=[WIKI])
    await said(model, answer=False, tools=[read_page])

    assert (ran, results(model)[0][1]) == ([], True)


async def test_the_operators_word_on_effects_counts_for_the_calls_of_a_server():
    settings = HostSettings(effects={"scripted:hosted/mcp/wiki/read_page": ("network_read",)})
    model = ScriptedModel((READ, DELETE), "done", hosted=[WIKI])

    await said(model, answer=False, config=settings)

    assert [is_error for _, is_error in results(model)] == [False, True]


async def test_a_pending_call_is_approved_in_another_process(tmp_path: Path):
    first = ScriptedModel(READ, hosted=[WIKI])
    async with opened(first, config=PAUSING, folder=tmp_path) as session:
        result = await session.say("go")
        assert result.why is Why.PAUSED
        assert [each.capability for each in result.pending] == ["scripted:hosted/mcp/wiki/read_page"]

    second = ScriptedModel("done", hosted=[WIKI])
    async with opened(second, config=PAUSING, folder=tmp_path) as session:
        assert (await session.resume({"r1": True})).why is Why.COMPLETED
    assert results(second) == [(HOSTED_APPROVED, False)]
    assert second.requests[0].messages[-2].tool_calls == (READ,)


async def test_an_approval_is_void_if_the_server_is_set_up_otherwise_by_then(tmp_path: Path):
    await said(ScriptedModel(READ, hosted=[WIKI]), config=PAUSING, folder=tmp_path)

    moved = ScriptedModel("done", hosted=[attrs.evolve(WIKI, definition="2")])
    async with opened(moved, config=PAUSING, folder=tmp_path) as session:
        await session.resume({"r1": True})
    ((text, is_error),) = results(moved)
    assert (is_error, "has changed" in text) == (True, True)


async def test_always_is_for_one_tool_of_one_server(tmp_path: Path):
    other = ToolCall("r2", "read_page", '{"page":"b"}', hosted="mcp/wiki")
    model = ScriptedModel(READ, other, DELETE, "done", hosted=[WIKI])
    asked: list[str] = []

    def answer(request: Any) -> Approval:
        asked.append(request.capability)
        return Approval(agreed=True, reach="session")

    await said(model, answer=answer)

    assert asked == ["scripted:hosted/mcp/wiki/read_page", "scripted:hosted/mcp/wiki/delete_page"]


# ---- effects once


class Again:
    """Tries every model call a second time if it fails."""

    @hookimpl
    async def around_model_call(self, event: Any, call_next: Callable[[], Any]) -> Any:
        try:
            return await call_next()
        except ProviderError:
            return await call_next()


@pytest.mark.parametrize(
    ("kind", "times"), [(ProviderErrorKind.STREAM_BROKEN, 2), (ProviderErrorKind.RATE_LIMITED, 3)], ids=str
)
async def test_a_request_that_may_have_made_the_vendor_run_a_call_is_not_repeated(kind: Any, times: int):
    model = ScriptedModel(READ, ProviderError(kind, "no", provider="scripted"), "done", hosted=[WIKI])
    settings = HostSettings(grants=Grants(retriers=("app:Again",)))

    if times == 3:
        assert (await said(model, Again(), answer=True, config=settings)).why is Why.COMPLETED
    else:
        with pytest.raises(ProviderError, match="not repeated"):
            await said(model, Again(), answer=True, config=settings)

    assert len(model.requests) == times


class Other(ScriptedModel):
    name = "other"
    target = "memory:other"


class Elsewhere:
    """Asks *model* in the place of a request that failed."""

    def __init__(self, model: str) -> None:
        self.model = model

    @hookimpl
    async def around_model_call(self, event: Any, call_next: Any) -> Any:
        try:
            return await call_next()
        except ProviderError:
            return await call_next.reissue(event.request, model=self.model)


ELSEWHERE = HostSettings(grants=Grants(retriers=("app:Elsewhere",)))


@pytest.mark.parametrize(
    ("kind", "times"), [(ProviderErrorKind.STREAM_BROKEN, 2), (ProviderErrorKind.RATE_LIMITED, 3)], ids=str
)
async def test_nor_is_it_repeated_by_another_model_of_the_same_vendor(kind: Any, times: int):
    model = ScriptedModel(READ, ProviderError(kind, "no", provider="scripted"), "done", hosted=[WIKI])

    if times == 3:
        assert (await said(model, Elsewhere("scripted/small"), answer=True, config=ELSEWHERE)).why is Why.COMPLETED
    else:
        with pytest.raises(ProviderError, match="not repeated"):
            await said(model, Elsewhere("scripted/small"), answer=True, config=ELSEWHERE)

    assert len(model.requests) == times


# ---- whose call it is


async def test_a_call_of_a_model_that_was_asked_in_place_of_another_is_not_approved_as_one_of_that():
    down = ProviderError(ProviderErrorKind.UNAVAILABLE, "no", provider="scripted")
    second = Other(READ, "done", hosted=[HostedTool("other:hosted/mcp/wiki", ("network_read",), "1")])
    policy = Policy()

    await said(
        ScriptedModel(down, down, hosted=[WIKI]), second, policy, Elsewhere("other/m"), answer=True, config=ELSEWHERE
    )

    assert (policy.seen, results(second)[0][1]) == ([], True)


async def test_a_call_of_a_tool_that_a_policy_left_out_of_the_request_is_refused_unasked():
    def without(event: Any) -> Any:
        return attrs.evolve(event.request, hosted=())

    model, policy = ScriptedModel(READ, "done", hosted=[WIKI]), Policy(transform_model_request=without)

    await said(model, policy, answer=True)

    assert (policy.seen, results(model)[0][1]) == ([], True)


async def test_a_dry_run_has_the_vendor_run_nothing_with_effects():
    pure = HostedTool("scripted:hosted/tool_search", (), "1")
    unknown = HostedTool("scripted:hosted/new", None, "1")
    model = ScriptedModel("done", hosted=[SEARCH, CODE, pure, unknown])

    async with opened(model) as session:
        await session.say("go", dry_run=True)

    assert model.requests[0].hosted == (pure,)


async def test_asking_about_the_request_shows_what_may_run():
    model = ScriptedModel("done", hosted=[SEARCH])
    shown: list[str] = []

    def answer(request: Any) -> bool:
        shown.append(request.rendered)
        return False

    await said(model, Policy(decide_model_request=Ask("sure?")), answer=answer)

    assert "scripted:hosted/web_search" in shown[0]
