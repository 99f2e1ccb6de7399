"""The model of a client, asked by tools that ``pluggent mcp serve`` runs for it: one model, under all policies."""

import asyncio
import json
import sys

import pytest
from mcp.shared.exceptions import MCPError
from mcp_serving import WAIT_S, client_of, over_http
from mcp_serving_sites import GRANT, YES, Model, Person, asking_site, client
from mcp_types import CreateMessageResult, ErrorData, ImageContent, ModelHint, ModelPreferences, TextContent
from mcp_using import PEER

WAYS = pytest.mark.parametrize(
    ("wire", "mode"), [("stdio", "auto"), ("stdio", "legacy"), ("http", "auto"), ("http", "legacy")]
)
ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
CLIENTS = 'model = "mcp-client/any"\n'


def said(words, stop="endTurn", model="m1"):
    return CreateMessageResult(role="assistant", content=TextContent(text=words), model=model, stop_reason=stop)


def text(result):
    return result.content[0].text


@WAYS
async def test_a_tool_asks_the_model_of_the_client_that_called_it(wire, mode, tmp_path):
    model = Model(said("It will rain."))
    async with client(wire, asking_site(tmp_path, CLIENTS), mode, sampling_callback=model) as connected:
        result = await connected.call_tool("think", {"about": "rain?", "system": "be brief", "most": 99})

    (asked,) = model.asked
    assert text(result) == "m1/stop: It will rain."
    assert [(each.role, each.content) for each in asked.messages] == [("user", TextContent(text="rain?"))]
    assert (asked.system_prompt, asked.max_tokens, asked.model_preferences) == ("be brief", 99, None)


@ERAS
async def test_another_name_than_any_is_a_hint(mode, tmp_path):
    model, cli = Model(said("short", "maxTokens")), asking_site(tmp_path, 'model = "mcp-client/large"\n')
    async with client("stdio", cli, mode, sampling_callback=model) as connected:
        result = await connected.call_tool("think", {})

    assert text(result) == "m1/length: short"
    assert model.asked[0].model_preferences == ModelPreferences(hints=[ModelHint(name="large")])


@ERAS
async def test_a_client_that_offers_no_sampling_is_not_asked(mode, tmp_path):
    async with client("stdio", asking_site(tmp_path, CLIENTS), mode) as connected:
        result = await connected.call_tool("think", {})

    assert result.is_error
    assert "mcp-client: there is no client to ask" in text(result)


async def test_the_model_of_a_client_is_not_asked_unless_the_operator_chose_it(tmp_path):
    model = Model(said("never"))
    async with client("stdio", asking_site(tmp_path, ""), "auto", sampling_callback=model) as connected:
        await connected.call_tool("think", {})

    assert model.asked == []


@ERAS
async def test_two_clients_at_once_are_each_asked_about_their_own_calls(mode, tmp_path):
    meeting = asyncio.Barrier(2)

    class Meeting(Model):
        async def __call__(self, context, params):
            await meeting.wait()
            return await super().__call__(context, params)

    models = {word: Meeting(said(f"of {word}")) for word in ("one", "two")}
    with over_http(asking_site(tmp_path, CLIENTS), "--tools", "acme") as served:
        async with (
            asyncio.timeout(WAIT_S),
            client_of(served, mode, sampling_callback=models["one"]) as first,
            client_of(served, mode, sampling_callback=models["two"]) as second,
        ):
            results = await asyncio.gather(
                first.call_tool("think", {"about": "one"}), second.call_tool("think", {"about": "two"})
            )

    assert [text(result) for result in results] == ["m1/stop: of one", "m1/stop: of two"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (ErrorData(code=-1, message="User rejected\u202e it"), "mcp-client: the client says: User rejected  it"),
        (ErrorData(code=-32603, message="x" * 9_000), f"mcp-client: the client says: {'x' * 300}"),
    ],
)
async def test_what_a_client_refuses_is_an_error_of_the_model_asked_once(answer, says, tmp_path):
    model, cli = Model(answer, said("second")), asking_site(tmp_path, CLIENTS)
    async with client("stdio", cli, "legacy", sampling_callback=model) as connected:
        result = await connected.call_tool("think", {})

    assert (result.is_error, len(model.asked)) == (True, 1)
    assert says in text(result)
    assert "x" * 301 not in text(result)


async def test_a_client_that_never_comes_back_with_its_answer_does_not_hold_up_another_call(tmp_path):
    model = Model(ErrorData(code=-1, message="no"), said("yes"))
    async with client("stdio", asking_site(tmp_path, CLIENTS), "auto", sampling_callback=model) as connected:
        with pytest.raises(MCPError, match="no"):  # the SDK's client gives the call up, and says nothing
            await connected.call_tool("think", {})
        result = await connected.call_tool("think", {})

    assert text(result) == "m1/stop: yes"


async def test_what_sampling_does_not_have_is_refused_before_the_client_is_asked(tmp_path):
    model = Model()
    async with client("stdio", asking_site(tmp_path, CLIENTS), "auto", sampling_callback=model) as connected:
        result = await connected.call_tool("think", {"top_p": 0.5})

    assert "a client cannot be asked with top_p" in text(result)


async def test_a_policy_on_model_calls_decides_before_the_client_is_asked(tmp_path):
    rule = 'id = "no"\ndecision = "deny"\non = "model_request"\nwhen.provider = "mcp-client"\n'
    deny = f"[[plugins.pluggent-permissions.rules]]\n{rule}"
    model = Model(said("never"))
    async with client("stdio", asking_site(tmp_path, CLIENTS + deny), "auto", sampling_callback=model) as connected:
        result = await connected.call_tool("think", {})

    assert "this is not allowed here" in text(result)
    assert model.asked == []


@ERAS
async def test_a_picture_for_an_answer_and_a_model_with_a_strange_name_do_no_harm(mode, tmp_path):
    answer = CreateMessageResult(
        role="assistant", content=ImageContent(data="AAAA", mime_type="image/png"), model="m\x00\u202e" + "n" * 999
    )
    cli, model = asking_site(tmp_path, CLIENTS), Model(answer)
    async with client("stdio", cli, mode, sampling_callback=model) as connected:
        result = await connected.call_tool("think", {})

    assert text(result) == "m  " + "n" * 297 + "/other: "


@ERAS
async def test_a_server_behind_that_samples_asks_the_person_and_then_the_model_of_the_client(mode, tmp_path):
    behind = f"[plugins.pluggent-mcp.mcpServers.one]\ncommand = {sys.executable!r}\nargs = {[str(PEER)]!r}\n"
    cli = asking_site(tmp_path, f"{CLIENTS}{GRANT}{behind}effects = {{ '*' = [] }}\n")
    model, person = Model(said("yes and no")), Person(YES)
    async with client("stdio", cli, mode, person, "one__sample", sampling_callback=model) as connected:
        result = await connected.call_tool("one__sample", {})

    (approved,) = person.asked
    assert "wants to ask the model: the MCP server 'one' wants to ask the model" in approved.message
    assert "the MCP client that made the call" in approved.message
    assert json.loads(text(result))["content"]["text"] == "yes and no"
    assert len(model.asked) == 1
