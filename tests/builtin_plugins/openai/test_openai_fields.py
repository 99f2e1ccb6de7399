"""Parameters in the words of the API: which tools may be called, the form of the reply, and what extra may hold."""

import json

import pytest
from each_of import each_of
from pluggent_hookspecs import (
    AllowedTools,
    Message,
    ModelParameters,
    ModelRequest,
    ProviderError,
    ProviderErrorKind,
    ToolSpec,
)
from pluggent_openai.chat.request import Writer
from pluggent_openai.dialects import Dialect, dialect_for
from pluggent_openai.fields import KNOWN, OWNED
from pluggent_provider_http.server_errors import Faults

FAULTS = Faults("openai", "http://x/v1")


ONE = (ToolSpec("add"),)


def body(*, tools=ONE, stream=False, dialect=None, **parameters):
    asked = ModelRequest("m", (Message.user("hi"),), tools, ModelParameters(**parameters))
    return json.loads(Writer(dialect or Dialect()).encode(asked, FAULTS, stream=stream))


def refusal(**given) -> str:
    with pytest.raises(ProviderError) as caught:
        body(**given)
    assert caught.value.kind is ProviderErrorKind.BAD_REQUEST
    assert not caught.value.retryable
    return str(caught.value)


GOOD = {
    "audio": [{"format": "wav", "voice": "alloy"}, {"format": "mp3", "voice": {"id": "voice_1"}, "new": 1}],
    "logit_bias": [{}, {"7": -100, "8": 1.5}],
    "modalities": [["text"], ["text", "audio"]],
    "moderation": [{"model": "m"}, {"model": "m", "policy": {"input": {"mode": "block"}, "output": {"mode": "score"}}}],
    "n": [1, 9],
    "prediction": [
        {"type": "content", "content": "a"},
        {"type": "content", "content": [{"type": "text", "text": "a"}]},
    ],
    "prompt_cache_key": ["k"],
    "prompt_cache_options": [{}, {"mode": "explicit", "ttl": "30m"}],
    "prompt_cache_retention": ["in_memory", "24h"],
    "safety_identifier": ["u", "x" * 128],
    "store": [True, False],
    "stream_options": [{"include_obfuscation": False}, {"new": 1}],
    "verbosity": ["low"],
    "web_search_options": [{}, {"user_location": {"type": "approximate", "approximate": {"city": "Bern"}}}],
}
BAD = {
    "audio": [("wav", "expected an object"), ({"format": "wav"}, "voice is missing"),
              ({"format": "wav", "voice": {}}, "voice: id is missing"), ({"format": 1, "voice": "a"}, "format: ")],
    "logit_bias": [({"7": 101}, "7: expected a number from -100 to 100, got 101"), ({"7": True}, "got True"),
                   ([], "expected an object of token ids")],
    "modalities": [("text", "expected a list"), ([], "expected a list"), ([1], "expected a list")],
    "moderation": [({}, "model is missing"), ({"model": "m", "policy": {"input": {}}}, "input: mode is missing")],
    "n": [(0, "from 1"), (True, "from 1"), ("2", "from 1")],
    "prediction": [({"type": "text", "content": "a"}, "type: expected 'content'"), ({"type": "content"}, "content is"),
                   ({"type": "content", "content": 7}, "content: expected a text or a list of parts")],
    "prompt_cache_key": [("", "expected a text"), (7, "expected a text")],
    "prompt_cache_options": [({"mode": 1}, "mode: expected a text")],
    "prompt_cache_retention": [(24, "expected a text")],
    "safety_identifier": [("x" * 129, "has 129 characters; 128 is the limit"), ("", "expected a text")],
    "store": [("yes", "expected true or false")],
    "stream_options": [({"include_usage": False}, "include_usage is the provider's"), (1, "expected an object"),
                       ({"include_obfuscation": "no"}, "include_obfuscation: expected true or false")],
    "verbosity": [(1, "expected a text")],
    "web_search_options": [({"user_location": {"type": "exact", "approximate": {}}}, "user_location: type: expected"),
                           ({"user_location": {"type": "approximate"}}, "user_location: approximate is missing")],
}  # fmt: skip


def test_every_known_field_is_tried_here():
    assert set(GOOD) == set(BAD) == set(KNOWN)


@each_of(("name", "value"), [(name, value) for name, values in GOOD.items() for value in values])
def test_a_known_field_is_sent_as_it_is(name, value):
    sent = body(stream=True, extra={name: value})

    assert sent[name] == ({"include_usage": True, **value} if name == "stream_options" else value)


@each_of(("name", "value", "said"), [(name, *case) for name, cases in BAD.items() for case in cases])
def test_what_a_known_field_cannot_hold_is_said_by_name(name, value, said):
    error = refusal(stream=True, extra={name: value})

    assert f"parameters.extra['{name}']: " in error
    assert said in error


@pytest.mark.parametrize("name", OWNED)
def test_a_field_that_belongs_elsewhere_is_refused_with_where(name):
    assert f"parameters.extra['{name}']: {OWNED[name]}" in refusal(extra={name: {}})


def test_an_unknown_field_is_sent_as_it_is():
    assert body(extra={"chat_template_kwargs": {"a": [1, None, {"b": 2.5}]}})["chat_template_kwargs"] == {
        "a": [1, None, {"b": 2.5}]
    }


def test_a_huge_value_is_not_repeated_in_an_error():
    assert len(refusal(extra={"verbosity": ["x" * 10_000] * 100})) < 300


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_json_cannot_say_is_refused_wherever_it_stands(value):
    assert "parameters.extra['deep'].a[1] is" in refusal(extra={"deep": {"a": [1.0, value]}})


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"temperature": 0.5}, ["temperature"]),
        ({"max_output_tokens": 5}, ["max_completion_tokens"]),
        ({"user": "u"}, ["safety_identifier"]),
        ({"logprobs": 2}, ["logprobs", "top_logprobs"]),
        ({"metadata": {"a": "b"}}, ["metadata"]),
        ({"output_schema": {"type": "object"}}, ["response_format"]),
        ({"tool_choice": "required"}, ["tool_choice"]),
    ],
)
def test_a_field_that_is_set_already_is_refused(given, names):
    for name in names:
        assert f"'{name}' is already set by the provider" in refusal(**given, extra={name: "u"})


def test_options_of_a_stream_are_not_sent_without_one():
    extra = {"stream_options": {"include_obfuscation": False}}

    assert "stream_options" not in body(extra=extra)
    assert body(stream=True, extra=extra)["stream_options"] == {"include_usage": True, "include_obfuscation": False}


# ---- limits of the neutral ones ---------------------------------------------------------


def test_metadata_within_the_limits_is_sent():
    metadata = {"k" * 64: "v" * 512, **{f"k{number}": "" for number in range(15)}}

    assert body(metadata=metadata)["metadata"] == metadata


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({f"k{number}": "v" for number in range(17)}, "has 17 pairs; 16 is the limit"),
        ({"k" * 65: "v"}, "the key 'kkkkkkkkkkkkkkkkkkkk'… is over 64 characters long"),
        ({"key": "v" * 513}, "parameters.metadata['key'] is over 512 characters long"),
        ({"key": 7}, "parameters.metadata['key']: expected a text, got 7"),
    ],
)
def test_metadata_over_the_limits_is_refused_by_name(metadata, said):
    assert said in refusal(metadata=metadata)


@pytest.mark.parametrize("count", [0, 1, 20])
def test_log_probabilities_come_with_as_many_alternatives(count):
    sent = body(logprobs=count)

    assert (sent["logprobs"], sent.get("top_logprobs", 0)) == (True, count)


@pytest.mark.parametrize("count", [-1, 21, True, 1.5])
def test_no_other_number_of_alternatives_is_sent(count):
    assert "parameters.logprobs: expected a whole number from 0 to 20" in refusal(logprobs=count)


def test_a_user_whose_id_is_too_long_is_refused_where_there_is_a_limit():
    assert "parameters.user: has 129 characters" in refusal(user="x" * 129)
    assert len(body(user="x" * 129, dialect=dialect_for("http://127.0.0.1:8000/v1"))["user"]) == 129


ADD = ToolSpec("add", "Adds.")
SHELL = ToolSpec("shell", "Runs.", {"type": "object", "properties": {"input": {"type": "string"}}}, extra={
    "openai": {"type": "custom", "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}}},
})  # fmt: skip


def choosing(*, tools=(ADD, SHELL), **given):
    return body(tools=tools, **given)


def refused_choice(*, tools=(ADD, SHELL), **given) -> str:
    return refusal(tools=tools, **given)


FUNCTION = {"type": "function", "function": {"name": "add"}}
CUSTOM = {"type": "custom", "custom": {"name": "shell"}}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", None),
        ("none", "none"),
        ("required", "required"),
        ("add", FUNCTION),
        ("shell", CUSTOM),
        (AllowedTools(("add",)), {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [FUNCTION]}}),
        (
            AllowedTools(("shell", "add"), required=True),
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [CUSTOM, FUNCTION]}},
        ),
        (AllowedTools(()), "none"),
    ],
)
def test_a_choice_of_tools_has_its_form(choice, sent):
    found = choosing(tool_choice=choice)

    assert found.get("tool_choice") == sent
    assert len(found["tools"]) == 2


@pytest.mark.parametrize("choice", ["mul", AllowedTools(("add", "mul"))])
def test_a_tool_that_is_not_offered_cannot_be_chosen(choice):
    assert "there is no tool 'mul' among the offered ones (add, shell)" in refused_choice(tool_choice=choice)


def test_one_of_no_tools_cannot_be_required():
    assert "one of no tools cannot be required" in refused_choice(tool_choice=AllowedTools((), required=True))


@pytest.mark.parametrize("choice", ["auto", "none", "required", "add", AllowedTools(("add",))])
def test_nothing_about_tools_is_said_without_tools(choice):
    assert sorted(choosing(tools=(), tool_choice=choice, parallel_tool_calls=False)) == ["messages", "model"]


def test_a_custom_tool_takes_free_text_in_its_own_format():
    assert choosing()["tools"][1] == {
        "type": "custom",
        "custom": {
            "name": "shell",
            "description": "Runs.",
            "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}},
        },
    }


def test_a_custom_tool_is_a_function_for_servers_that_know_no_others():
    sent = choosing(dialect=Dialect(custom_tools=False), tool_choice="shell")

    assert sent["tools"][1] == {
        "type": "function",
        "function": {
            "name": "shell",
            "description": "Runs.",
            "parameters": {"type": "object", "properties": {"input": {"type": "string"}}},
        },
    }
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "shell"}}


def test_what_else_this_wire_knows_of_a_tool_stands_in_its_function():
    tool = ToolSpec("add", extra={"openai": {"strict": True, "x": [1]}, "other": {"y": 1}})

    (sent,) = choosing(tools=(tool,))["tools"]

    assert sent["function"] == {
        "name": "add", "parameters": {"type": "object", "properties": {}}, "strict": True, "x": [1],
    }  # fmt: skip


def test_a_declaration_of_the_vendors_own_is_sent_as_it_is():
    tool = ToolSpec("search", extra={"openai": {"type": "builtin_function", "function": {"name": "$web_search"}}})

    assert choosing(tools=(tool,))["tools"] == [{"type": "builtin_function", "function": {"name": "$web_search"}}]


@pytest.mark.parametrize(
    ("extra", "said"),
    [({"openai": {"name": "b"}}, "'name' is already set"), ({"openai": "strict"}, "tool 'add': expected an object")],
)
def test_what_cannot_be_said_of_a_tool_is_refused_by_name(extra, said):
    assert said in refused_choice(tools=(ToolSpec("add", extra=extra),))


def test_a_schema_brings_its_name_and_description():
    schema = {"title": "A day", "description": "One day.", "type": "object", "properties": {}}

    assert choosing(output_schema=schema)["response_format"]["json_schema"] == {
        "name": "A_day", "description": "One day.", "schema": schema, "strict": False,
    }  # fmt: skip
