"""How much work a text makes: linear in its length, and beside the event loop where it is long. Counted, not timed."""

import asyncio
import base64
import html
import json
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import attrs
import pytest
from pluggent_hookspecs import DeltaEvent, MemoryItem, Message, ToolOutput
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.messages import File, Text
from pluggent_hookspecs.secrets import Secret
from pluggent_redact.large_values import LARGE, is_large
from pluggent_redact.patterns import Pattern, pattern
from pluggent_redact.plugin import Redact
from pluggent_redact.settings import RedactSettings
from pluggent_redact.shapes import SHAPES, Shape
from pluggent_redact.stream_engine import WINDOW, Engine, literals_of
from pluggent_testing.fakes import ScriptedModel
from talking import talking

WORK = [0]


@attrs.frozen(eq=False)
class CountedShape(Shape):
    """A shape that counts the characters that it looks through."""

    def find(self, text: str, pos: int, end: int) -> Any:
        found = Shape.find(self, text, pos, end)
        WORK[0] += (end if found is None else found.end()) - pos + 1
        return found

    def at(self, text: str, pos: int, end: int) -> Any:
        WORK[0] += self.width
        return Shape.at(self, text, pos, end)

    def begins(self, text: str, pos: int, end: int, *, fresh: bool) -> int | None:
        WORK[0] += self.width
        return Shape.begins(self, text, pos, end, fresh=fresh)


class CountedText(str):
    """A text that counts the characters that are looked through for a literal."""

    __slots__ = ()

    def find(self, sub: str, start: Any = 0, end: Any = None, /) -> int:
        found = str.find(self, sub, start, end)
        WORK[0] += (len(self) if found < 0 else found + len(sub)) - start + 1
        return found


def counted(shape: Shape) -> CountedShape:
    return CountedShape(**{field.name: getattr(shape, field.name) for field in attrs.fields(Shape) if field.init})


COUNTING = tuple(map(counted, SHAPES))


def work(engine: Engine, text: str) -> int:
    WORK[0] = 0
    engine.redact(CountedText(text))
    return WORK[0]


@pytest.mark.parametrize(
    "piece",
    [
        "authorization: bearer abcd1234 bearer aaaaaaaaaaaaaaaaaaaaaaaaaa ", "AKIAABCDEFGHIJ123456 ",
        "password=aB3xyz98, ", "Bearer abcdefghij1234567890XY ", "SECRETVAL,x", "[redacted:jwt] SECRETVAL,x ",
        "ghp_" + "a1" * 18 + " ", "postgres://bob:s3cr3t@db ", "k3y%token ", "password=", "eyJ" * 299 + ".",
        "eyJ", "sk-", "://a:", "-----BEGIN ", "[redacted:", "authorization:", "ab1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("beginning", ["", "sk- bearer xoxb- eyJ ", "[redacted:"])
def test_the_work_for_a_text_grows_as_its_length(piece: str, beginning: str):
    engine = Engine(literals_of(["SECRETVAL,x", "k3y%token", "never-there"]), COUNTING)

    one, two, four = (work(engine, beginning + piece * (size // len(piece))) for size in (1 << 14, 1 << 15, 1 << 16))

    assert two <= 2.2 * one
    assert four <= 4.4 * one
    assert one <= 400 * (1 << 14)


def test_the_work_of_an_own_pattern_grows_as_the_length_of_the_text():
    made, sizes = pattern("staff", "EMP-[0-9]{6}"), []

    def searched(text: str) -> Any:
        sizes.append(len(text))
        return made.search(text)

    totals = []
    for size in (1 << 16, 1 << 17, 1 << 18):
        sizes.clear()
        Engine((), (Pattern(made.kind, made.width, searched),)).redact("EMP-123456 " * (size // 11))
        totals.append(sum(sizes))

    assert totals[2] <= 4.4 * totals[0]
    assert totals[0] <= 100 * (1 << 16)


def streamed(text: str, size: int) -> tuple[str, int, int]:
    """Return what is shown of *text* in pieces of *size*, the most that was held back, and how many were scanned."""
    plugin, shown, kept, state, most, scans = Redact(), "", "", None, 0, 0
    for at in range(0, len(text), size):
        here = kept + text[at : at + size]
        window = plugin.transform_delta(DeltaEvent(Scope(), here, final=at + size >= len(text), state=state))
        scans += window.state != state or bool(window.show)
        shown += window.show
        kept, state = here[len(here) - window.keep :], window.state
        most = max(most, window.keep)
    return shown, most, scans


@pytest.mark.parametrize("text", ["password=" * 900, "a " * 200 + "eyJ" * 300 + "." + "sk-ant-abc" * 100, "x" * 3_000])
def test_a_stream_in_small_pieces_is_looked_into_a_bounded_number_of_times_for_each_character(text: str):
    shown, most, _ = streamed(text, 1)

    assert shown == Engine().redact(text)
    assert most <= WINDOW


def test_what_is_held_back_is_not_looked_into_for_every_character_that_comes():
    _, _, scans = streamed("password=" * 900, 1)

    assert scans <= 900 * 9 / 10


async def in_thread_of(call: Callable[[], Any]) -> set[str]:
    """Return the names of the threads in which a *call* of a hook looked into its texts."""
    seen: set[str] = set()
    redact = Engine.redact

    def noted(self: Engine, text: str) -> str:
        seen.add(threading.current_thread().name)
        return redact(self, text)

    Engine.redact = noted  # type: ignore[method-assign]
    try:
        answer = call()
        if asyncio.iscoroutine(answer):
            await answer
    finally:
        Engine.redact = redact  # type: ignore[method-assign]
    return seen


LONG = "The long text. " * (LARGE // 10)


async def test_a_long_text_is_looked_into_beside_the_event_loop_and_a_short_one_on_it():
    here = threading.current_thread().name
    main = {here}
    seen: dict[str, set[str]] = {}

    for name, text in (("long", LONG), ("short", "short")):
        model = ScriptedModel(text)

        async def turn(text: str = text, model: ScriptedModel = model) -> None:
            async with talking(model=model, plugins=[Redact()]) as session:
                assert (await session.say(text)).text == text

        seen[name] = await in_thread_of(turn)

    assert seen["short"] == main
    assert here not in seen["long"] or len(seen["long"]) > 1


@pytest.mark.parametrize(
    "value",
    [
        LONG, Message.user(LONG), Message.user(tuple(Text("a") for _ in range(LARGE))), {"a": [{"b": LONG}]},
        [1] * LARGE, {str(n): n for n in range(LARGE)}, ToolOutput("", data={"x": [LONG]}),
        ToolOutput("", media=(File(data=LONG),)), (MemoryItem("a", "b", LONG),),
    ],
)  # fmt: skip
def test_what_is_large_is_seen_wherever_it_stands(value: Any):
    assert is_large(value)


SECRET = "pa/ss w+rd?&é<'k"
SHOWN = "[redacted:secret]"


def written() -> list[str]:
    data = SECRET.encode()
    return [
        SECRET, quote(SECRET), quote(SECRET, safe=""), quote_plus(SECRET), urlencode({"": SECRET})[1:],
        quote(SECRET, safe="").replace("%2F", "%2f").replace("%3F", "%3f").replace("%C3%A9", "%c3%a9")
        .replace("%2B", "%2b").replace("%3C", "%3c"),
        json.dumps(SECRET)[1:-1], json.dumps(SECRET).replace("/", "\\/")[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1], html.escape(SECRET), repr(SECRET)[1:-1], data.hex(),
        base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode(),
        *(base64.b64encode(b"user:"[:n] + data + b"more").decode() for n in range(6)),
        *(base64.urlsafe_b64encode(b"user:"[:n] + data + b"?").decode() for n in range(6)),
    ]  # fmt: skip


@pytest.mark.parametrize("text", written())
async def test_a_secret_is_hidden_in_every_way_of_writing_it(text: str, monkeypatch: Any):
    monkeypatch.setenv("ACME", SECRET)
    model = ScriptedModel("ok")
    async with talking(model=model, plugins=[Redact(RedactSettings(secrets=(Secret("env:ACME"),)))]) as session:
        await session.say(f"see: {text} here")
        said = session.history[0].text

    assert SHOWN in said
    assert len(said) <= len(f"see: {SHOWN} here") + 14  # base64 of what stands around it
