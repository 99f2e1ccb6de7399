"""What servers log goes to the observers of the call that it belongs to alone."""

import asyncio
import json
import sys

import pytest
from mcp_sdk import listening, made
from mcp_using import PEER, WAIT_S, Context, peer, using
from pluggent_hookspecs import ToolFinished, ToolLogged
from pluggent_mcp.client.status import ServerStatus
from pluggent_mcp.plugin import Mcp
from pluggent_mcp.settings import Server, Settings
from talking import talking


def logging_peer(*behaviour, **settings):
    """Return the settings of mcp_peer.py with a log."""
    return Server(command=sys.executable, args=(str(PEER), "logs", *behaviour), **settings)


async def logged(*entries, server=None):
    """Return what the context of a call is told for which a server logs *entries*."""
    context = Context()
    async with using(one=server or logging_peer()) as used:
        await used.call("one__say", context, entries=list(entries))
    return context.logged


async def test_what_is_logged_during_a_call_is_told_to_who_watches_it():
    assert await logged(
        {"level": "info", "data": "begun", "logger": "db"},
        {"level": "error", "data": {"msg": "slow", "ms": 900}},
        {"level": "notice", "data": [1, None]},
    ) == [
        ("info", "begun", "db", None),
        ("error", "slow", "", {"msg": "slow", "ms": 900}),
        ("notice", "[1, null]", "", [1, None]),
    ]


async def test_what_is_told_is_bounded_printable_and_without_secrets():
    server = logging_peer(env={"TOKEN": "a-long-secret"})

    found = await logged(
        {"level": "info", "data": "x" * 1_990 + "a-long-secret", "logger": "a-long-secret"},
        {"level": "info", "data": "\x1b[2Jclean\u202e"},
        {"level": "info", "data": {"key": "a-long-secret", "a-long-secret": ["\x07"]}},
        {"level": "info", "data": {"message": "much", "rest": "x" * 10_000}},
        {"level": "info", "data": ["x" * 10_000]},
        server=server,
    )

    assert found == [
        ("info", "x" * 1_990 + "***", "***", None),
        ("info", "[2Jclean", "", None),
        ("info", '{"key": "***", "***": [""]}', "", {"key": "***", "***": [""]}),
        ("info", "much", "", None),
        ("info", "[10,004 characters of data, which are left out]", "", None),
    ]


@pytest.mark.parametrize(
    ("level", "asked", "told"),
    [("info", ["info"], ["info", "alert"]), ("alert", ["alert"], ["alert"]), ("off", [], [])],
)
async def test_a_server_is_asked_for_what_the_operator_wants_and_less_is_left_out(level, asked, told):
    context = Context()
    async with using(one=logging_peer(log_level=level)) as used:
        await used.call(
            "one__say", context, entries=[{"level": each, "data": "x"} for each in ("debug", "info", "alert")]
        )
        levels = json.loads(str((await used.call("one__levels")).for_model))

    assert (levels, [entry[0] for entry in context.logged]) == (asked, told)


@pytest.mark.parametrize("behaviour", ["refuses", "ignores"])
async def test_a_server_that_does_not_take_a_level_is_used_all_the_same(behaviour):
    assert await logged({"level": "info", "data": "x"}, server=logging_peer(behaviour)) == [("info", "x", "", None)]


async def test_a_server_that_has_no_log_is_not_asked_for_one():
    async with using(one=peer()) as used:
        assert (await used.call("one__echo", text="x")).for_model == "x"


async def test_over_a_pipe_what_is_logged_between_two_sessions_reaches_neither():
    ann, bob = Context(), Context()
    bob.session_id = "bob"
    async with using(one=logging_peer()) as used:
        waiting = asyncio.create_task(used.call("one__wait", bob))
        await bob.moved.wait()
        await used.call("one__say", ann, entries=[{"level": "error", "data": "whose is it?"}])
        waiting.cancel()

    assert (ann.logged, bob.logged) == ([], [])


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_over_http_what_is_logged_is_told_to_the_call_that_it_belongs_to(protocol):
    ann, bob = Context(), Context()
    ann.session_id, bob.session_id = "ann", "bob"
    async with (
        listening(made().streamable_http_app()) as url,
        using(web=Server(url=f"{url}/mcp", protocol=protocol)) as used,
    ):
        await asyncio.gather(used.call("web__say", ann, what="for Ann"), used.call("web__say", bob, what="for Bob"))

    assert ann.logged == [("warning", "for Ann", "sayer", None)]
    assert bob.logged == [("warning", "for Bob", "sayer", None)]


async def test_in_a_host_it_is_an_event_of_the_session():
    plugin = Mcp(Settings(mcpServers={"one": logging_peer(effects={"*": ()})}))
    async with (
        talking(plugins=[plugin], tools=["one__*"]) as session,
        session.events(ToolLogged, ToolFinished) as events,
    ):
        await session.call_tool("one__say", {"entries": [{"level": "error", "data": "here", "logger": "db"}]})
        told = await asyncio.wait_for(anext(aiter(events)), WAIT_S)

    assert isinstance(told, ToolLogged)
    assert (told.name, told.level, told.message, told.logger) == ("one__say", "error", "here", "db")


SECRET = "a-long-secret"
SERVERS = {
    "env": Server(command="x", env={"KEY": SECRET}),
    "args": Server(command="x", args=(f"--token={SECRET}",)),
    "option": Server(command="x", args=("--api-key", SECRET)),
    "header": Server(command="x", args=("-H", f"Authorization: Bearer {SECRET}")),
    "line": Server(command="x", env={"KEY": f"-----BEGIN KEY-----\n{SECRET}\n"}),
    "query": Server(url=f"https://mcp.example.com/mcp?key={SECRET}&a=b"),
    "password": Server(url=f"https://ann:{SECRET}@mcp.example.com/mcp"),
}


@pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS)
async def test_what_a_server_writes_of_its_settings_is_told_without_their_secrets(server, caplog):
    caplog.set_level("DEBUG")
    status = ServerStatus("one", server)

    status.add_stderr(f"bad {SECRET[:5]}".encode())
    status.add_stderr(f"{SECRET[5:]}\n".encode())
    status.add_stray_output(b"x" * 195 + SECRET.encode())
    status.end(f"it says: {SECRET}")

    told = caplog.text + status.explanation
    assert "bad ***" in told
    assert SECRET[:5] not in told
    assert SECRET[5:] not in told


@pytest.mark.parametrize("more", [0, 1, 629, 630, 631])
async def test_a_secret_that_is_cut_off_at_the_begin_of_what_is_kept_leaves_no_end(more):
    status = ServerStatus("one", SERVERS["env"])

    status.add_stderr(b"x" * 8_192 + SECRET[:7].encode())
    status.add_stderr(SECRET[7:].encode() + SECRET.encode() * more)

    assert "secret" not in status.explanation


async def test_a_secret_that_begins_like_another_leaves_no_end():
    status = ServerStatus("one", Server(command="x", env={"A": SECRET, "B": f"{SECRET}-and-more"}))

    assert status.shown(f"{SECRET}-and-more".encode()) == "***"
