"""No way through an MCP server, or into ours, goes round a policy: the path matrix on what the plugin adds."""

import re
from collections.abc import Iterator

import pytest
from mcp_paths import Peer, alone, calling, exported
from mcp_types import ElicitResult
from pluggent_mcp.client.connection import Connection
from pluggent_mcp.client.server_requests import ServerRequests
from pluggent_testing.fakes import call
from pluggent_testing.paths import EntryPath, PathMatrix
from pluggent_testing.paths.operations import APPROVAL, MODEL, OUTPUT, QUESTION, ROUND, TOOL, TURN
from pluggent_testing.paths.parts import agreeing, knowing
from pluggent_testing.paths.probes import witness
from pluggent_testing.paths.ways import saying_once

PEER = Peer()
"""One server for the whole module: it keeps nothing of a call but a note in that path's own log."""

BY_HAND = ("Session.call_tool",)
LENT = ("HostOperations.tools", "HostOperations.call_tool")
MARKED = {"mark": "mark-one"}


def sampled(log):
    """Return an approver that lets the server ask the model."""
    return (*PEER.watched(log), *agreeing(log))


def elicited(log):
    """Return a plugin that answers what the server asks."""
    return (*PEER.watched(log), *knowing(log))


PATHS = (
    EntryPath(
        "mcp-turn", ("Session.say",), {"api": (TURN, *ROUND, TOOL, *ROUND, OUTPUT)}, saying_once(),
        (call("srv__probe", "call_one", mark="mark-one"), "reply-2"), plugins=PEER.watched,
        repeats=(TURN, *ROUND, OUTPUT),
    ),
    EntryPath("mcp-tool", BY_HAND, {"api": (TOOL,)}, calling("probe", **MARKED), plugins=PEER.watched),
    EntryPath(
        "mcp-resource", BY_HAND, {"api": (TOOL,)}, calling("read_resource", uri="probe://mark-one"),
        plugins=PEER.watched,
    ),
    EntryPath(
        "mcp-prompt", BY_HAND, {"api": (TOOL,)}, calling("get_prompt", name="probe", arguments=MARKED),
        plugins=PEER.watched,
    ),
    EntryPath(
        "mcp-sampling", (*BY_HAND, "ToolContext.call_model"), {"api": (TOOL,), "tool": (MODEL, APPROVAL)},
        calling("sample", **MARKED), ("answer-inner",), plugins=sampled,
    ),
    EntryPath(
        "mcp-elicitation", (*BY_HAND, "ToolContext.elicit"), {"api": (TOOL,), "tool": (QUESTION,)},
        calling("ask", **MARKED), plugins=elicited,
    ),
    EntryPath(
        "mcp-exported", LENT, {"mcp": (TOOL, OUTPUT)}, exported("probe_showing"), opens=True, installed="tools"
    ),
    EntryPath("mcp-through", LENT, {"mcp": (TOOL,)}, exported("srv__probe"), plugins=PEER.watched, opens=True),
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def served() -> Iterator[None]:
    with PEER.listening():
        yield


class Composed(PathMatrix):
    """A host whose one installed plugin is this one, with a server that may do everything."""

    protocol = "auto"

    def composition(self):
        server = {
            "url": PEER.url, "effects": {"*": []}, "resources": True, "prompts": True, "protocol": self.protocol
        }  # fmt: skip
        settings = {"pluggent-mcp": {"mcpServers": {"srv": server}}}
        return {"installed": alone(), "settings": settings, "tools": ["mcp"]}


class TestServers(Composed):
    paths = PATHS


class TestServersThatAskInTheirOwnRequests(Composed):
    """As the protocols before 2026-07-28 have it, in which a server sends requests while a call runs."""

    protocol = "legacy"
    paths = tuple(path for path in PATHS if path.name in ("mcp-sampling", "mcp-elicitation"))


def asked_no_person(patch: pytest.MonkeyPatch) -> None:
    """Let a server have answers that no person gave."""

    async def broken(*_: object) -> ElicitResult:
        return ElicitResult(action="accept", content={"town": "Rome"})

    patch.setattr(ServerRequests, "elicit", broken)


def called_twice(patch: pytest.MonkeyPatch) -> None:
    """Let a call go to the server once more than was decided."""
    call_once = Connection.call

    async def broken(self, *given):
        await call_once(self, *given)
        return await call_once(self, *given)

    patch.setattr(Connection, "call", broken)


@pytest.mark.parametrize(
    ("broken", "name", "told"),
    [(asked_no_person, "mcp-elicitation", "decide_question"), (called_twice, "mcp-tool", "executed {'ran': 2}")],
)
def test_a_plugin_that_does_more_than_was_decided_is_noticed(broken, name, told, tmp_path, monkeypatch):
    suite = TestServers()
    (path,) = (path for path in suite.paths if path.name == name)
    broken(monkeypatch)

    with pytest.raises(AssertionError, match=re.escape(told)):
        suite.test_every_hook_fires_once_for_each_operation(
            path, lambda path: suite.play(path, tmp_path, lambda log: (witness(log),))
        )
