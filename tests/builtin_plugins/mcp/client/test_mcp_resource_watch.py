"""The tool that waits until a resource of a server changes; no change between two waits is missed."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from cli_support import words_to_fork
from mcp_using import WAIT_S, peer, using
from pluggent_hookspecs import ToolError, thaw
from pluggent_mcp.client import resource_watch
from pluggent_mcp.settings import Server

PROGRAM = Path(__file__).parents[1] / "support" / "mcp_changing.py"
ERAS = pytest.mark.parametrize("protocol", ["auto", "legacy"])


def notes(protocol: Any = "auto", *behaviour: str, **settings: Any) -> Server:
    command, *words = words_to_fork(PROGRAM, *behaviour)
    return Server(command=command, args=tuple(words), protocol=protocol, resources=True, **settings)


async def waited(used, uri="notes://1", **since) -> Any:
    """Return what a wait came to."""
    return thaw((await used.call("notes__wait_for_resource", uri=uri, **since)).data)


@ERAS
async def test_the_first_wait_tells_the_revision_and_the_next_one_waits_for_another(protocol):
    async with asyncio.timeout(WAIT_S), using(notes=notes(protocol)) as used:
        first = await waited(used)
        waiting = asyncio.create_task(waited(used, since=first["revision"]))
        await used.call("notes__change", uri="notes://1")
        second = await waiting

    assert (first["changed"], second["changed"]) == (False, True)
    assert second["revision"] != first["revision"]


@ERAS
async def test_a_change_between_two_waits_is_not_missed(protocol):
    async with asyncio.timeout(WAIT_S), using(notes=notes(protocol)) as used:
        first = await waited(used)
        await used.call("notes__change", uri="notes://1")
        second = await waited(used, since=first["revision"])
        other = await waited(used, "notes://2")

    assert second["changed"] is True
    assert other["changed"] is False


async def test_a_wait_that_nothing_happens_in_ends_before_the_time_of_the_call():
    server = notes(call_timeout_s=0.5)
    async with asyncio.timeout(WAIT_S), using(notes=server) as used:
        first = await waited(used)
        second = await waited(used, since=first["revision"])

    assert (second["revision"], second["changed"]) == (first["revision"], False)


async def test_what_was_known_of_another_run_of_the_server_has_changed():
    async with asyncio.timeout(WAIT_S), using(notes=notes()) as used:
        first = await waited(used)
    async with asyncio.timeout(WAIT_S), using(notes=notes()) as used:
        second = await waited(used, since=first["revision"])

    assert second["changed"] is True


async def test_a_resource_that_nobody_waits_for_is_unsubscribed_after_a_while(monkeypatch):
    monkeypatch.setattr(resource_watch, "IDLE_S", 0.0)
    async with asyncio.timeout(WAIT_S), using(notes=notes("legacy")) as used:
        await waited(used)
        subscribed, unsubscribed = ["notes://1"], list[str]()
        while not unsubscribed:
            _, subscribed, unsubscribed = json.loads(str((await used.call("notes__counts")).for_model))

    assert (subscribed, unsubscribed) == ([], ["notes://1"])


async def test_a_resource_that_the_server_refuses_and_one_too_many_are_errors():
    async with asyncio.timeout(WAIT_S), using(notes=notes("legacy")) as used:
        refused = await used.call("notes__wait_for_resource", uri="notes://none")
        for number in range(resource_watch.MOST_WATCHED):
            await waited(used, f"notes://{number}")
        with pytest.raises(ToolError, match="64 resources of this server are watched already"):
            await waited(used, "notes://70")

    assert (refused.is_error, thaw(refused.data)) == (True, {"code": -32602})


async def test_a_server_without_subscriptions_has_no_such_tool():
    async with using(one=peer("resources", resources=True)) as used:
        assert "one__wait_for_resource" not in used.tools


@ERAS
async def test_a_wait_ends_with_the_server(protocol):
    async with asyncio.timeout(WAIT_S), using(notes=notes(protocol)) as used:
        first = await waited(used)
        waiting = asyncio.create_task(waited(used, since=first["revision"]))
        await used.call("notes__counts")
        await used.sources["notes"].aclose()
        ended: Any = (await asyncio.gather(waiting, return_exceptions=True))[0]

    assert isinstance(ended, ToolError) or ended["changed"] is True


async def test_a_server_that_never_confirms_a_subscription_costs_one_wait_and_its_place_is_free_again(monkeypatch):
    monkeypatch.setattr(resource_watch, "MOST_WATCHED", 1)
    silent = notes("auto", "silent", call_timeout_s=0.3)
    async with asyncio.timeout(WAIT_S), using(notes=silent) as used:
        for uri in ("notes://1", "notes://2"):
            with pytest.raises(ToolError):
                await waited(used, uri)
        counted = await used.call("notes__counts")

    assert not counted.is_error


async def test_a_stream_of_events_that_breaks_off_is_a_change_and_ends_nothing_else():
    breaking = notes("auto", "breaking")
    async with asyncio.timeout(WAIT_S), using(notes=breaking) as used:
        first = await waited(used)
        waiting = asyncio.create_task(waited(used, since=first["revision"]))
        await used.call("notes__change", uri="notes://1")
        broken = await waiting
        counted = json.loads(str((await used.call("notes__counts")).for_model))
        with pytest.raises(ToolError, match="it refused: the disk is gone"):
            await waited(used, since=broken["revision"])

    assert broken["changed"] is True
    assert counted[0] == 1
