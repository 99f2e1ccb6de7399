"""Event types of the vendor's schema without a recorded example: each is read, or passed over, without loss.

The schema: https://github.com/openai/openai-openapi, ``ResponseStreamEvent``.
"""

from __future__ import annotations

from typing import Any

import pytest
from pluggent_hookspecs import FinishReason, ProviderErrorKind as Kind, Text, ToolCall, thaw
from pluggent_testing.providers.values import check_reply
from responses_server import (
    CREATED,
    added,
    answer,
    custom_call,
    done,
    end,
    message,
    numbered,
    reply_of,
    sent,
    streamed,
    text,
    whole,
    whole_of,
)

HELLO = message(text("Hello"))
PICTURE = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "QUJD"}
LISTED = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "wiki", "tools": [], "error": "unreachable"}
CALLED = {"type": "mcp_call", "id": "mcp_1", "server_label": "wiki", "name": "read", "arguments": "{}",
          "output": None, "error": {"type": "http_error", "code": 500, "message": ""}, "status": "failed"}  # fmt: skip
SHELL = {"type": "shell_call", "id": "sh_1", "call_id": "call_1", "status": "completed",
         "action": {"commands": ["ls -l"], "timeout_ms": None, "max_output_length": None}}  # fmt: skip
RAN = {"stdout": "a\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
SHOWN = {"type": "shell_call_output", "id": "sho_1", "call_id": "call_1", "output": [RAN], "max_output_length": None}
PACKED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "packed"}
CUSTOM = custom_call(words='say "hi"')
OF_ITEMS: list[tuple[dict[str, Any], dict[str, dict[str, Any]]]] = [
    (PICTURE, {
        "image_generation_call.in_progress": {}, "image_generation_call.generating": {},
        "image_generation_call.partial_image": {"partial_image_b64": "QQ==", "partial_image_index": 0},
        "image_generation_call.completed": {},
    }),
    (LISTED, {"mcp_list_tools.failed": {}}),
    (CALLED, {"mcp_call.failed": {}}),
    (SHELL, {
        "shell_call_command.added": {"command": "", "command_index": 0},
        "shell_call_command.delta": {"delta": "ls -l", "command_index": 0, "obfuscation": "x"},
        "shell_call_command.done": {"command": "ls -l", "command_index": 0},
    }),
    (SHOWN, {
        "shell_call_output_content.delta": {"delta": {"stdout": "a\n"}, "command_index": 0},
        "shell_call_output_content.done": {"output": [RAN], "command_index": 0},
    }),
    (PACKED, {"compaction.compacting": {}}),
    (CUSTOM, {
        "custom_tool_call_input.delta": {"delta": 'say "hi"'}, "custom_tool_call_input.done": {"input": 'say "hi"'},
    }),
]  # fmt: skip
"""An item, and what the events about it have besides their places."""
SOUND = [
    {"type": "response.audio.delta", "delta": "QUJD"},
    {"type": "response.audio.transcript.delta", "delta": "Hel"},
    {"type": "response.audio.done"},
    {"type": "response.audio.transcript.done"},
]
"""Events that belong to no item."""


@pytest.mark.parametrize(("item", "kinds"), OF_ITEMS, ids=[" ".join(kinds) for _, kinds in OF_ITEMS])
def test_events_about_an_item_take_nothing_from_it(item: dict[str, Any], kinds: dict[str, dict[str, Any]]) -> None:
    about = {"item_id": item["id"], "output_index": 0}
    events = [{"type": f"response.{kind}", **about, **more} for kind, more in kinds.items()]
    begun = {**item, "input": ""} if item is CUSTOM else item

    for ends in ([done(0, item), end(item)], [end(item)]):
        assert check_reply(reply_of(*numbered(CREATED, added(0, begun), *events, *ends))) == whole_of(answer(item))


def test_the_input_of_a_custom_call_is_whole_without_its_item() -> None:
    kind = "response.custom_tool_call_input"
    events = [{"type": f"{kind}.delta", "output_index": 0, "item_id": "ctc_call_1", "delta": words}
              for words in ('say "', 'hi"')]  # fmt: skip

    reply = reply_of(*numbered(CREATED, added(0, {**CUSTOM, "input": ""}), *events, end()))

    (called,) = reply.message.tool_calls
    assert called == ToolCall("call_1", "shell", '{"input":"say \\"hi\\""}', {"openai_responses": {"type": "custom"}})


def test_events_that_belong_to_no_item_are_kept_with_the_reply() -> None:
    reply = check_reply(reply_of(*numbered(CREATED, *SOUND, added(0, HELLO), done(0, HELLO), end(HELLO))))

    assert reply.message == whole(HELLO).message
    assert thaw(reply.extra) == {"events": SOUND[:2]}


def test_events_that_belong_to_no_item_are_kept_up_to_a_limit() -> None:
    reply = reply_of(*numbered(CREATED, *[SOUND[0]] * 5000, done(0, HELLO), end(HELLO)))

    assert thaw(reply.extra) == {"events": [SOUND[0]] * 4096}
    assert reply.meta.notes == ("904 events that belong to no item were left out: there were more than are kept",)


def test_the_ends_that_are_not_recorded_are_those_of_the_schema() -> None:
    cut = end(HELLO, kind="incomplete", incomplete_details={"reason": "max_output_tokens"})
    failed = end(HELLO, kind="failed", error={"code": "server_error", "message": "It broke"})
    error = {"type": "error", "code": "server_error", "message": "It broke", "param": None}

    reply = reply_of(*numbered(CREATED, done(0, HELLO), cut))
    failures = [streamed(*numbered(CREATED, done(0, HELLO), event))[1] for event in (failed, error)]

    assert (reply.message.content, reply.finish_reason) == ((Text("Hello"),), FinishReason.LENGTH)
    assert [failure and failure.kind for failure in failures] == [Kind.UNAVAILABLE] * 2


def test_the_items_of_events_without_a_recording_go_back_as_they_came() -> None:
    for item in (PICTURE, LISTED, CALLED, SHELL, SHOWN, CUSTOM):
        body, _ = sent([whole(item).message])
        assert body["input"][0] == item
