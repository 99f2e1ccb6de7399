"""The command and sessions that an application keeps for a principal in the same folder (policy 36)."""

import asyncio
import json
from typing import Any

import pytest
from cli_support import PAUSED, Cli, approve, mailing, pause, requests, sent
from fake_distributions import importable
from pluggent_cli.host_access import system_user
from pluggent_hookspecs import tool
from pluggent_host import Host, HostSettings
from pluggent_testing.fakes import ScriptedModel, call

GO_ON = ("run", "--session", "trip", "--model", "offline/demo")


@pytest.fixture
def cli(tmp_path):
    return mailing(tmp_path)


def opened(cli: Cli, *replies: Any, **options: Any) -> Any:
    """Open the host of an application in the folder of the command."""
    model = ScriptedModel(*replies)
    return Host.open(model="scripted/m", plugins=[model], installed=False, state_dir=cli.state, **options)


def begun(cli: Cli, **options: Any) -> None:
    """Have an application begin the session ``trip`` for alice."""

    async def main() -> None:
        async with (
            opened(cli, "the code is 1234") as host,
            await host.session("trip", **{"principal": "alice", **options}) as session,
        ):
            await session.say("what is the code?")

    asyncio.run(main())


def principals(cli: Cli) -> list[str]:
    """Return who acted in the turns of the session, in order."""
    lines = (cli.state / "sessions" / "trip.jsonl").read_text().splitlines()
    decided = [json.loads(line) for line in lines if line.startswith('{"t":"Decided"')]
    return list(dict.fromkeys(entry["decision"]["scope"].get("principal", "") for entry in decided))


def test_the_command_goes_on_with_the_session_of_alice_as_alice_and_says_so(cli):
    begun(cli)

    done = cli(*GO_ON, "hello")

    assert (done.code, "session 'trip' belongs to 'alice'" in done.err) == (0, True)
    assert principals(cli) == ["alice"]


def test_what_waits_for_alice_is_approved_by_the_operator_and_runs_as_hers(cli):
    begun(cli)
    assert cli(*GO_ON, "send_mail to=bob").code == PAUSED
    (digest,) = requests(cli).values()

    assert "  asked for by alice\n" in approve(cli, "trip", digest).out
    assert cli.document("approvals", "show", "trip")["calls"][0]["principal"] == "alice"
    assert cli("resume", "--model", "offline/demo", "trip").code == 0
    assert (sent(cli), principals(cli)) == ("bob;", ["alice"])


@pytest.mark.parametrize(
    ("claimed", "inside", "says"),
    [
        (False, "1", f"error: session 'trip' belongs to another principal than '{system_user()}'; open it as that one"),
        (True, None, "was begun by a client under an unproven name"),
    ],
)
def test_a_session_of_alice_does_not_go_on_below_a_host_nor_under_a_name_that_was_only_claimed(
    cli, claimed, inside, says
):
    begun(cli, claimed=claimed)
    before = (cli.state / "sessions" / "trip.jsonl").read_bytes()

    done = cli(*GO_ON, "hello", PLUGGENT_INSIDE=inside)

    assert (done.code, done.out, says in done.err) == (1, "", True)
    assert (cli.state / "sessions" / "trip.jsonl").read_bytes() == before
    assert "the code is 1234" in cli("sessions", "show", "trip").out
    assert not claimed or "pluggent sessions show trip" in done.err


def test_sessions_of_the_command_belong_to_who_the_system_says_that_runs_it(cli):
    cli("run", "--session", "trip", "hello", USER="mallory", LOGNAME="mallory")

    assert principals(cli) == [system_user()]


def test_a_session_that_was_stored_without_an_owner_opens_in_the_command_and_is_its_own(cli):
    begun(cli, principal="")

    first, second = cli(*GO_ON, "hello"), cli(*GO_ON, "again")

    assert (first.code, second.code, principals(cli)) == (0, 0, ["", system_user()])
    assert f"session 'trip' had no owner and belongs to '{system_user()}' from now on" in first.err
    assert "owner" not in second.err


def test_a_turn_that_waits_in_a_session_without_an_owner_asks_once_more_and_goes_on(cli):
    """Policy 36: the principal is part of what was approved."""

    async def main():
        async with (
            Host.open(
                config=HostSettings(on_ask="pause", model="offline/demo"),
                state_dir=cli.state,
                workspace=cli.work,
                tools=["mail"],
            ) as host,
            await host.session("trip") as session,
        ):
            assert (await session.say("send_mail to=bob")).why == "paused"

    with importable(cli.site):
        asyncio.run(main())
    assert principals(cli) == [""]
    (before,) = requests(cli).values()

    assert approve(cli, "trip", before).code == 0
    assert (cli("resume", "trip").code, sent(cli)) == (PAUSED, "")
    (again,) = requests(cli).values()
    assert approve(cli, "trip", again).code == 0
    assert (cli("resume", "trip").code, sent(cli)) == (0, "bob;")
    assert (again == before, principals(cli)) == (False, ["", system_user()])


@pytest.mark.parametrize(
    ("option", "where"), [("--always", "in every session in {work}"), ("--for-session", "for the rest of the session")]
)
async def test_an_approval_of_the_command_is_not_good_for_a_principal(cli, option, where):
    question = f"Approve this, and the same asks {where.format(work=cli.work)}? [y/N] "
    approve(cli, "s", pause(cli, session="s"), option, question=question)
    assert (cli("resume", "s").code, sent(cli)) == (0, "bob;")
    ran: list[str] = []

    @tool(effects=("messaging",))
    def send_mail(to: str) -> str:
        ran.append(to)
        return "sent"

    for principal in ("alice", "claimed:alice"):
        settings = HostSettings(on_ask="deny")
        async with (
            opened(cli, call("send_mail", to="bob"), "done", tools=[send_mail], strict=True, config=settings) as host,
            await host.session(principal=principal) as session,
        ):
            await session.say("go")

    assert ran == []
