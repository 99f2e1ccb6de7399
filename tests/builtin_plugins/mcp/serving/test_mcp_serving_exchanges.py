"""A request that was answered with a question continues with the right answer alone, once, and not for ever."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import (
    ClientCapabilities,
    ElicitationCapability,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    FormElicitationCapability,
)
from pluggent_mcp.serving import exchanges as serving_exchanges
from pluggent_mcp.serving.exchanges import Exchanges, client_of, current

WAIT_S = 20.0
NEWEST = "2026-07-28"
FORM: dict[str, Any] = {"type": "object", "properties": {}}
QUESTION = ElicitRequest(params=ElicitRequestFormParams(message="go on?", requested_schema=FORM))
OTHER = ElicitRequest(params=ElicitRequestFormParams(message="erase the disk?", requested_schema=FORM))
YES = {"action": "accept", "content": {"approve": True}}


def context(*, version: str = NEWEST, method: str = "tools/call", client: str = "desk", **params: Any) -> Any:
    """Return a request as the SDK hands it on."""
    given = {"name": "reboot", "arguments": {}, **params}
    can = ClientCapabilities(elicitation=ElicitationCapability(form=FormElicitationCapability()))
    params_of_client = SimpleNamespace(client_info=SimpleNamespace(name=client))
    session = SimpleNamespace(client_params=params_of_client, client_capabilities=can)
    return SimpleNamespace(protocol_version=version, method=method, params=given, request_id=1, session=session)


class Handler:
    """What answers requests: it asks *times* times, and says what it heard."""

    def __init__(self, times=1):
        self._times = times
        self.heard: list[ElicitResult | None] = []
        self.cancelled = False

    async def __call__(self, context):
        try:
            for _ in range(self._times):
                exchange = current()
                assert exchange is not None
                self.heard.append(await exchange.ask(QUESTION, ElicitResult))
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return {"heard": len(self.heard)}


@pytest.fixture
async def exchanges():
    made = Exchanges()
    yield made
    await made.aclose()


async def test_a_request_without_questions_is_simply_answered(exchanges):
    assert await exchanges(context(), Handler(times=0)) == {"heard": 0}


@pytest.mark.parametrize("other", [{"version": "2025-11-25"}, {"method": "tools/list"}])
async def test_what_cannot_be_answered_with_a_question_has_no_exchange(other, exchanges):
    async def handler(_):
        return {"exchange": current()}

    assert await exchanges(context(**other), handler) == {"exchange": None}


async def test_each_round_has_a_state_of_its_own(exchanges):
    handler = Handler(times=2)
    first = await exchanges(context(), handler)
    second = await exchanges(context(requestState=first["requestState"], inputResponses={"person": YES}), handler)
    done = await exchanges(context(requestState=second["requestState"], inputResponses={"person": YES}), handler)

    assert first["resultType"] == second["resultType"] == "input_required"
    assert first["inputRequests"]["person"]["params"]["message"] == "go on?"
    assert first["requestState"] != second["requestState"]
    assert done == {"heard": 2}
    assert [answer and answer.content for answer in handler.heard] == [YES["content"], YES["content"]]


@pytest.mark.parametrize("state", ["", "forged", 5, None, ["x"], {"a": 1}])
async def test_a_state_that_was_not_issued_is_refused(state, exchanges):
    handler = Handler()
    await exchanges(context(), handler)
    if state is None:
        return await unanswered(exchanges)

    with pytest.raises(MCPError, match="nothing waits under that requestState"):
        await exchanges(context(requestState=state, inputResponses={"person": YES}), handler)
    assert handler.heard == []
    return None


async def unanswered(exchanges):
    """Ask again without a state: that is another request, with a question of its own."""
    again = await exchanges(context(inputResponses={"person": YES}), Handler())
    assert again["resultType"] == "input_required"


async def test_a_state_is_good_for_one_answer(exchanges):
    handler = Handler()
    asked = await exchanges(context(), handler)
    answer = context(requestState=asked["requestState"], inputResponses={"person": YES})
    await exchanges(answer, handler)

    with pytest.raises(MCPError, match="nothing waits under that requestState"):
        await exchanges(answer, handler)
    assert len(handler.heard) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"arguments": {"when": "now"}},
        {"name": "travel"},
        {"method": "prompts/get"},
        {"more": 1},
        {"client": "other"},
        {"arguments": {"n": True}},
    ],
)
async def test_an_answer_counts_for_the_request_that_was_asked_about(other, exchanges):
    handler = Handler()
    asked = await exchanges(context(), handler)

    with pytest.raises(MCPError, match="belongs to another request"):
        await exchanges(context(requestState=asked["requestState"], inputResponses={"person": YES}, **other), handler)
    assert handler.heard == []


@pytest.mark.parametrize(
    "responses", [None, {}, {"other": YES}, {"person": None}, {"person": "yes"}, {"person": {"action": "sure"}}, [], 7]
)
async def test_what_is_not_an_answer_is_refused_for_every_client(responses, exchanges):
    handler = Handler()
    asked = await exchanges(context(), handler)

    await exchanges(context(requestState=asked["requestState"], inputResponses=responses), handler)
    assert handler.heard == [None]


async def test_a_late_answer_is_none_to_a_question_that_came_after_it(exchanges):
    heard, too_late = [], asyncio.Event()

    async def handler(_):
        exchange = current()
        assert exchange is not None
        first = asyncio.create_task(exchange.ask(QUESTION, ElicitResult))
        await too_late.wait()
        first.cancel()
        heard.append(await exchange.ask(OTHER, ElicitResult))
        return {"heard": len(heard)}

    asked = await exchanges(context(), handler)
    too_late.set()
    await asyncio.sleep(0)
    again = await exchanges(context(requestState=asked["requestState"], inputResponses={"person": YES}), handler)
    assert again["inputRequests"]["person"]["params"]["message"] == "erase the disk?"
    assert heard == []

    last = context(requestState=again["requestState"], inputResponses={"person": {"action": "decline"}})
    assert await exchanges(last, handler) == {"heard": 1}
    assert heard[0].action == "decline"


async def test_what_came_of_it_is_kept_for_a_while_only():
    exchanges: Any = Exchanges(kept_s=0)

    async def handler(_):
        exchange = current()
        assert exchange is not None
        try:
            async with asyncio.timeout(0.01):
                await exchange.ask(QUESTION, ElicitResult)
        except TimeoutError:
            ended.set()
            raise MCPError(-1, "no client answered") from None

    ended = asyncio.Event()
    asked = await exchanges(context(), handler)
    async with asyncio.timeout(WAIT_S):
        await ended.wait()
        while exchanges.waiting:  # noqa: ASYNC110 (there is nothing to wait for: the next round of the loop does it)
            await asyncio.sleep(0)

    with pytest.raises(MCPError, match="its time is over"):
        await exchanges(context(requestState=asked["requestState"], inputResponses={"person": YES}), handler)
    await exchanges.aclose()


async def test_the_end_ends_what_waits():
    exchanges: Any = Exchanges()
    handler = Handler()
    await exchanges(context(), handler)
    await exchanges.aclose()

    assert handler.cancelled
    assert exchanges.waiting == 0


async def test_a_client_that_gives_up_ends_what_it_asked_for(exchanges):
    begun, handler = asyncio.Event(), Handler()

    async def working(_):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            handler.cancelled = True

    request = asyncio.create_task(exchanges(context(), working))
    await begun.wait()
    request.cancel()
    await asyncio.wait((request,))

    assert handler.cancelled


async def test_of_too_many_that_wait_the_next_are_asked_nothing(exchanges, monkeypatch):
    monkeypatch.setattr(serving_exchanges, "MOST_WAITING", 1)
    await exchanges(context(), Handler())
    handler = Handler()

    assert await exchanges(context(), handler) == {"heard": 1}
    assert handler.heard == [None]


async def test_a_failure_of_what_went_on_is_that_of_the_last_round(exchanges):
    async def handler(_):
        exchange = current()
        assert exchange is not None
        await exchange.ask(QUESTION, ElicitResult)
        raise MCPError(-5, "it broke")

    asked = await exchanges(context(), handler)
    with pytest.raises(MCPError, match="it broke"):
        await exchanges(context(requestState=asked["requestState"], inputResponses={"person": YES}), handler)


def test_of_the_name_of_a_client_no_more_is_kept_than_counts():
    assert client_of(context(client="n" * 1_000_000)) == "n" * 64
