"""What a tool asks of the model: an operation of its own, under the same policies."""

import attrs
import pytest
from each_of import shown
from pluggent_hookspecs import Ask, Denied, Deny, Message, ModelParameters, ProviderError, ProviderErrorKind, hookimpl
from pluggent_testing.fakes import call
from policy_stage import Danger, run, stage, using


@pytest.mark.parametrize("answer", [Deny("no"), Ask("?"), True, "allow", ValueError], ids=shown)
async def test_a_denied_nested_model_call_is_not_sent(answer: object) -> None:
    class Policy:
        @hookimpl
        def decide_model_request(self, event):
            return answer if event.scope.origin == "tool" else None

    outcome, on = await run(lambda context: context.call_model("a question"), Danger(), "done", plugins=[Policy()])

    assert isinstance(outcome[0], Denied)
    assert all("a question" not in repr(request) for request in on.model.requests)


async def test_a_nested_model_call_gets_no_history_and_no_tools() -> None:
    outcome, on = await run(
        lambda context: context.call_model("a question", system="be short", parameters=ModelParameters(seed=1)),
        Danger(),
        "an answer",
    )

    inner = on.model.requests[1]
    assert [message.text for message in inner.messages] == ["be short", "a question"]
    assert (inner.tools, inner.parameters.seed) == ((), 1)
    assert outcome[0].message.text == "an answer"


async def test_a_nested_model_call_passes_transforms_and_result_hooks_and_counts() -> None:
    class Hooks:
        @hookimpl
        def transform_model_request(self, event):
            rewritten = attrs.evolve(event.request, messages=(Message.user("rewritten"),))
            return rewritten if event.scope.origin == "tool" else None

        @hookimpl
        def transform_model_response(self, event):
            redacted = attrs.evolve(event.response, message=Message.assistant("redacted"))
            return redacted if event.scope.origin == "tool" else None

    outcome, on = await run(lambda context: context.call_model("a question"), Danger(), "an answer", plugins=[Hooks()])

    assert on.model.requests[1].messages == (Message.user("rewritten"),)
    assert outcome[0].message.text == "redacted"
    assert on.session.usage.total == 45


async def test_calls_in_a_nested_reply_are_not_run() -> None:
    danger = Danger()

    outcome, _ = await run(lambda context: context.call_model("a question"), danger, call("danger", path="x"))

    assert outcome[0].message.tool_calls
    assert danger.ran == []


async def test_the_failure_of_a_nested_model_call_is_the_tools_to_handle() -> None:
    error = ProviderError(ProviderErrorKind.UNAVAILABLE, "gone")

    outcome, on = await run(lambda context: context.call_model("a question"), Danger(), error)

    assert outcome == [error]
    assert on.read_by_model() == ["used"]


async def test_nothing_of_a_nested_reply_is_shown_in_a_stream() -> None:
    user, _ = using(lambda context: context.call_model("a question"))

    async with stage(call("user"), "private answer", "done", tools=[user]) as on, on.session.stream("go") as events:
        seen = [event async for event in events]

    assert "private answer" not in repr(seen)
