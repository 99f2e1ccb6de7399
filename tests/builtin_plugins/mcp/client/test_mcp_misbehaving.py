"""Servers that misbehave: each ends in a clear error in bounded time, and the others go on."""

import asyncio
import json
import logging
import os
import re
import signal

import pytest
from mcp_using import WAIT_S, Context, peer, runs, using
from pluggent_hookspecs import ToolError, ToolErrorKind

UNKNOWN = ToolErrorKind.OUTCOME_UNKNOWN


async def failed(used, name, **arguments):
    """Return the error of a call that must fail."""
    with pytest.raises(ToolError) as caught:
        await asyncio.wait_for(used.call(name, **arguments), WAIT_S)
    return caught.value


async def test_a_server_that_dies_at_its_start_is_told_with_its_last_words_and_the_others_are_there():
    async with using(bad=peer("dies"), good=peer()) as used:
        assert used.failures == {
            "bad": "MCP server 'bad': it ended with exit code 3. Its stderr ends: cannot find the database"
        }
        assert (await used.call("good__echo", text="here")).for_model == "here"


async def test_a_command_or_folder_that_is_not_there_is_named():
    async with using(bad=peer(cwd="no-such-folder"), none=peer().__class__(command="no-such-command")) as used:
        assert used.failures == {
            "bad": "MCP server 'bad': its cwd 'no-such-folder' is not a folder",
            "none": "MCP server 'none': there is no command 'no-such-command'; install it, or give its whole path",
        }


async def test_a_server_that_hangs_at_its_start_costs_its_own_deadline_and_no_other(monkeypatch):
    for name in [*os.environ]:
        if "PROXY" in name.upper() or name.startswith(("PIP_", "UV_", "npm_")):
            monkeypatch.delenv(name)
    async with using(bad=peer("hangs", start_timeout_s=0.5, stop_timeout_s=0.1), good=peer()) as used:
        assert used.failures == {
            "bad": "MCP server 'bad': it did not start within 0.5 s (start_timeout_s). "
            "Its stderr ends: waiting for a lock"
        }
        assert "good__echo" in used.tools


async def test_a_server_that_hangs_at_its_start_without_a_proxy_is_told_which_variables_it_did_not_get(monkeypatch):
    for name in ("HTTPS_PROXY", "npm_config_registry"):
        monkeypatch.setenv(name, "http://ann:s3cret@proxy.example")
    bad = peer("hangs", start_timeout_s=0.5, stop_timeout_s=0.1)
    async with using(bad=bad) as used:
        said = used.failures["bad"]

    assert re.search(r"It did not get our .*HTTPS_PROXY.*npm_config_registry: name in its env what it needs\.", said)
    assert "s3cret" not in said


async def test_a_server_that_dies_in_a_call_leaves_its_outcome_open_and_is_started_again():
    async with using(one=peer(env={"TOKEN": "a-long-secret"})) as used:
        error = await failed(used, "one__die")

        assert error.kind is UNKNOWN
        assert error.message == (
            "MCP server 'one': it ended with exit code 9. Its stderr ends: out of memory, token=***."
            " The call may have taken effect"
        )
        assert (await used.call("one__echo", text="back")).for_model == "back"


async def test_a_server_that_dies_again_and_again_is_waited_for_longer():
    async with using(one=peer()) as used:
        for _ in range(2):
            await failed(used, "one__die")
        error = await failed(used, "one__echo", text="x")

    assert error.kind is ToolErrorKind.FAILED
    assert "It is started again in 1 s" in error.message


async def test_junk_between_messages_is_passed_over():
    async with using(one=peer()) as used:
        assert (await used.call("one__junk")).for_model == "after the junk"


@pytest.mark.parametrize(("behaviour", "tool"), [(("babbles",), ""), ((), "one__only_junk")])
async def test_what_writes_nothing_but_junk_is_no_server(behaviour, tool):
    async with using(one=peer(*behaviour)) as used:
        said = str(await failed(used, tool)) if tool else used.failures["one"]

    assert "it wrote 100 lines to stdout that are not messages. It wrote to stdout what is not a message: 'W" in (
        said.replace("what a nice", "What a nice")
    )


async def test_wrong_bytes_in_a_text_are_replaced():
    async with using(one=peer()) as used:
        assert (await used.call("one__bytes")).for_model == "caf\ufffd au lait"


async def test_a_message_that_is_too_long_ends_the_connection_and_says_so():
    async with using(one=peer(stop_timeout_s=0.1), two=peer(max_message_bytes=30_000_000)) as used:
        error = await failed(used, "one__long")
        assert error.message.startswith("MCP server 'one': it sent a message longer than 4,194,304 bytes")
        assert len(str((await used.call("two__long")).for_model)) == 20_000_000


async def test_a_response_to_a_request_that_was_never_made_is_dropped_and_calls_go_on(caplog):
    async with using(one=peer()) as used:
        assert (await used.call("one__false_id", Context(), times=3)).for_model == "answered"
        assert (await used.call("one__echo", text="on")).for_model == "on"

    (said,) = [message for message in caplog.messages if "never made" in message]
    assert said == "MCP server 'one': it answered a request that was never made (id '987654')"


async def test_a_flood_of_responses_to_requests_that_were_never_made_ends_the_connection():
    async with using(one=peer()) as used:
        error = await failed(used, "one__false_id", times=101)

    assert error.message == (
        "MCP server 'one': it answered 100 requests that were never made. The call may have taken effect"
    )


async def test_a_flood_of_notifications_ends_the_connection_and_others_go_on():
    async with using(one=peer(stop_timeout_s=0.1), two=peer()) as used:
        flooded = asyncio.create_task(failed(used, "one__flood"))
        while not flooded.done():
            assert (await used.call("two__echo", text="dry")).for_model == "dry"

    assert "it sent 5,000 notifications too many" in (await flooded).message


async def test_a_server_that_writes_much_to_stderr_is_read():
    async with using(one=peer()) as used:
        assert (await used.call("one__chatter")).for_model == "said a lot"


async def test_a_result_that_is_none_is_told_and_the_connection_stays():
    async with using(one=peer()) as used:
        error = await failed(used, "one__malformed")

        assert "its answer cannot be used" in error.message
        assert "content" in error.message
        assert error.kind is ToolErrorKind.RESULT
        assert (await used.call("one__echo", text="still")).for_model == "still"


async def test_bad_tools_do_not_lose_the_good_ones(caplog):
    caplog.set_level(logging.INFO, "pluggent.mcp.one")
    async with using(one=peer("bad")) as used:
        names = {name.removeprefix("one__") for name in used.tools}
        hidden = used.tools["one__hidden"].spec.description

    assert {"echo", "odd", "hidden"} <= names
    assert {name for name in names if "schema" in name} == set()
    assert hidden.startswith("[MCP server one] Read me.xxx")
    assert hidden.endswith("[... cut: 5,010 characters]")
    for left_out in ("no_schema", "text_schema", "array_schema", "false_schema", "far_schema", "huge_schema"):
        assert f"its tool '{left_out}' is left out" in caplog.text
    assert "lists 'echo' twice; the first stands" in caplog.text


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        ("endless", "its list of tools has more than 100 pages"),
        ("circle", "its list of tools goes in a circle"),
    ],
)
async def test_a_list_without_an_end_is_no_list(behaviour, why):
    async with using(one=peer(behaviour), many=peer(max_tools=3)) as used:
        assert used.failures == {
            "one": f"MCP server 'one': {why}", "many": "MCP server 'many': it lists more than 3 tools (max_tools)"
        }  # fmt: skip


async def test_a_server_that_ignores_its_input_ending_and_sigterm_is_killed():
    async with using(one=peer("stubborn", stop_timeout_s=0.1)) as used:
        pid = json.loads(str((await used.call("one__environ")).for_model))["pid"]

    assert not runs(pid)


async def test_grandchildren_are_stopped_too():
    async with using(one=peer(stop_timeout_s=0.1)) as used:
        pid = int(str((await used.call("one__spawn")).for_model))

    assert not runs(pid)


async def test_a_server_that_is_cancelled_while_it_starts_leaves_nothing():
    async with using(good=peer()) as used:
        asking = asyncio.create_task(used.sources["good"].tools())
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

        assert (await used.call("good__echo", text="unharmed")).for_model == "unharmed"


async def test_a_server_that_does_not_read_is_given_up():
    async with using(one=peer(call_timeout_s=0.2, stop_timeout_s=0.1)) as used:
        pid = json.loads(str((await used.call("one__environ")).for_model))["pid"]
        os.kill(pid, signal.SIGSTOP)
        error = await failed(used, "one__echo", text="x" * 300_000)

    assert "it did not read what it was sent for 0.2 s" in error.message


async def test_a_frozen_server_times_out_and_no_other_does():
    async with using(one=peer(stop_timeout_s=0.1), two=peer()) as used:
        pid = json.loads(str((await used.call("one__environ")).for_model))["pid"]
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await used.call("one__echo", Context(), text="x" * 300_000)

        assert (await used.call("two__echo", text="two")).for_model == "two"
