"""The MCP Inspector and the official client of TypeScript against ``pluggent mcp serve``; .ci/run installs them."""

import json

import pytest
from mcp_foreign import EXPORTED, GIVEN, TYPES, Inspector, TypeScript, desktop_file, served_by
from mcp_serving import KEY, over_http


@pytest.fixture(scope="module")
def cli(tmp_path_factory):
    return served_by(tmp_path_factory.mktemp("inspected"))


@pytest.fixture(scope="module")
def inspector(peers_folder, cli):
    return Inspector(peers_folder, cli)


@pytest.fixture(scope="module")
def served(cli):
    with over_http(cli, *EXPORTED) as running:
        yield running


@pytest.fixture(scope="module")
def http(inspector, served):
    """Return the words that reach a server over HTTP, its token among them."""
    return (served.url, "--header", f"Authorization: Bearer {served.token}")


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
    file = desktop_file(cli, "--tools", "nowhere__*", fresh=True)
    seen = inspector("--config", str(file), "--server", "pluggent", "--method", "tools/list")

    assert (seen.code != 0, seen.said) == (True, None)
    assert "nowhere__*" in seen.err
    assert "Traceback" not in seen.err


WAYS = pytest.mark.parametrize(
    ("pipe", "mode", "version"), [("stdio", "auto", "2026-07-28"), ("http", "legacy", "2025-11-25")]
)
"""Each pipe and each era once: to start a Node costs a second."""
STEPS = ([0, 100], [50, 100], [100, 100])
"""What the tool with progress tells."""


@pytest.fixture(scope="module")
def client(peers_folder, cli):
    return TypeScript(peers_folder, cli)


@pytest.fixture
def taken(client, served):
    """Return a function that takes steps over a pipe or over HTTP and returns what came of them."""

    def take(pipe, mode, *steps, fresh=False):
        if pipe == "stdio":
            seen = client.over_stdio(*steps, mode=mode, fresh=fresh)
        else:
            seen = client.over_http(served, *steps, mode=mode)
        assert (seen.code, "Traceback" in seen.err) == (0, False), seen.err
        return seen.said

    return take


@WAYS
def test_tools_are_listed_and_called_in_both_eras(taken, pipe, mode, version):
    calls = [{"call": name} for name in ("facts", "several", "leak", "test_multiple_content_types")]
    steps = ([{"ask": "tools/list", "params": {}}], calls, [{"call": "typed", "arguments": GIVEN}])
    said = taken(pipe, mode, *steps, fresh=True)

    ((listed,), (facts, several, leak, mixed), (typed,)) = said["came"]
    tools = {tool["name"]: tool for tool in listed["result"]["tools"]}
    assert (said["version"], said["server"]["name"]) == (version, "pluggent")
    assert tools["typed"]["inputSchema"]["required"] == list(GIVEN)
    assert tools["reboot"]["annotations"]["destructiveHint"]
    assert facts["result"]["structuredContent"] == {"degrees": 22}
    assert several["result"].get("structuredContent") == ([1, 2] if version == "2026-07-28" else None)
    assert KEY not in str(leak)
    assert [block["type"] for block in mixed["result"]["content"]] == ["text", "image", "resource", "resource_link"]
    assert typed["result"]["structuredContent"] == {"given": list(GIVEN.values())}
    assert typed["result"]["content"] == [{"type": "text", "text": TYPES}]


@WAYS
def test_progress_side_by_side_and_giving_up_work_in_both_eras(taken, pipe, mode, version):
    said = taken(
        pipe, mode, [{"call": "test_tool_with_progress"}], [{"call": "meet"}, {"call": "meet"}],
        [{"call": "forever", "leave": True}], [{"call": "was_cancelled"}],
    )  # fmt: skip

    ((told,), both, (left,), (over,)) = said["came"]
    # That client may lose what arrives together with the answer; what does not end loses nothing, see below.
    assert tuple(told["progress"]) == STEPS[: len(told["progress"])]
    assert told["result"]["content"] == [{"type": "text", "text": "done"}]
    assert [each["result"]["content"][0]["text"] for each in both] == ["met", "met"]
    assert left["progress"] == [[1, None]]
    assert "enough" in left["error"]
    assert over["result"]["content"][0]["text"] == "it was"


@WAYS
def test_resources_and_prompts_are_listed_and_read_in_both_eras(taken, pipe, mode, version):
    given = {"name": "test_prompt_with_arguments", "arguments": {"arg1": "one", "arg2": "two"}}
    lists = [{"ask": f"{each}/list", "params": {}} for each in ("resources", "resources/templates", "prompts")]
    said = taken(
        pipe, mode, lists,
        [{"ask": "resources/read", "params": {"uri": f"test://{name}"}} for name in ("static-text", "static-binary")],
        [{"ask": "resources/read", "params": {"uri": uri}} for uri in ("sealed://letter", "test://nothing")],
        [{"ask": "prompts/get", "params": given}, {"ask": "prompts/get", "params": {"name": "leak"}}],
    )  # fmt: skip

    ((resources, templates, prompts), (words, picture), (sealed, lost), (prompt, leak)) = said["came"]
    assert (said["version"], {"resources", "prompts"} <= said["capabilities"].keys()) == (version, True)
    # That client reads all pages of a list.
    assert len(resources["result"]["resources"]) == 253
    assert [each["name"] for each in templates["result"]["resourceTemplates"]] == ["data", "more"]
    assert "test_simple_prompt" in [each["name"] for each in prompts["result"]["prompts"]]
    assert words["result"]["contents"][0]["text"] == "This is the content of the static text resource."
    assert picture["result"]["contents"][0]["mimeType"] == "image/png"
    assert "the letter is sealed" in sealed["error"]
    assert lost["kind"] == "ResourceNotFoundError"
    assert prompt["result"]["messages"][0]["content"]["text"] == "with one and two"
    assert KEY not in str(leak)


@pytest.mark.parametrize("pipe", ["stdio", "http"])
def test_what_goes_wrong_is_told_apart(taken, pipe):
    calls = [
        {"call": "absent"},
        {"call": "test_error_handling"},
        {"call": "facts", "arguments": {"more": 1}},
        {"call": "forbidden"},
        {"call": "reboot"},
    ]  # fmt: skip
    said = taken(pipe, "auto", calls)

    ((unknown, *failed),) = said["came"]
    assert (unknown["code"], unknown["error"]) == (-32_602, "Unknown tool: absent")
    words = [each["result"]["content"][0]["text"] for each in failed]
    assert [each["result"]["isError"] for each in failed] == [True] * 4
    assert "intentionally" in words[0]
    assert "invalid arguments" in words[1]
    assert words[2] == "Denied: not over this wire"
    assert "under [effects]" in words[3]


@pytest.mark.parametrize(("mode", "says"), [("auto", "HTTP 401"), ("legacy", "expected Authorization: Bearer")])
def test_without_the_token_it_does_not_connect(client, served, mode, says):
    seen = client.over_http(served._replace(token="wrong-horse-battery"), mode=mode)

    assert (seen.code, seen.said) == (1, None)
    assert says in seen.err
