"""A last reply that was cut off, filtered or is empty: the turn is complete, and says that the reply is not."""

from typing import Any

import attrs
import pytest
from fake_plugins import plugin
from pluggent_hookspecs import Deny, FinishReason, Message, ModelResponse, TurnEnded
from pluggent_host import Why
from pluggent_transcript.entries import TurnOver
from talking import said, talking

CUT = "the reply was cut off: it had reached the most tokens that it may have"


def reply(text: str, reason: FinishReason) -> ModelResponse:
    return ModelResponse(Message.assistant(text), finish_reason=reason)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("given", "reason", "detail"),
    [
        (reply("It is", FinishReason.LENGTH), FinishReason.LENGTH, CUT),
        (reply("", FinishReason.LENGTH), FinishReason.LENGTH, CUT),
        (
            reply("It", FinishReason.CONTENT_FILTER),
            FinishReason.CONTENT_FILTER,
            "the reply was ended by the",
        ),
        (reply("", FinishReason.STOP), FinishReason.STOP, "the model's reply is empty"),
        (reply("It is 5.", FinishReason.STOP), FinishReason.STOP, ""),
        (reply("It is 5.", FinishReason.OTHER), FinishReason.OTHER, ""),
    ],
    ids=["cut", "cut before a word", "filtered", "empty", "whole", "unknown"],
)
async def test_how_the_last_reply_ended_is_in_the_result_the_record_and_the_events(
    given: ModelResponse, reason: FinishReason, detail: str, stream: bool
):
    async with talking(given) as session:
        ended = list[Any]()
        if stream:
            async with session.stream("how much?") as turn:
                ended = [event async for event in turn if isinstance(event, TurnEnded)]
            result = turn.result
        else:
            result = await session.say("how much?")
        (over,) = [entry for entry in session.records() if isinstance(entry, TurnOver)]

    assert (result.why, result.finish_reason) == (Why.COMPLETED, reason)
    assert result.detail.startswith(detail)
    assert bool(result.detail) == bool(detail)
    assert over.detail == result.detail
    assert [event.detail for event in ended] == [result.detail] * stream


async def test_a_turn_without_a_reply_has_no_reason():
    result, _ = await said("never", plugins=[plugin(decide_input=Deny("no"))])

    assert (result.why, result.finish_reason) == (Why.DENIED, None)


@attrs.frozen
class Answer:
    price: int


async def test_an_answer_in_a_form_that_was_cut_off_says_so():
    async with talking(*[reply('{"price": 1', FinishReason.LENGTH)] * 2) as session:
        result = await session.say("how much?", output=Answer)

    assert result.why is Why.INVALID_OUTPUT
    assert CUT in result.detail
