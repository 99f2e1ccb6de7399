"""Tools that run at the vendor, its requests for approval, and compactions: what is sent, read and sent back."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from pluggent_hookspecs import (
    HOSTED_APPROVED,
    HostedTool,
    Message,
    ModelRequest,
    ProviderError,
    Text,
    ToolCall,
    ToolSpec,
    Usage,
    VendorPart,
)
from pluggent_openai.chat.request import Writer as ChatWriter
from pluggent_openai.dialects import Dialect
from pluggent_openai.server_tools import prices
from pluggent_openai.settings import Server
from responses_server import (
    CREATED,
    FAULTS,
    SERVER,
    added,
    call,
    done,
    end,
    message,
    reply_of,
    search,
    sent,
    sse,
    text,
    thought,
    whole,
)

SEARCH = {"type": "web_search", "search_context_size": "low"}
WIKI = {"type": "mcp", "server_label": "wiki", "server_url": "https://wiki.example/mcp"}
USER = Message.user("hi")
HELLO = message(text("Hello"))
ASKS = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "wiki", "name": "read", "arguments": '{"a":1}'}
RAN = {"type": "mcp_call", "id": "mcp_1", "server_label": "wiki", "name": "read", "arguments": '{"a":1}',
       "approval_request_id": "mcpr_1", "output": "page", "error": None, "status": "completed"}  # fmt: skip
PACKED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "packed"}


def items(*messages: Message, **more: Any) -> list[Any]:
    body, _ = sent(messages, **more)
    return list(body["input"])


def asked(*output: Any) -> tuple[Message, ToolCall]:
    """Return a reply in which the vendor asks for a call, behind *output*, and that call."""
    reply = whole(*output, ASKS).message
    return reply, reply.tool_calls[-1]


# ---- the setting -----------------------------------------------------------------------------


def test_a_request_has_the_tools_that_it_may_have_and_a_server_of_tools_asks_before_each_call():
    body, _ = sent([USER], server_tools=[SEARCH, WIKI], tools=[ToolSpec("add")])

    assert [tool["type"] for tool in body["tools"]] == ["function", "web_search", "mcp"]
    assert body["tools"][1:] == [SEARCH, {**WIKI, "require_approval": "always"}]
    assert "tools" not in sent([USER], server_tools=[SEARCH], hosted=())[0]


@pytest.mark.parametrize(
    "hosted", [HostedTool("openai:hosted/web_search"), HostedTool("openai:hosted/code_interpreter")]
)
def test_a_tool_that_is_not_set_up_so_is_refused(hosted):
    with pytest.raises(ProviderError, match="is not set up here"):
        sent([USER], server_tools=[SEARCH], hosted=[hosted])


@pytest.mark.parametrize("kind", ["web_search", "mcp", "code_interpreter", "shell", "new_7f3a"])
def test_no_tool_of_a_plugin_can_be_one_that_runs_at_the_vendor(kind):
    with pytest.raises(ProviderError, match="server_tools"):
        sent([USER], tools=[ToolSpec("x", extra={"openai_responses": {"type": kind}})])


def test_tools_that_the_vendor_describes_and_that_run_here_are_declared_as_they_are():
    extra = {"openai_responses": {"type": "shell", "environment": {"type": "local"}}}

    assert sent([USER], tools=[ToolSpec("x", extra=extra)])[0]["tools"] == [extra["openai_responses"]]


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([{}], "has a type"),
        ([{"type": "function"}], "runs here"),
        ([SEARCH, {"type": "web_search"}], "two called 'web_search'"),
        ([{"type": "mcp", "server_url": "https://x"}], "server_label"),
        ([{"type": "mcp", "server_label": "a b", "server_url": "https://x"}], "server_label"),
        ([{"type": "mcp", "server_label": "wiki"}], "server_url or a connector_id"),
        ([{**SEARCH, "price_usd": -1}], "price_usd"),
        ([{**WIKI, "require_approval": "never"}], "leave out require_approval"),
        ([{**WIKI, "authorization": "s3cret-7f3a"}], "never as itself"),
    ],
)
def test_a_setting_that_would_go_around_the_policies_is_refused(tools, words):
    with pytest.raises(ValueError, match=words) as caught:
        Server(base_url=SERVER, server_tools=tools)

    assert "7f3a" not in str(caught.value)


def test_what_says_who_asks_is_read_for_each_request_and_shown_nowhere(monkeypatch):
    wiki = {**WIKI, "authorization": "env:WIKI_TOKEN", "headers": {"X-Key": "env:WIKI_TOKEN"}}
    monkeypatch.setenv("WIKI_TOKEN", "s3cret-7f3a")

    (tool,) = sent([USER], server_tools=[wiki])[0]["tools"]

    assert (tool["authorization"], tool["headers"]) == ("s3cret-7f3a", {"X-Key": "s3cret-7f3a"})
    assert "7f3a" not in repr(Server(base_url=SERVER, server_tools=[wiki]))


def test_settings_are_fields_of_each_request_that_does_not_say_otherwise():
    fields = {"store": True, "context_management": [{"type": "compaction", "compact_threshold": 9_000}]}

    assert fields.items() <= sent([USER], fields=fields)[0].items()
    assert sent([USER], fields=fields, extra={"store": False})[0]["store"] is False
    with pytest.raises(ValueError, match="compaction"):
        Server(base_url=SERVER, compaction=999)


# ---- what the vendor's tools did -------------------------------------------------------------


def test_what_the_vendors_tools_did_is_kept_in_its_place_named_and_counted():
    output = [thought("hm"), search(), search("ws_2"), RAN, HELLO]

    reply = whole(*output)

    kept = [part for part in reply.message.content if isinstance(part, VendorPart)]
    assert [part.hosted for part in kept] == ["web_search", "web_search", "mcp/wiki"]
    assert reply.meta.notes == (
        "the vendor ran web_search 2 times, mcp/wiki, which it may charge for beside the tokens",
    )
    assert [item["type"] for item in items(USER, reply.message)[1:]] == [item["type"] for item in output]


def test_the_vendors_items_do_not_go_to_another_server_nor_without_the_thinking_that_led_to_them():
    reply = whole(thought("hm"), search(), HELLO).message
    changed = attrs.evolve(reply, content=(*reply.content[:-1], Text("Bye")))

    ways: list[tuple[Message, dict[str, Any]]] = [
        (reply, {"server": "https://x/v1"}), (reply, {"thinking": False}), (changed, {}),
    ]  # fmt: skip
    for said, more in ways:
        body, made = sent([USER, said], **more)
        assert [item.get("content") for item in body["input"]] == ["hi", said.text]
        assert "thinking of one earlier reply" in made.notes[0]
        assert "items of the vendor in one earlier reply" in made.notes[1]


def test_a_call_that_has_a_price_is_in_the_usage():
    tools = Server(base_url=SERVER, server_tools=[{**SEARCH, "price_usd": 0.01}, WIKI]).server_tools

    usage = whole(search(), search("ws_2"), RAN, HELLO, prices=prices(tools), usage={"input_tokens": 3}).usage

    assert usage == Usage(input=3, hosted_usd=0.02)
    assert (usage + usage).hosted_usd == 0.04
    assert whole(HELLO, prices=prices(tools)).usage == Usage()
    assert "price_usd" not in sent([USER], server_tools=[{**SEARCH, "price_usd": 0.01}])[0]["tools"][0]


# ---- calls that need an approval -------------------------------------------------------------


def test_a_request_for_approval_is_a_call_whole_and_streamed():
    reply = whole(ASKS)
    wanted = ToolCall(
        "mcpr_1", "read", '{"a":1}', {"openai_responses": {"type": "mcp_approval_request", "server_label": "wiki"}},
        "mcp/wiki",
    )  # fmt: skip

    assert reply.message.tool_calls == (wanted,)
    assert reply.finish_reason == "tool_calls"
    assert reply_of(sse(CREATED), sse(done(0, ASKS)), sse(end(ASKS))).message == reply.message


@pytest.mark.parametrize("other", [{"name": "delete"}, {"server_label": "bad"}, {"id": "mcpr_2"}], ids=str)
def test_a_call_that_ends_as_another_than_it_began_is_no_reply(other):
    with pytest.raises(ProviderError, match="began"):
        reply_of(sse(CREATED), sse(added(0, ASKS)), sse(done(0, ASKS | other)), sse(end(ASKS | other)))


def test_an_approval_is_sent_once_as_the_answer_to_its_request():
    reply, made = asked(thought("hm"))

    told = items(USER, reply, Message.tool(made, HOSTED_APPROVED))

    assert told[1]["type"] == "reasoning"
    assert told[2] == ASKS
    assert told[3] == {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}


@pytest.mark.parametrize(
    "result",
    [
        {"content": "Denied: not today", "is_error": True},
        {"content": HOSTED_APPROVED, "is_error": True},
        {"content": "a policy's own answer"},
        {"content": f"{HOSTED_APPROVED} "},
    ],
)
def test_any_other_result_refuses_and_tells_why(result):
    reply, made = asked()

    told = items(USER, reply, Message.tool(made, **result))

    assert (told[2]["approve"], told[2]["reason"]) == (False, result["content"])
    assert items(USER, reply)[2]["approve"] is False


def test_calls_of_both_kinds_have_their_answers():
    reply, made = asked(call())

    told = items(USER, reply, Message.tool(reply.tool_calls[0], "3"), Message.tool(made, HOSTED_APPROVED))

    assert [item["type"] for item in told[1:]] == [
        "function_call", "mcp_approval_request", "function_call_output", "mcp_approval_response",
    ]  # fmt: skip
    assert told[-1]["approve"] is True


def test_an_approval_counts_later_only_for_a_call_that_was_made():
    reply, made = asked()
    before = (USER, reply, Message.tool(made, HOSTED_APPROVED))

    after, broken = items(*before, whole(RAN, HELLO).message, USER), items(*before, USER)

    assert (after[2]["approve"], after[3]["type"]) == (True, "mcp_call")
    assert broken[2]["approve"] is False
    assert "not known" in broken[2]["reason"]


def test_an_approval_is_never_sent_for_a_request_that_was_changed_or_to_another_server():
    reply, made = asked(HELLO)
    forged = attrs.evolve(reply, tool_calls=(attrs.evolve(made, arguments='{"a":2}'),))
    result = Message.tool(made, HOSTED_APPROVED)

    for told in (items(USER, forged, result), items(USER, reply, result, server="https://x/v1")):
        assert told == [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello"}]


# ---- compaction ------------------------------------------------------------------------------


def compacted(*messages: Message) -> Message:
    """Return the reply to *messages* in which the vendor sums them up."""
    return whole(PACKED, HELLO, asked=ModelRequest("m", messages)).message


def test_what_a_compaction_stands_for_is_not_sent_again():
    rules, first, other = Message.system("Be brief."), Message.user("one"), Message.assistant("two")

    body, made = sent([rules, first, other, USER, compacted(rules, first, other, USER), USER])

    assert [item.get("type", item.get("role")) for item in body["input"]] == ["system", "compaction", "message", "user"]
    assert made.notes == ("3 earlier messages were not sent again: a compaction stands for them",)
    again, _ = sent([Message.system("Be kind."), first, other, USER, compacted(first, other, USER), USER])
    assert again["input"][0]["content"] == "Be kind."


def test_a_compaction_of_what_has_changed_since_is_left_out_and_all_is_sent():
    reply = compacted(Message.user("my key is 7f3a"))

    body, made = sent([Message.user("my key is [removed]"), reply, USER])

    assert [item["role"] for item in body["input"]] == ["user", "assistant", "user"]
    assert made.notes == ("a compaction was left out, for what was said before it has changed since",)
    elsewhere, other = sent([Message.user("my key is 7f3a"), reply], server="https://x/v1")
    assert [item["role"] for item in elsewhere["input"]] == ["user", "assistant"]
    assert "items of the vendor" in other.notes[0]


def test_the_last_compaction_counts():
    first = compacted(USER)
    second = compacted(USER, first, USER)

    assert [item.get("type") for item in items(USER, first, USER, second)] == ["compaction", "message"]


def test_an_item_of_ones_own_stands_between_the_messages():
    update = {"type": "configuration_update", "reasoning": {"effort": "high"}}

    told = items(USER, Message.user((VendorPart("openai_responses", update),)), USER)

    assert told == [{"role": "user", "content": "hi"}, update, {"role": "user", "content": "hi"}]


def test_chat_completions_run_nothing_at_the_vendor():
    def body(**more: Any) -> Any:
        return ChatWriter(Dialect()).encode(ModelRequest("m", (USER,), **more), FAULTS, stream=False)

    for kind in ("browser_search", "code_interpreter", "mcp"):
        with pytest.raises(ProviderError, match="runs at the vendor"):
            body(tools=(ToolSpec("x", extra={"openai": {"type": kind}}),))
    with pytest.raises(ProviderError, match="api = 'responses'"):
        body(hosted=(HostedTool("openai:hosted/web_search"),))
