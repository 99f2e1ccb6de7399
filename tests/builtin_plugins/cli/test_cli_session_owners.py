"""The command and sessions that an application keeps for a principal in the same folder (policy 36)."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from cli_support import PAUSED, Cli, approve, mailing, pause, requests, sent
from pluggent_hookspecs import tool
from pluggent_host import Host, HostSettings
from pluggent_testing.fakes import ScriptedModel, call


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return mailing(tmp_path)


def begun(cli: Cli, principal: str = "alice", **options: Any) -> None:
    """Have an application begin the session ``trip`` for *principal* in the folder of the command."""

    async def main() -> None:
        async with (
            Host.open(
                model="scripted/m", plugins=[ScriptedModel("the code is 1234")], installed=False, state_dir=cli.state
            ) as host,
            await host.session("trip", principal=principal, **options) as session,
        ):
            await session.say("what is the code?")

    asyncio.run(main())


def principals(cli: Cli) -> list[str]:
    """Return who acted in the turns of the session, in order."""
    lines = (cli.state / "sessions" / "trip.jsonl").read_text().splitlines()
    decided = [json.loads(line) for line in lines if line.startswith('{"t":"Decided"')]
    return list(dict.fromkeys(entry["decision"]["scope"].get("principal", "") for entry in decided))


def test_the_command_goes_on_with_the_session_of_alice_as_alice_and_says_so(cli: Cli) -> None:
    begun(cli)

    done = cli("run", "--session", "trip", "--model", "offline/demo", "hello")

    assert done.code == 0
    assert "session 'trip' belongs to 'alice'" in done.err
    assert principals(cli) == ["alice"]


def test_what_waits_for_alice_is_approved_by_the_operator_and_runs_as_hers(cli: Cli) -> None:
    begun(cli)
    done = cli("run", "--session", "trip", "--model", "offline/demo", "send_mail to=bob")
    assert done.code == PAUSED
    (digest,) = requests(cli).values()

    shown = approve(cli, "trip", digest)
    assert "  asked for by alice\n" in shown.out
    assert json.loads(cli("approvals", "show", "trip", "--json").out)["calls"][0]["principal"] == "alice"
    assert cli("resume", "--model", "offline/demo", "trip").code == 0
    assert (sent(cli), principals(cli)) == ("bob;", ["alice"])


def test_from_below_a_host_nobody_goes_on_with_the_session_of_alice(cli: Cli) -> None:
    begun(cli)
    before = (cli.state / "sessions" / "trip.jsonl").read_bytes()

    done = cli("run", "--session", "trip", "--model", "offline/demo", "hello", PLUGGENT_INSIDE="1")

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: session 'trip' belongs to another principal;")
    assert (cli.state / "sessions" / "trip.jsonl").read_bytes() == before


def test_a_session_that_a_claimed_name_began_is_read_and_not_gone_on_with(cli: Cli) -> None:
    begun(cli, claimed=True)

    done = cli("run", "--session", "trip", "--model", "offline/demo", "hello")

    assert done.code == 1
    assert "was begun by a client under a name that nobody has proved" in done.err
    assert "pluggent sessions show trip" in done.err
    assert "the code is 1234" in cli("sessions", "show", "trip").out


def test_sessions_of_the_command_belong_to_nobody_and_go_on(cli: Cli) -> None:
    pause(cli, session="trip")

    assert cli("run", "--session", "trip", "hello").code == 0
    assert principals(cli) == [""]


async def test_a_session_that_the_command_kept_opens_once_there_is_a_principal(cli: Cli) -> None:
    assert cli("run", "--session", "trip", "hello").code == 0

    async with (
        Host.open(model="scripted/m", plugins=[ScriptedModel("hi")], installed=False, state_dir=cli.state) as host,
        await host.session("trip", principal="ann", model="scripted/m") as session,
    ):
        assert session.history[0].text == "hello"
    assert "belongs to 'ann'" in cli("run", "--session", "trip", "--model", "offline/demo", "again").err


@pytest.mark.parametrize("words", [("--always",), ("--for-session",)])
def test_an_approval_of_the_command_is_not_good_for_a_principal(cli: Cli, words: tuple[str, ...]) -> None:
    digest = pause(cli, session="s")
    where = "in every session" if words == ("--always",) else "for the rest of the session"
    approve(cli, "s", digest, *words, question=f"Approve this, and the same asks {where}? [y/N] ")
    assert (cli("resume", "s").code, sent(cli)) == (0, "bob;")
    ran: list[str] = []

    async def main() -> None:
        @tool(effects=("messaging",))
        def send_mail(to: str) -> str:
            ran.append(to)
            return "sent"

        for principal in ("alice", "claimed:alice"):
            async with (
                Host.open(
                    model="scripted/m", plugins=[ScriptedModel(call("send_mail", to="bob"), "done")],
                    tools=[send_mail], installed=False, state_dir=cli.state, strict=True,
                    config=HostSettings(on_ask="deny"),
                ) as host,
                await host.session(principal=principal) as session,
            ):  # fmt: skip
                await session.say("go")

    asyncio.run(main())
    assert ran == []
