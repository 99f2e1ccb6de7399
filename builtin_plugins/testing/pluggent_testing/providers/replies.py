"""What a provider promises about its name and its replies; inherited by the classes of providers.py."""

from __future__ import annotations

from inspect import isasyncgen, iscoroutine
from typing import get_args
from urllib.parse import urlsplit

import pytest
from pluggent_hookspecs import (
    Delta,
    FinishReason,
    ListsModels,
    Message,
    ModelInfo,
    ModelResponse,
    Provider,
    TextDelta,
)

from pluggent_testing.providers.asking import (
    AWKWARD,
    Ask,
    Tell,
    Wanted,
    batches_of,
    both,
    deltas_of,
    streamed,
    whole,
)
from pluggent_testing.providers.suite import Suite, nothing
from pluggent_testing.providers.values import (
    calls_of,
    check_deltas,
    check_frozen,
    check_read_only,
    check_reply,
    check_written_down,
    told_by,
)

ROME = ("weather", {"city": "Rome"})
SUM = ("add", {"a": 2, "b": 3})


class NamesAndReplies(Suite):
    """Who the provider is, and what its replies are made of."""

    # ---- name and target ------------------------------------------------------------------

    def test_a_provider_is_a_provider_with_a_name_of_one_word(self, told: Tell) -> None:
        async def story(provider: Provider) -> None:
            assert isinstance(provider, Provider), "name, target, complete or stream is missing"
            assert type(provider.name) is str, f"the name is {provider.name!r}"
            assert provider.name == provider.name.strip() != "", f"the name is {provider.name!r}"
            assert provider.name.isprintable(), f"the name is {provider.name!r}"
            assert not set("/ ") & set(provider.name), f"'{provider.name}': models are named <provider>/<model>"

        told(story)

    def test_name_and_target_stay_what_they_are(self, told: Tell) -> None:
        async def story(provider: Provider) -> None:
            before = (provider.name, provider.target)
            await provider.complete(self.request())
            assert (provider.name, provider.target) == before

        told(story)

    def test_the_target_is_a_place_without_user_query_and_fragment(self, told: Tell) -> None:
        async def story(provider: Provider) -> None:
            assert type(provider.target) is str, f"the target is {provider.target!r}"
            assert provider.target.strip(), "the target is empty; approvals are bound to it"
            parts = urlsplit(provider.target)
            assert "@" not in parts.netloc, "the target shows a user"
            assert not parts.query, "the target shows a query, which may hold a key"
            assert not parts.fragment, "the target has a fragment"

        told(story)

    def test_no_secret_is_shown(self, told: Tell) -> None:
        async def story(provider: Provider) -> None:
            await provider.complete(self.request())
            for text in (provider.name, provider.target, repr(provider), str(provider)):
                # The text is not shown here either.
                assert not [secret for secret in self.secrets if secret in text], "a secret is shown"

        told(story)

    def test_opening_and_closing_alone_is_fine(self, told: Tell) -> None:
        told(nothing)

    # ---- whole replies --------------------------------------------------------------------

    @both
    def test_a_reply_in_words_has_some(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            reply = check_reply(await ask(provider, self.request()))
            assert reply.message.text.strip(), "the reply has no text"
            assert not reply.message.tool_calls, "no tool was offered"
            assert reply.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)

        told(story)

    @both
    def test_a_reply_is_frozen_and_read_only(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            reply = await ask(provider, self.request())
            for value in (reply, reply.message, reply.usage, *reply.message.content):
                check_frozen(value)
            check_read_only(reply.extra, "extra")
            check_read_only(reply.message.extra, "extra of the message")

        told(story)

    @both
    def test_a_reply_can_be_written_down_and_read_again(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            check_written_down(await ask(provider, self.request()), ModelResponse)

        told(story)

    @both
    def test_a_call_that_was_asked_for_is_made(self, told: Tell, ask: Ask) -> None:
        request = self.request_for_calls([ROME])

        async def story(provider: Provider) -> None:
            reply = check_reply(await ask(provider, request))
            assert calls_of(reply) == [ROME]
            assert reply.finish_reason is FinishReason.TOOL_CALLS
            check_written_down(reply, ModelResponse)

        told(story)

    @both
    def test_calls_side_by_side_keep_their_arguments(self, told: Tell, ask: Ask) -> None:
        wanted: list[Wanted] = [ROME, SUM, ("weather", {"city": "Oslo"}), ("add", {"a": 40, "b": 2})]
        request = self.request_for_calls(wanted)

        async def story(provider: Provider) -> None:
            assert calls_of(check_reply(await ask(provider, request))) == wanted

        told(story)

    @both
    @pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD)
    def test_arguments_are_what_the_model_wrote(self, told: Tell, ask: Ask, text: str) -> None:
        request = self.request_for_calls([("weather", {"city": text})])

        async def story(provider: Provider) -> None:
            assert calls_of(check_reply(await ask(provider, request))) == [("weather", {"city": text})]

        told(story)

    @both
    def test_the_conversation_goes_on_with_the_results(self, told: Tell, ask: Ask) -> None:
        request = self.request_for_calls([ROME, SUM])

        async def story(provider: Provider) -> None:
            first = await ask(provider, request)
            asked = request.messages[0]
            results = [
                Message.tool(call, f"result {number}", is_error=number == 1)
                for number, call in enumerate(first.message.tool_calls)
            ]
            second = await ask(provider, self.request(asked, first.message, *results, tools=self.some_tools))
            assert check_reply(second).message.text.strip(), "nothing is said about the results"

        told(story)

    # ---- streams --------------------------------------------------------------------------

    def test_a_stream_is_an_async_generator(self, told: Tell) -> None:
        async def story(provider: Provider) -> None:
            stream = provider.stream(self.request())
            if iscoroutine(stream):
                stream.close()
                raise AssertionError("stream() returns a coroutine; write `async def stream` with `yield`")
            assert isasyncgen(stream) or all(hasattr(stream, name) for name in ("__anext__", "asend", "aclose"))
            await stream.aclose()

        told(story)

    def test_batches_are_sequences_of_deltas(self, told: Tell) -> None:
        async def story(provider: Provider) -> None:
            for batch in await batches_of(provider, self.request()):
                assert isinstance(batch, list | tuple), f"a batch is {type(batch).__name__}, no list or tuple"
                assert all(isinstance(delta, get_args(Delta)) for delta in batch), f"what is this: {batch}?"

        told(story)

    def test_finished_comes_last_and_once(self, told: Tell) -> None:
        async def story(provider: Provider) -> None:
            check_deltas(await deltas_of(provider, self.request()))

        told(story)

    def test_finished_comes_last_and_once_after_calls(self, told: Tell) -> None:
        request = self.request_for_calls([ROME, SUM])

        async def story(provider: Provider) -> None:
            check_deltas(await deltas_of(provider, request))

        told(story)

    def test_deltas_can_be_written_down_and_read_again(self, told: Tell) -> None:
        async def story(provider: Provider) -> None:
            for delta in await deltas_of(provider, self.request()):
                check_written_down(delta, Delta)

        told(story)

    def test_text_comes_in_pieces_that_make_the_whole(self, told: Tell) -> None:
        async def story(provider: Provider) -> None:
            pieces = [delta.text for delta in await deltas_of(provider, self.request()) if isinstance(delta, TextDelta)]
            assert all(type(piece) is str for piece in pieces), f"what is no text: {pieces}"
            if self.deterministic:
                assert "".join(pieces) == (await provider.complete(self.request())).message.text

        told(story)

    def test_a_whole_and_a_streamed_reply_agree(self, told: Tell) -> None:
        async def story(provider: Provider) -> None:
            one, other = [await ask(provider, self.request()) for ask in (whole, streamed)]
            if self.deterministic:
                assert told_by(one) == told_by(other)
            assert one.finish_reason == other.finish_reason

        told(story)

    def test_whole_and_streamed_calls_agree(self, told: Tell) -> None:
        request = self.request_for_calls([ROME, SUM])

        async def story(provider: Provider) -> None:
            one, other = [await ask(provider, request) for ask in (whole, streamed)]
            if self.deterministic:
                assert told_by(one) == told_by(other)
            assert calls_of(one) == calls_of(other)
            assert one.finish_reason == other.finish_reason

        told(story)

    # ---- models ---------------------------------------------------------------------------

    def test_models_that_are_listed_can_be_told_apart(self, told: Tell) -> None:
        async def story(provider: Provider) -> None:
            if not isinstance(provider, ListsModels):
                pytest.skip("this provider lists no models")
            models = list(await provider.list_models())
            ids = [model.id for model in models]
            assert len(set(ids)) == len(ids), f"listed twice: {ids}"
            for model in models:
                check_model(model)

        told(story)


def check_model(model: ModelInfo) -> None:
    """Check what is said of one model."""
    assert isinstance(model, ModelInfo), f"a listed model is {type(model).__name__}"
    assert type(model.id) is str, f"the id of a model is {model.id!r}"
    assert model.id == model.id.strip() != "", f"the id of a model is {model.id!r}"
    assert type(model.name) is str, f"the name of '{model.id}' is {model.name!r}"
    assert model.created is None or model.created >= 0, f"'{model.id}' was made at {model.created!r}"
    for what in ("context_window", "max_output_tokens"):
        size = getattr(model, what)
        assert size is None or (type(size) is int and size > 0), f"{what} of '{model.id}' is {size!r}"
    check_frozen(model)
    check_read_only(model.extra, f"extra of '{model.id}'")
    check_written_down(model, ModelInfo)
