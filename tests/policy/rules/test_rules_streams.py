"""The rules of streams, of what a person sees, and of what records hold: rules 24, 25 and 26."""

from typing import Any

import attrs
import pytest
from each_of import each_of
from pluggent_hookspecs import (
    Ask,
    Deny,
    Discarded,
    FinishReason,
    HookError,
    Image,
    Message,
    ModelResponse,
    ProviderError,
    Reasoning,
    Text,
    TextShown,
    ToolOutput,
    UserNotified,
    tool,
)
from pluggent_host.settings import Grants, HostSettings
from pluggent_testing.fakes import ScriptedModel, call
from policy_rules import deciding, hooked
from policy_stage import Danger, reach, said, watched

PROVISIONAL = HostSettings(stream="provisional")


def upper_response(event: Any) -> Any:
    return attrs.evolve(event.response, message=Message.assistant(event.response.message.text.upper()))


def upper_output(event: Any) -> Any:
    return Message.assistant(event.message.text.upper())


def upper_plugin(hook: str) -> Any:
    if hook == "transform_model_response":
        return hooked(transform_model_response=upper_response)
    return hooked(transform_output=upper_output, is_async=True, marks={"band": "security"})


def fails(event: object) -> None:
    raise ValueError("broken")


result_hooks = each_of("hook", ["transform_model_response", "transform_output"])

# ---- rule 24: streams


@result_hooks
async def test_nothing_of_a_stream_is_shown_before_the_result_hooks_have_decided(hook: str):
    seen = await watched("some private words", plugins=[upper_plugin(hook)])

    assert seen.texts == ["SOME PRIVATE WORDS"]
    assert "private" not in repr((seen.events, seen.on.recorder.events, seen.on.session.records()))


async def test_without_result_hooks_a_stream_is_shown_as_it_comes():
    assert (await watched("some public words")).texts == ["some ", "public ", "words"]


@result_hooks
async def test_provisional_text_is_discarded_when_a_result_hook_changes_it(hook: str):
    seen = await watched("some words", plugins=[upper_plugin(hook)], config=PROVISIONAL)

    assert any(isinstance(event, Discarded) for event in seen.events)
    assert seen.screen == "SOME WORDS"


THOUGHTS = ModelResponse(Message.assistant((Reasoning("private thoughts"),)), FinishReason.STOP)


@each_of("hook", ["decide_model_response", "decide_output"])
@each_of("reply", ["private words", THOUGHTS])
async def test_provisional_text_is_discarded_when_the_reply_is_denied(hook: str, reply: Any):
    assert (await watched(reply, plugins=[deciding(hook, Deny("no"))], config=PROVISIONAL)).screen == ""


@result_hooks
@each_of("config", [PROVISIONAL, HostSettings()])
async def test_a_result_hook_that_fails_leaves_nothing_of_a_stream(hook: str, config: HostSettings):
    seen = await watched("private words", plugins=[hooked(name="Broken", **{hook: fails})], config=config)

    assert isinstance(seen.error, HookError)
    assert "app:broken" in str(seen.error)
    assert seen.screen == ""
    assert "private" not in repr((seen.on.session.history, seen.on.session.records()))
    assert config is PROVISIONAL or "private" not in seen.kept


@each_of("hooks", [{"transform_model_response": upper_response}, {"decide_model_response": Deny("no")},
                   {"transform_output": upper_output}])  # fmt: skip
@each_of("config", [PROVISIONAL, HostSettings()])
@each_of("cut", [1, 2])
async def test_what_came_of_a_broken_stream_passes_the_result_hooks(hooks: Any, config: HostSettings, cut: int):
    model = ScriptedModel("some private words", cut=cut)
    model.name = "cut"

    seen = await watched(plugins=[model, hooked(**hooks)], config=config, model="cut/m")

    assert isinstance(seen.error, ProviderError)
    assert "private" not in repr((seen.screen, seen.on.session.history, seen.on.session.records()))
    assert config is PROVISIONAL or "private" not in seen.kept


# ---- rule 25: everything a person sees

SERVE = "app:tools:tool/serve"


async def served(*plugins: object, granted: bool = False, **output: Any) -> Any:
    """Return the stage and the result of a turn with a tool that has something for the person."""

    @tool(effects=())
    async def serve() -> ToolOutput:
        """Serve the person."""
        return ToolOutput("for the model", for_user="private words", media=(Image(url="private.png"),), **output)

    config = HostSettings(grants=Grants(handled=(SERVE,) if granted else ()))
    on, result = await said(call("serve"), "after", tools=[serve], plugins=plugins, config=config)
    return on, result, on.recorder.of(UserNotified)


async def test_what_a_tool_has_for_the_person_passes_the_output_hooks():
    redacted = Message.assistant("redacted")
    redactor = hooked(transform_output=lambda event: redacted if event.source == SERVE else None)

    _, _, (told,) = await served(redactor)

    assert (told.message.text, told.message.content, told.source) == ("redacted", (Text("redacted"),), SERVE)


@each_of("answer", [Deny("no"), Ask("may I?"), True])
async def test_what_a_tool_has_for_the_person_can_be_denied(answer: object):
    def decide(event: Any) -> object:
        return answer if event.message.text == "private words" else None

    assert (await served(hooked(decide_output=decide)))[2] == []


@each_of("granted", [False, True])
async def test_handled_and_silent_count_only_with_the_operators_grant(granted: bool):
    on, result, _ = await served(granted=granted, handled=True)
    *_, told = await served(granted=granted, silent=True)

    assert (result.why, len(on.model.requests)) == (("handled", 1) if granted else ("completed", 2))
    assert bool(told) is not granted


async def test_a_handled_output_passes_the_output_hooks_although_no_model_call_follows():
    _, result, told = await served(deciding("decide_output", Deny("not for people")), granted=True, handled=True)

    assert told == []
    assert "private" not in result.text


async def test_the_words_beside_a_tool_call_pass_the_output_hooks_too():
    reply = ModelResponse(Message.assistant("private words", (call("quiet"),)), FinishReason.TOOL_CALLS)

    plugins = [upper_plugin("transform_output")]
    on, _ = await said(reply, "fine words", tools=Danger().tools(), plugins=plugins)

    assert [shown.text for shown in on.recorder.of(TextShown)] == ["PRIVATE WORDS", "FINE WORDS"]


# ---- rule 26: what records hold


async def test_what_a_redactor_removed_stands_in_no_record():
    danger = Danger()

    def edits(edit: Any, **marks: Any) -> Any:
        return hooked(
            name=f"Edits{len(marks)}", marks=marks,
            transform_input=lambda event: Message.user(edit(event.message.text)),
            transform_tool_call=lambda event: {"path": edit(event.arguments["path"])},
        )  # fmt: skip

    plugins = [edits(str.strip), edits(lambda text: text.replace("secret", "***"), band="security")]
    on, _ = await said(call("danger", path=" secret "), text=" my secret ", plugins=plugins, tools=danger.tools())

    assert danger.ran == ["***"]
    decided = [entry for entry in on.session.records() if type(entry).__name__ == "Decided"]
    assert decided
    assert "secret" not in repr((on.decisions(), decided))


@pytest.mark.parametrize(
    ("band", "change"),
    [("security", (("path",), None, None)), ("normal", (("path",), {"path": "x"}, {"path": "y"}))],
)
async def test_the_change_of_a_security_transform_names_paths_and_no_values(band: str, change: object):
    seen = await reach("say", [hooked(name="Rewriter", marks={"band": band}, transform_tool_call={"path": "y"})])

    (made,) = [change for made in seen.decisions for change in made.changes]
    assert (made.plugin, (made.paths, made.before, made.after)) == ("app:rewriter", change)
