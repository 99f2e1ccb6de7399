"""The MCP Inspector's command line against the real ``pluggent mcp serve``; .ci/run installs it."""

import json

import pytest
from mcp_foreign import EXPORTED, GIVEN, TYPES, Inspector, desktop_file, served_by
from mcp_serving import KEY, over_http


@pytest.fixture(scope="module")
def cli(tmp_path_factory):
    return served_by(tmp_path_factory.mktemp("inspected"))


@pytest.fixture(scope="module")
def inspector(peers_folder, cli):
    return Inspector(peers_folder, cli)


@pytest.fixture(scope="module")
def http(inspector, cli):
    """Return the words that reach a server over HTTP, its token among them."""
    with over_http(cli, *EXPORTED) as served:
        yield (served.url, "--header", f"Authorization: Bearer {served.token}")


@pytest.fixture(scope="module")
def stdio(inspector, cli):
    """Return the words that have the server of a desktop client's file started."""
    return ("--config", str(desktop_file(cli, *EXPORTED)), "--server", "pluggent")


@pytest.fixture(params=["stdio", "http"])
def where(request, stdio, http):
    """Return how the server is reached: over both in turn."""
    return {"stdio": stdio, "http": http}[request.param]


def test_tools_are_listed_with_their_schemas(inspector, where):
    seen = inspector(*where, "--method", "tools/list", "--strict")

    assert seen.code == 0, seen.err
    tools = {tool["name"]: tool for tool in seen.said["result"]["tools"]}
    assert {"facts", "reboot", "typed"} <= tools.keys()
    assert "weather" not in tools
    assert tools["typed"]["description"] == "Say what was given, and of which type it is."
    assert tools["typed"]["inputSchema"]["required"] == list(GIVEN)
    assert tools["facts"]["annotations"]["readOnlyHint"]


def test_arguments_arrive_with_their_types_and_structured_content_comes_back(inspector, where):
    seen = inspector.call(where, "typed", GIVEN)

    assert seen.code == 0, seen.err
    assert seen.said["result"]["content"] == [{"type": "text", "text": TYPES}]
    assert seen.said["result"]["structuredContent"] == {"given": list(GIVEN.values())}


def test_a_tool_that_fails_is_told_as_a_result(inspector, where):
    seen = inspector.call(where, "test_error_handling")

    assert seen.said["result"]["isError"]
    assert "intentionally" in seen.said["result"]["content"][0]["text"]


def test_an_unknown_tool_is_an_error(inspector, where):
    seen = inspector.call(where, "weather")

    assert (seen.code != 0, seen.said) == (True, None)
    assert "weather" in json.loads(seen.err.strip().splitlines()[-1])["error"]["message"]


@pytest.mark.parametrize(
    ("words", "kind", "first"),
    [
        ("resources/list", "resources", {"uri": "test://static-text", "name": "text"}),
        ("resources/templates/list", "resourceTemplates", {"uriTemplate": "test://template/{id}/data", "name": "data"}),
        ("resources/read --uri test://template/7/data", "contents", {"text": '{"id":"7"}'}),
        ("prompts/list", "prompts", {"name": "test_simple_prompt"}),
        (
            "prompts/get --prompt-name test_prompt_with_arguments --prompt-args arg1=one arg2=two", "messages",
            {"role": "user", "content": {"type": "text", "text": "with one and two"}},
        ),
    ],
)  # fmt: skip
def test_resources_and_prompts_are_listed_and_read(inspector, http, words, kind, first):
    seen = inspector(*http, "--method", *words.split())

    assert seen.code == 0, seen.err
    assert seen.said["result"][kind][0].items() >= first.items()


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_both_eras_are_spoken(inspector, where, era):
    seen = inspector.call((*where, "--protocol-era", era), "leak")

    assert seen.code == 0, seen.err
    assert KEY not in json.dumps(seen.said)
    assert seen.said["result"]["structuredContent"] == {"key": "[redacted:secret]"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("word=abc", "count=2", "share=0.5", "sure=true", 'names=["a"]', 'more={"x": 1}'), TYPES),
        (("word=abc", "count=x"), "Error: invalid arguments for 'typed'"),
    ],
)
def test_words_of_its_command_line_are_checked_like_any_arguments(inspector, http, words, says):
    pairs = [part for word in words for part in ("--tool-arg", word)]
    seen = inspector(*http, "--method", "tools/call", "--tool-name", "typed", *pairs)

    assert seen.said["result"]["content"][0]["text"].startswith(says)


def test_without_the_token_nothing_is_answered(inspector, http):
    url, header, value = http

    without = inspector(url, "--method", "tools/list", "--stored-auth-only")
    wrong = inspector(url, header, value[:-1], "--method", "tools/list", "--stored-auth-only")

    for seen in (without, wrong):
        assert (seen.code != 0, seen.said) == (True, None)
        assert json.loads(seen.err.strip().splitlines()[-1])["error"]["code"] == "auth_required"


def test_a_server_that_exports_nothing_ends_with_a_word_to_the_operator(inspector, cli):
    file = desktop_file(cli, "--tools", "nowhere__*")
    seen = inspector("--config", str(file), "--server", "pluggent", "--method", "tools/list")

    assert (seen.code != 0, seen.said) == (True, None)
    assert "nowhere__*" in seen.err
    assert "Traceback" not in seen.err
