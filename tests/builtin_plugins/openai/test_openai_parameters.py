"""Which tools may be called, and the form of the reply, in the words of the API."""

import json

import pytest
from pluggent_hookspecs import AllowedTools, Message, ModelParameters, ModelRequest, ProviderError, ToolSpec
from pluggent_openai.dialects import Dialect
from pluggent_openai.request import Writer
from pluggent_provider_http.server_errors import Faults

ADD = ToolSpec("add", "Adds.")
SHELL = ToolSpec("shell", "Runs.", {"type": "object", "properties": {"input": {"type": "string"}}}, extra={
    "openai": {"type": "custom", "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}}},
})  # fmt: skip


def body(*, tools=(ADD, SHELL), stream=False, dialect=None, **parameters):
    asked = ModelRequest("m", (Message.user("hi"),), tools, ModelParameters(**parameters))
    return json.loads(Writer(dialect or Dialect()).encode(asked, Faults("openai", "http://x/v1"), stream=stream))


def refusal(**given) -> str:
    with pytest.raises(ProviderError) as caught:
        body(**given)
    return str(caught.value)


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
    found = body(tool_choice=choice)

    assert found.get("tool_choice") == sent
    assert len(found["tools"]) == 2


@pytest.mark.parametrize("choice", ["mul", AllowedTools(("add", "mul"))])
def test_a_tool_that_is_not_offered_cannot_be_chosen(choice):
    assert "there is no tool 'mul' among the offered ones (add, shell)" in refusal(tool_choice=choice)


def test_one_of_no_tools_cannot_be_required():
    assert "one of no tools cannot be required" in refusal(tool_choice=AllowedTools((), required=True))


@pytest.mark.parametrize("choice", ["auto", "none", "required", "add", AllowedTools(("add",))])
def test_nothing_about_tools_is_said_without_tools(choice):
    assert sorted(body(tools=(), tool_choice=choice, parallel_tool_calls=False)) == ["messages", "model"]


def test_a_custom_tool_takes_free_text_in_its_own_format():
    assert body()["tools"][1] == {
        "type": "custom",
        "custom": {
            "name": "shell",
            "description": "Runs.",
            "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}},
        },
    }


def test_a_custom_tool_is_a_function_for_servers_that_know_no_others():
    sent = body(dialect=Dialect(custom_tools=False), tool_choice="shell")

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

    (sent,) = body(tools=(tool,))["tools"]

    assert sent["function"] == {
        "name": "add", "parameters": {"type": "object", "properties": {}}, "strict": True, "x": [1],
    }  # fmt: skip


def test_a_declaration_of_the_vendors_own_is_sent_as_it_is():
    tool = ToolSpec("search", extra={"openai": {"type": "builtin_function", "function": {"name": "$web_search"}}})

    assert body(tools=(tool,))["tools"] == [{"type": "builtin_function", "function": {"name": "$web_search"}}]


@pytest.mark.parametrize(
    ("extra", "said"),
    [({"openai": {"name": "b"}}, "'name' is already set"), ({"openai": "strict"}, "tool 'add': expected an object")],
)
def test_what_cannot_be_said_of_a_tool_is_refused_by_name(extra, said):
    assert said in refusal(tools=(ToolSpec("add", extra=extra),))


def test_a_schema_brings_its_name_and_description():
    schema = {"title": "A day", "description": "One day.", "type": "object", "properties": {}}

    assert body(output_schema=schema)["response_format"]["json_schema"] == {
        "name": "A_day", "description": "One day.", "schema": schema, "strict": False,
    }  # fmt: skip
