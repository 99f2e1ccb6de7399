"""The redactor in a host: no secret reaches a model, a person, a store, a transcript or a record."""

import base64
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from auditing import logs
from pluggent_audit.plugin import Audit
from pluggent_audit.settings import AuditSettings
from pluggent_hookspecs import (
    ConfigError,
    DecisionMade,
    Delta,
    Finished,
    InputEvent,
    MemoryItem,
    Message,
    ModelParameters,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    Role,
    TextDelta,
    ToolFinished,
    ToolOutput,
    TurnStarted,
    deltas,
    hookimpl,
    tool,
)
from pluggent_hookspecs.messages import Audio, File, Image, Reasoning, Refusal, Text, ToolCall, VendorPart
from pluggent_hookspecs.secrets import Secret
from pluggent_host import HostSettings
from pluggent_memory_inmemory.plugin import InMemory
from pluggent_redact.contents import Contents
from pluggent_redact.plugin import Redact
from pluggent_redact.settings import PatternSettings, RedactSettings
from pluggent_redact.stream_engine import Engine
from pluggent_testing.fakes import Recorder, ScriptedEmbedder, ScriptedModel, call
from talking import hosting, talking

KEY = "sk-proj-abcDEF1234567890abcdef"
HIDDEN = "[redacted:openai-key]"


@tool(effects=())
def fetch(what: str) -> ToolOutput:
    """Fetch."""
    media = (File(data="", filename=f"{KEY}.txt"),)
    return ToolOutput(f"got {KEY}", for_user=f"see {KEY}", data={"k": [KEY], "password": "hunter2XyZ"}, media=media)


async def test_no_secret_reaches_the_model_the_person_observers_the_transcript_or_the_audit(tmp_path):
    model, recorder = ScriptedModel(call("fetch", what=KEY), f"it is {KEY}", "again"), Recorder()
    audit = Audit(AuditSettings(folder=str(tmp_path / "audit"), fields="all", redact_arguments=()))
    async with hosting(
        model=model, tools=[fetch], plugins=[Redact(), recorder, audit], state_dir=tmp_path / "state"
    ) as host:
        session = await host.session("s")
        result = await session.say(f"use {KEY}")
        again = await session.say("and?")
        history = session.history

    assert result.text == f"it is {HIDDEN}"
    assert again.text == "again"
    assert KEY not in repr([request.messages for request in model.requests])
    assert history[0].text == f"use {HIDDEN}"
    assert KEY not in repr(recorder.of(TurnStarted)) + repr(recorder.of(ToolFinished))
    (finished,) = recorder.of(ToolFinished)
    assert finished.output.data == {"k": (HIDDEN,), "password": "[redacted:password]"}
    # The tool got what the model wrote: only its call holds the key, in the transcript and the record.
    kept = "".join(path.read_text() for path in [*logs(tmp_path / "audit"), *_files(tmp_path / "state")])
    assert [line for line in kept.splitlines() if KEY in line and '"fetch"' not in line and "fetch" not in line] == []
    assert HIDDEN in kept


async def test_the_name_of_a_tool_that_the_model_made_up_holds_no_secret(tmp_path, caplog):
    made_up = ToolCall("c1", KEY, "{}"), ToolCall("c2", f"get_{KEY}", "{}")
    model, recorder = ScriptedModel(made_up, "done"), Recorder()
    with caplog.at_level("DEBUG"):
        async with hosting(
            model=model,
            tools=[fetch],
            plugins=[Redact(), recorder],
            state_dir=tmp_path,
            config=HostSettings(stream="provisional"),
        ) as host:
            session = await host.session("s")
            async with session.stream("go") as events:
                seen = [event async for event in events]
            history = session.history

    assert [each.name for each in history[1].tool_calls] == ["_redacted_openai-key_", "get__redacted_openai-key_"]
    assert "there is no tool '_redacted_openai-key_'" in history[2].text
    everywhere = [
        *seen,
        history,
        model.requests,
        recorder.events,
        caplog.text,
        *(path.read_text() for path in _files(tmp_path)),
    ]
    assert [each for each in everywhere if KEY in repr(each)] == []


@pytest.mark.parametrize("streamed", [False, True])
async def test_what_a_vendor_adds_to_a_reply_holds_no_secret_in_history_and_transcript(tmp_path, streamed):
    made = Message(Role.ASSISTANT, (Text(f"it is {KEY}"),), extra={"scripted": {"details": [f"see {KEY}"]}})
    tokens = [{"token": KEY[:9]}, {"token": KEY[9:]}]
    reply = ModelResponse(made, extra={"note": KEY, "logprobs": tokens})

    class Adding(ScriptedModel):
        async def complete(self, request: ModelRequest) -> ModelResponse:
            return reply

        async def stream(self, request: ModelRequest) -> AsyncGenerator[tuple[Delta, ...], None]:
            yield deltas(reply)

    recorder = Recorder()
    async with hosting(model=Adding(), plugins=[Redact(), recorder], state_dir=tmp_path) as host:
        session = await host.session("s")
        if streamed:
            async with session.stream("go") as events:
                seen: list[Any] = [event async for event in events]
        else:
            seen = [await session.say("go")]
        history = session.history

    everywhere = [*seen, history, recorder.events, *(path.read_text() for path in _files(tmp_path))]
    assert [each for each in everywhere if KEY in repr(each) or KEY[9:] in repr(each)] == []
    assert history[1].extra == {"scripted": {"details": (f"see {HIDDEN}",)}}


async def test_no_parameter_of_a_request_holds_a_secret():
    schema = {"type": "object", "description": f"as {KEY}"}
    given = ModelParameters(stop=(KEY,), output_schema=schema, extra={"scripted": {"a": KEY}}, metadata={"b": KEY})

    made = Contents(Engine()).parameters(given)

    assert KEY not in repr(made)
    assert (made.stop, made.output_schema) == ((HIDDEN,), {"type": "object", "description": f"as {HIDDEN}"})
    plain = ModelParameters(stop=("x",), output_schema={"type": "object"})
    assert Contents(Engine()).parameters(plain) is plain


async def test_the_log_of_a_tool_that_fails_holds_no_text_that_no_policy_has_seen(caplog):
    @tool(effects=())
    def failing() -> str:
        """Fail."""
        raise ValueError(f"no luck with {KEY}")

    with caplog.at_level("DEBUG"):
        async with hosting(model=ScriptedModel(call("failing"), "done"), tools=[failing], plugins=[Redact()]) as host:
            session = await host.session()
            await session.say("go")

    assert f"no luck with {HIDDEN}" in session.history[2].text
    assert "raised ValueError (at " in caplog.text
    assert KEY not in caplog.text


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix in (".jsonl", ".json")]


async def test_what_a_transform_before_it_changed_is_not_recorded_with_the_secret(tmp_path):
    class Shouting:
        @hookimpl
        def transform_input(self, event: InputEvent) -> Message:
            return Message.user(f"{event.message.text}!")

    recorder = Recorder()
    async with talking(plugins=[Shouting(), Redact(), recorder]) as session:
        await session.say(f"use {KEY}")
        said = session.history[0].text

    assert said == f"use {HIDDEN}!"
    assert [vote for made in recorder.of(DecisionMade) for vote in made.changes]
    assert KEY not in repr(recorder.of(DecisionMade))


class Chunks(ScriptedModel):
    """Streams exactly these pieces, as text and as reasoning."""

    def __init__(self, *pieces: str) -> None:
        super().__init__()
        self.pieces = pieces

    async def stream(self, request: Any) -> AsyncGenerator[Any]:
        for piece in self.pieces:
            yield (ReasoningDelta(piece), TextDelta(piece))
        yield (Finished(),)


async def test_a_stream_comes_as_it_is_written_and_a_key_cut_anywhere_never():
    for size, lines in ((1, 30), (7, 300), (50, 300)):
        pem = (
            "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n" * lines + "-----END PRIVATE KEY-----"
        )
        text = f"The key is {KEY} and {pem} too. "
        seen: list[str] = []
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        async with talking(model=Chunks(*pieces), plugins=[Redact()]) as session, session.stream("go") as events:
            async for event in events:
                assert type(event).__name__ not in ("Discarded", "HookFailed")
                seen.append(getattr(event, "text", "")) if type(event).__name__ == "TextShown" else None

        assert "".join(seen) == f"The key is {HIDDEN} and [redacted:private-key] too. " == events.result.text
        assert len(seen) > 2


async def test_memory_neither_keeps_nor_gives_secrets():
    async with hosting(plugins=[Redact(), InMemory()]) as host:
        memory = host.memory()
        await memory.save([MemoryItem("n", "k", f"remember {KEY}", data={"api_key": "9f8a7b6c5d4e3f2a"})])
        item = await memory.get("n", "k")

    assert item is not None
    assert (item.text, item.data) == (f"remember {HIDDEN}", {"api_key": "[redacted:password]"})


@pytest.mark.parametrize("filler", ["", "x" * 100_000], ids=["short", "long"])
async def test_texts_to_be_embedded_hold_no_secret(filler):
    embedder = ScriptedEmbedder()

    async with hosting(plugins=[Redact(), embedder]) as host:
        await host.embed("scripted/m", ["plain", f"{filler} {KEY}"])

    assert [request.texts for request in embedder.requests] == [("plain", f"{filler} {HIDDEN}")]


async def test_values_of_secrets_are_hidden_in_every_form_and_when_rotated(tmp_path, monkeypatch):
    (tmp_path / "key").write_text('p"ss w/rd\n')
    monkeypatch.setenv("ACME", "acme-value")
    secrets = (Secret("env:ACME"), Secret(f"file:{tmp_path}/key"))
    model = ScriptedModel("one", "two")
    async with talking(model=model, plugins=[Redact(RedactSettings(secrets=secrets))]) as session:
        await session.say('acme-value p"ss w/rd p\\"ss w/rd p%22ss%20w%2Frd cCJzcyB3L3Jk')
        monkeypatch.setenv("ACME", "newer-value")
        await session.say("acme-value newer-value")
        texts = [message.text for message in session.history if message.role == "user"]

    assert texts == ["[redacted:secret] " * 4 + "[redacted:secret]", "[redacted:secret] [redacted:secret]"]


@pytest.mark.parametrize(("value", "problem"), [(None, "ACME is not set"), ("abc", "fewer than 6 characters")])
async def test_a_secret_that_cannot_be_read_or_is_too_short_refuses_to_open(value, problem, monkeypatch):
    if value:
        monkeypatch.setenv("ACME", value)
    with pytest.raises(ConfigError, match=problem) as caught:
        async with hosting(plugins=[Redact(RedactSettings(secrets=(Secret("env:ACME"),)))]):
            pass
    assert "'abc'" not in str(caught.value)


async def test_patterns_and_kinds_are_as_set():
    settings = RedactSettings(off=("openai-key",), patterns=(PatternSettings(kind="staff", match="EMP-[0-9]{6}"),))
    async with talking("EMP-123456 has " + KEY, plugins=[Redact(settings)]) as session:
        assert (await session.say("who?")).text == f"[redacted:staff] has {KEY}"


def test_a_key_that_is_cut_into_parts_is_found():
    pieces = [KEY[at : at + 3] for at in range(0, len(KEY), 3)]
    parts = tuple(part for piece in pieces for part in (Text(piece), Reasoning(piece, "signed")))

    made = Contents(Engine()).reply(Message.assistant((Text("a "), *parts, Text(" b"))))

    assert made.text == f"a {HIDDEN} b"
    assert "".join(part.text for part in made.content if isinstance(part, Reasoning)) == HIDDEN


def test_every_part_of_a_message_is_looked_into():
    contents = Contents(Engine())
    text = base64.b64encode(f"a {KEY}".encode()).decode()
    message = Message(
        "user",
        (
            Text(KEY), Refusal(KEY), Reasoning(KEY, "signed"), Image(url=f"https://a:{KEY}1@b/c"),
            Audio("", transcript=KEY),
            File(data=text, media_type="text/plain", filename=KEY), VendorPart("x", {"a": [KEY]}),
        ),
        (ToolCall("1", "f", json.dumps({"a": f"é\n{KEY}"}).replace("-", "\\u002d")),
         ToolCall("2", "f", f"not JSON {KEY}")),
        extra={"x": {KEY: 1}},
    )  # fmt: skip

    made = contents.message(message)

    assert KEY not in repr(made)
    assert made.content[2] == Reasoning(HIDDEN)
    assert base64.b64decode(str(getattr(made.content[5], "data", ""))) == f"a {HIDDEN}".encode()
    assert json.loads(made.tool_calls[0].arguments) == {"a": f"é\n{HIDDEN}"}
    assert contents.message(message) is made
    assert contents.message(made) == made


@pytest.mark.parametrize("value", [None, 1, 2.5, True, [], {}, {"a": {"b": [None, 1]}}, "x", ["\ud800"]])
def test_what_holds_no_secret_stays_what_it_is(value):
    contents, output = Contents(Engine()), ToolOutput("x", data=value)

    assert contents.output(output) is output


def test_odd_values_are_no_reason_to_raise():
    contents = Contents(Engine())
    deep: Any = KEY
    for _ in range(500):
        deep = [deep]

    assert KEY not in repr(contents.json(deep))
    assert contents.message(Message.user(Text(None))) == Message.user(Text(None))  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    call_ = ToolCall("1", "f", "[" * 100_000 + KEY)
    assert KEY not in contents.message(Message.assistant("", (call_,))).tool_calls[0].arguments


async def test_a_tool_whose_description_holds_a_secret_is_not_offered_to_a_model(caplog):
    @tool(effects=(), description=f"Call it with the key {KEY}.")
    def leaky(what: str) -> str:
        return what

    model = ScriptedModel("one", "two")
    async with talking(model=model, plugins=[Redact()], tools=[fetch, leaky]) as session:
        await session.say("go")
        await session.say("go on")

    assert [[spec.name for spec in request.tools] for request in model.requests] == [["fetch"], ["fetch"]]
    assert caplog.text.count("the tool 'leaky' is not offered to models") == 1
    assert KEY not in caplog.text


def encoded(text: str, encoding: str = "utf-8") -> str:
    return base64.b64encode(text.encode(encoding)).decode()


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        ("text/plain", encoded(KEY)),
        ("Text/Plain", encoded(KEY)),
        ("application/json; charset=utf-8", encoded(KEY)),
        ("application/x-sh", encoded(KEY)),
        ("text/plain", "\n".join([encoded(KEY)[:20], encoded(KEY)[20:]])),
        ("text/plain", encoded(KEY).rstrip("=")),
        ("text/plain", base64.urlsafe_b64encode(f"{KEY} \u00ff\u00fe\u00fd".encode()).decode()),
        ("text/plain", base64.b64encode(KEY.encode() + b"\xff").decode()),
        ("text/plain", encoded(KEY, "utf-16")),
    ],
)
def test_a_file_is_read_as_any_reader_of_it_does(media_type, data):
    made = Contents(Engine()).parts((File(data=data, media_type=media_type),))[0]

    assert isinstance(made, File)
    assert made.data is not None
    shown = base64.b64decode(made.data)
    assert KEY not in shown.decode("utf-8", "replace") + shown.decode("utf-16", "replace")
    assert "redacted" in shown.decode("utf-8", "ignore").replace("\0", "")


@pytest.mark.parametrize("value", [48_151_623_42, {"pin": [4815162342]}, 14815162342.5])
def test_a_secret_that_is_a_number_is_hidden_as_a_number_too(value):
    contents = Contents(Engine(("4815162342",)))

    assert "4815162342" not in json.dumps(contents.json({"data": value}))
    assert contents.json({"n": 7, "yes": True}) == {"n": 7, "yes": True}
