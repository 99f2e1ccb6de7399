"""A session at a server of Responses: what the vendor runs itself, and what it asks about, from end to end."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from odd_server import settings_for
from permitting import settings as settings_of
from pluggent_hookspecs import (
    FinishReason,
    Message,
    ModelResponse,
    ProviderError,
    Text,
    ToolCall,
    ToolFinished,
    VendorPart,
)
from pluggent_host import Host, Why
from pluggent_host.session import Session
from pluggent_host.settings import HostSettings
from pluggent_openai.plugin import OpenAI
from pluggent_permissions.plugin import Permissions
from pluggent_testing.fakes import Recorder
from pluggent_testing.wires import ResponsesWire, WireServer

TOOLS = [{"type": "web_search"}, {"type": "mcp", "server_label": "wiki", "server_url": "https://wiki.example/mcp"}]
READ = ToolCall("mcpr_1", "read_page", '{"page":"a"}', hosted="mcp/wiki")
FOUND = VendorPart("openai_responses", {"type": "web_search_call", "id": "ws_1", "status": "completed"}, "web_search")
RAN = VendorPart(
    "openai_responses",
    {"type": "mcp_call", "id": "mcp_1", "server_label": "wiki", "name": "read_page", "arguments": '{"page":"a"}',
     "approval_request_id": "mcpr_1", "output": "page"},
    "mcp/wiki",
)  # fmt: skip


def reply(*content: Any, calls: tuple[ToolCall, ...] = ()) -> ModelResponse:
    reason = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
    return ModelResponse(Message.assistant(content, calls), reason, model="m", id="r")


@asynccontextmanager
async def at(
    server: WireServer, *plugins: object, answer: bool | None = None, folder: Path | None = None, **own: Any
) -> AsyncGenerator[Session]:
    settings = OpenAI.Settings(**settings_for(server), api="responses", server_tools=TOOLS, **own)
    approver: Any = None if answer is None else lambda _: answer
    async with (
        Host.open(
            model="openai/m", plugins=[OpenAI(settings), *plugins], installed=False, state_dir=folder,
            approver=approver, config=HostSettings(on_ask="pause"),
        ) as host,
        await host.session("s") as session,
    ):  # fmt: skip
        yield session


def served(*replies: ModelResponse) -> WireServer:
    server = WireServer(ResponsesWire(), 5.0, 1 << 20)
    server.will(*(server.reply(each) for each in replies))
    return server


async def test_an_approved_call_is_made_by_the_vendor_and_its_result_stays_in_its_place():
    watch = Recorder()
    with served(reply(FOUND, calls=(READ,)), reply(RAN, Text("done")), reply(Text("again"))) as server:
        async with at(server, watch, answer=True) as session:
            assert (await session.say("go")).text == "done"
            assert (await session.say("more")).text == "again"

    bodies = [each.json for each in server.asked]
    assert [tool["type"] for tool in bodies[0]["tools"]] == ["web_search", "mcp"]
    assert bodies[0]["tools"][1]["require_approval"] == "always"
    kinds = [item.get("type", item.get("role")) for item in bodies[2]["input"]]
    assert kinds == [
        "user", "web_search_call", "mcp_approval_request", "mcp_approval_response", "mcp_call", "message", "user",
    ]  # fmt: skip
    assert [bodies[at]["input"][3]["approve"] for at in (1, 2)] == [True, True]
    assert [each.name for each in watch.of(ToolFinished)] == ["web_search", "read_page", "mcp/wiki"]


async def test_a_call_waits_for_another_process_and_a_refusal_is_told(tmp_path: Path):
    with served(reply(calls=(READ,)), reply(Text("a pity"))) as server:
        async with at(server, folder=tmp_path) as session:
            waiting = await session.say("go")
            assert (waiting.why, [each.name for each in waiting.pending]) == (Why.PAUSED, ["read_page"])
        async with at(server, folder=tmp_path) as session:
            assert (await session.resume({"mcpr_1": False})).text == "a pity"

    answer = server.asked[1].json["input"][-1]
    assert (answer["type"], answer["approve"]) == ("mcp_approval_response", False)
    assert "Denied" in answer["reason"]


async def test_what_the_operator_forbids_cannot_be_had_from_the_vendor():
    rules = {"rules": [{"id": "offline", "decision": "deny", "when": {"effects": ["network_read", "network_write"]}}]}
    with served(reply(calls=(READ,)), reply(Text("done"))) as server:
        async with at(server, Permissions(settings_of(rules)), answer=True) as session:
            await session.say("go")

    assert all("tools" not in each.json for each in server.asked)
    assert server.asked[1].json["input"][-1]["approve"] is False


async def test_a_cut_stream_after_an_approval_is_no_second_call():
    with served() as server:
        broken = reply(RAN, Text("done"))
        server.will(
            server.reply(reply(calls=(READ,))),
            server.by_event(server.wire.events(broken)[:3], ends=False),
            server.reply(reply(Text("on"))),
        )
        async with at(server, answer=True) as session:
            with pytest.raises(ProviderError, match="broke off"):
                await session.say("go")
            assert (await session.say("go on")).text == "on"

    answers = [
        item for each in server.asked for item in each.json["input"] if item.get("type") == "mcp_approval_response"
    ]
    assert [answer["approve"] for answer in answers] == [True, False]
    assert "not known" in answers[1]["reason"]


async def test_a_compaction_of_a_session_is_sent_in_place_of_what_it_stands_for():
    packed = VendorPart("openai_responses", {"type": "compaction", "id": "c1", "encrypted_content": "packed"})
    with served(reply(packed, Text("one")), reply(Text("two"))) as server:
        async with at(server, compaction=5_000, store=True) as session:
            await session.say("go")
            result = await session.say("more")

    first, second = (each.json for each in server.asked)
    assert first["context_management"] == [{"type": "compaction", "compact_threshold": 5_000}]
    assert first["store"] is True
    assert [item.get("type", item.get("role")) for item in second["input"]] == ["compaction", "message", "user"]
    assert result.text == "two"
