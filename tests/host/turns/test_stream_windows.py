"""transform_delta: a stream is shown as it comes, and what a policy would hide is never shown (rule 24)."""

import itertools
import re
from collections.abc import AsyncGenerator
from typing import Any

import attrs
import pytest
from fake_plugins import plugin
from hypothesis import given, settings, strategies as st
from pluggent_hookspecs import (
    DeltaEvent,
    Discarded,
    Finished,
    HookFailed,
    Message,
    ReasoningDelta,
    ReasoningShown,
    TextDelta,
    TextShown,
    Window,
    hookimpl,
)
from pluggent_hookspecs.errors import PluginLoadError, ProviderError, ProviderErrorKind
from pluggent_host import Host, HostSettings
from pluggent_testing.fakes import Recorder, ScriptedModel
from talking import talking

SECRET = re.compile(r"sk-[a-z0-9]+")
"""What must never be shown; however long it is."""
BEGINNING = re.compile(r"s(k(-[a-z0-9]*)?)?\Z")


class Redactor:
    """Hides keys: in the whole reply, and in the stream as it comes."""

    def __init__(self) -> None:
        self.seen: list[DeltaEvent] = []

    @hookimpl(incremental=64)
    def transform_model_response(self, event: Any) -> Any:
        message = event.response.message
        content = tuple(attrs.evolve(part, text=SECRET.sub("***", part.text)) for part in message.content)
        return attrs.evolve(event.response, message=attrs.evolve(message, content=content))

    @hookimpl
    def transform_delta(self, event: DeltaEvent) -> Window:
        self.seen.append(event)
        text = event.text
        if event.state == "inside":  # of a key whose beginning is hidden already
            rest = re.match(r"[a-z0-9]*", text)
            assert rest is not None
            if rest.end() == len(text) and not event.final:
                return Window("", state="inside")
            text = text[rest.end() :]
        hidden = SECRET.sub("***", text)
        begun = None if event.final else BEGINNING.search(text)
        if begun is None:
            return Window(hidden)
        if begun[0].startswith("sk-") and len(begun[0]) > 3:
            return Window(SECRET.sub("***", text[: begun.start()]) + "***", state="inside")
        return Window(SECRET.sub("***", text[: begun.start()]), keep=len(begun[0]))


class Chunks(ScriptedModel):
    """Streams exactly these pieces."""

    def __init__(self, *pieces: str) -> None:
        super().__init__()
        self.pieces = pieces

    async def stream(self, request: Any) -> AsyncGenerator[Any]:
        for piece in self.pieces:
            yield (TextDelta(piece),)
        yield (Finished(),)


async def shown(*pieces: str, plugins: tuple[object, ...] = (), model: Any = None) -> tuple[list[str], str]:
    """Return what was shown piece by piece, and the text of the result; nothing may be taken back."""
    texts: list[str] = []
    async with talking(model=model or Chunks(*pieces), plugins=plugins) as session:
        async with session.stream("go") as events:
            async for event in events:
                assert not isinstance(event, Discarded)
                texts += [event.text] if isinstance(event, TextShown) else []
        return texts, events.result.text


async def test_text_comes_as_it_is_written_and_the_key_never():
    texts, result = await shown("the key ", "is s", "k-ab", "c123 and", " more", plugins=(Redactor(),))

    assert texts == ["the key ", "is ", "***", " and", " more"]
    assert result == "".join(texts) == "the key is *** and more"
    assert await shown("cats", plugins=(Redactor(),)) == (["cat", "s"], "cats"), "the end shows what was held back"


@given(st.text("sk- ab1", max_size=60), st.lists(st.integers(0, 60), max_size=12))
@settings(max_examples=60, deadline=None)
async def test_wherever_a_stream_is_cut_it_shows_what_the_whole_reply_shows(text: str, cuts: list[int]):
    at = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(at) if b > a] or [" "]

    texts, result = await shown(*pieces, plugins=(Redactor(),))

    assert "".join(texts) == result == SECRET.sub("***", "".join(pieces))


async def test_several_plugins_filter_one_after_the_other():
    class Upper:
        @hookimpl(incremental=1)
        def transform_output(self, event: Any) -> Message:
            return Message.assistant(event.message.text.upper())

        @hookimpl
        def transform_delta(self, event: DeltaEvent) -> Window:
            return Window(event.text.upper())

    texts, result = await shown("a sk-", "1 b", plugins=(Redactor(), Upper()))

    assert (texts, result) == (["A ", "*** B"], "A *** B")


async def test_a_hook_that_wants_the_whole_reply_still_holds_everything():
    whole = plugin("Whole", decide_output=None)
    texts, result = await shown("one ", "two", plugins=(Redactor(), whole))

    assert texts == [result] == ["one two"]


@pytest.mark.parametrize(
    "answer",
    [
        Window("x", keep=100),
        Window("x", keep=-1),
        Window("x", keep=6),
        "text",
        Window(None),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        ValueError("broken"),
    ],
)
async def test_what_a_filter_fails_on_is_not_shown_before_the_whole_reply_has_passed(answer: Any):
    class Broken:
        @hookimpl(incremental=5)
        def transform_model_response(self, event: Any) -> Any:
            return attrs.evolve(event.response, message=Message.assistant("harmless"))

        @hookimpl
        def transform_delta(self, event: DeltaEvent) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

    recorder = Recorder()
    texts, result = await shown("secret ", "text", plugins=(Broken(), recorder))

    assert texts == [result] == ["harmless"]
    assert [failed.hook for failed in recorder.of(HookFailed)] == ["transform_delta"]


async def test_holding_back_at_the_end_of_the_stream_is_a_failure():
    class Greedy(Redactor):
        @hookimpl
        def transform_delta(self, event: DeltaEvent) -> Window:
            return Window("", keep=min(3, len(event.text)))

    recorder = Recorder()
    assert await shown("abc", plugins=(Greedy(), recorder)) == (["abc"], "abc")
    (failed,) = recorder.of(HookFailed)
    assert failed.problem == "keeps 3 characters at the end of the stream"


async def test_reasoning_is_a_stream_of_its_own():
    class Thinking(Chunks):
        async def stream(self, request: Any) -> AsyncGenerator[Any]:
            yield (ReasoningDelta("key sk-"),)
            yield (ReasoningDelta("abc!"), TextDelta("s"))
            yield (TextDelta("o"),)
            yield (Finished(),)

    seen: list[str] = []
    async with talking(model=Thinking(), plugins=(Redactor(),)) as session, session.stream("go") as events:
        async for event in events:
            seen += [f"{type(event).__name__} {event.text}"] if isinstance(event, TextShown | ReasoningShown) else []

    assert "".join(seen).count("sk-") == 0
    assert seen == ["ReasoningShown key ", "ReasoningShown ***!", "TextShown so"]


async def test_another_attempt_begins_a_stream_anew():
    async def again(event: Any, call_next: Any) -> Any:
        try:
            return await call_next()
        except ProviderError:
            call_next.discard("again")
            return await call_next()

    class Breaking(Chunks):
        async def stream(self, request: Any) -> AsyncGenerator[Any]:
            first, *self.pieces = self.pieces  # type: ignore[assignment]
            yield (TextDelta(first),)
            if self.pieces:
                raise ProviderError(ProviderErrorKind.STREAM_BROKEN, "cut", provider="scripted")
            yield (Finished(),)

    redactor = Redactor()
    async with (
        talking(model=Breaking("a sk-", "1 b"), plugins=(redactor, plugin(around_model_call=again))) as session,
        session.stream("go") as events,
    ):
        told = [event async for event in events if isinstance(event, TextShown | Discarded)]

    assert [event.text if isinstance(event, TextShown) else "discarded" for event in told] == ["a ", "discarded", "1 b"]
    assert events.result.text == "1 b"
    assert [(event.text, event.final) for event in redactor.seen] == [("a sk-", False), ("1 b", False), ("", True)]


async def test_without_a_stream_nothing_is_filtered_twice():
    redactor = Redactor()
    async with talking("a sk-1 b", plugins=(redactor,)) as session:
        assert (await session.say("go")).text == "a *** b"
    assert redactor.seen == []


@pytest.mark.parametrize(
    ("hooks", "problem"),
    [
        ({"transform_delta": {}}, "the whole reply has to pass the plugin too"),
        ({"transform_output": {"incremental": 5}}, "incremental needs transform_delta"),
        ({"transform_output": {"incremental": 0}, "transform_delta": {}}, "incremental=0 is not a number"),
        ({"decide_input": {"incremental": 5}, "transform_delta": {}}, "incremental is for transform_model_response"),
        ({"transform_output": {"incremental": 5}, "transform_delta": {"blocking": True}}, "blocking=True is not for"),
    ],
)
async def test_a_plugin_that_filters_by_halves_is_refused(hooks: dict[str, Any], problem: str):
    def made(name: str) -> Any:
        def hook(self: object, event: object) -> None:
            return None

        hook.__name__ = name
        return hook

    half = type("Half", (), {name: hookimpl(**options)(made(name)) for name, options in hooks.items()})()
    with pytest.raises(PluginLoadError, match=re.escape(problem)):
        async with Host.open(plugins=[half], installed=False, config=HostSettings()):
            pass
