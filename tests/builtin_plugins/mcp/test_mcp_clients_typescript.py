"""The official client of TypeScript against the real ``pluggent mcp serve``; .ci/run installs it."""

import pytest
from mcp_foreign import EXPORTED, GIVEN, TYPES, TypeScript, served_by
from mcp_serving import KEY, over_http

WAYS = pytest.mark.parametrize(
    ("pipe", "mode", "version"), [("stdio", "auto", "2026-07-28"), ("http", "legacy", "2025-11-25")]
)
"""Each pipe and each era once: to start a Node costs a second."""
STEPS = ([0, 100], [50, 100], [100, 100])
"""What the tool with progress tells."""


@pytest.fixture(scope="module")
def cli(tmp_path_factory):
    return served_by(tmp_path_factory.mktemp("typescript"))


@pytest.fixture(scope="module")
def client(peers_folder, cli):
    return TypeScript(peers_folder, cli)


@pytest.fixture(scope="module")
def served(client, cli):
    with over_http(cli, *EXPORTED) as running:
        yield running


@pytest.fixture
def taken(client, served):
    """Return a function that takes steps over a pipe or over HTTP and returns what came of them."""

    def take(pipe, mode, *steps):
        seen = client.over_stdio(*steps, mode=mode) if pipe == "stdio" else client.over_http(served, *steps, mode=mode)
        assert (seen.code, "Traceback" in seen.err) == (0, False), seen.err
        return seen.said

    return take


@WAYS
def test_tools_are_listed_and_called_in_both_eras(taken, pipe, mode, version):
    calls = [{"call": name} for name in ("facts", "several", "leak", "test_multiple_content_types")]
    said = taken(pipe, mode, [{"ask": "tools/list", "params": {}}], calls, [{"call": "typed", "arguments": GIVEN}])

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
        [{"ask": "resources/read", "params": {"uri": uri}} for uri in ("sealed://door", "test://nothing")],
        [{"ask": "prompts/get", "params": given}, {"ask": "prompts/get", "params": {"name": "leak"}}],
    )  # fmt: skip

    ((resources, templates, prompts), (words, picture), (sealed, lost), (prompt, leak)) = said["came"]
    assert (said["version"], {"resources", "prompts"} <= said["capabilities"].keys()) == (version, True)
    # That client reads all pages of a list.
    assert len(resources["result"]["resources"]) == 253
    assert [each["name"] for each in templates["result"]["resourceTemplates"]] == ["data"]
    assert "test_simple_prompt" in [each["name"] for each in prompts["result"]["prompts"]]
    assert words["result"]["contents"][0]["text"] == "This is the content of the static text resource."
    assert picture["result"]["contents"][0]["mimeType"] == "image/png"
    assert "the door is closed" in sealed["error"]
    assert lost["kind"] == "ResourceNotFoundError"
    assert prompt["result"]["messages"][0]["content"]["text"] == "with one and two"
    assert KEY not in str(leak)


@pytest.mark.parametrize("pipe", ["stdio", "http"])
def test_what_goes_wrong_is_told_apart(taken, pipe):
    calls = [
        {"call": "nobody"},
        {"call": "test_error_handling"},
        {"call": "facts", "arguments": {"more": 1}},
        {"call": "forbidden"},
        {"call": "reboot"},
    ]  # fmt: skip
    said = taken(pipe, "auto", calls)

    ((unknown, *failed),) = said["came"]
    assert (unknown["code"], unknown["error"]) == (-32_602, "Unknown tool: nobody")
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
