"""The person at a client approves what an exported tool does only where the operator granted that (policy 16)."""

import asyncio

import pytest
from mcp_serving_sites import DECLINED, GRANT, LEFT, NO, YES, Person, asking_site, client
from mcp_types import ElicitResult

ERAS = ("auto", "legacy")
WAYS = (("stdio", "auto"), ("http", "legacy"), ("http", "auto"))
ROME = ElicitResult(action="accept", content={"town": "Rome"})


def text(result):
    return result.content[0].text


def rebooted(cli):
    file = cli.work / "rebooted.txt"
    return file.read_text().split() if file.exists() else []


@pytest.mark.parametrize(("wire", "mode"), WAYS)
async def test_16_a_granted_person_approves_exactly_what_was_shown(wire, mode, tmp_path):
    cli, person = asking_site(tmp_path), Person(YES)
    async with client(wire, cli, mode, person) as connected:
        result = await connected.call_tool("reboot", {"when": "tonight"})

    assert (result.is_error, text(result)) == (False, "rebooted tonight")
    (asked,) = person.asked
    assert "call reboot  (acme:tool/reboot, effects: shell)" in asked.message
    assert '"when": "tonight"' in asked.message
    assert rebooted(cli) == ["tonight"]


@pytest.mark.parametrize("mode", ERAS)
async def test_16_no_person_is_asked_without_the_grant_and_the_denial_says_how(mode, tmp_path):
    cli, person = asking_site(tmp_path, config=""), Person(YES)
    async with client("stdio", cli, mode, person) as connected:
        result = await connected.call_tool("reboot", {})
        question = await connected.call_tool("travel", {})

    assert result.is_error
    assert '[grants] approvers = ["pluggent-mcp"]' in text(result)
    assert text(question) == "Cancelled"
    assert (person.asked, rebooted(cli)) == ([], [])


@pytest.mark.parametrize(
    ("answer", "says", "mode"),
    [
        (NO, "a person refused this", "auto"),
        (DECLINED, "a person refused this", "legacy"),
        (LEFT, "no approver answered", "auto"),
        (LEFT, "no approver answered", "legacy"),
        (ElicitResult(action="accept", content={}), "a person refused this", "auto"),
        (ElicitResult(action="accept", content={"approve": "true"}), "a person refused this", "legacy"),
    ],
)
async def test_everything_but_a_yes_leaves_it_undone(answer, says, mode, tmp_path):
    cli, person = asking_site(tmp_path), Person(answer)
    async with client("stdio", cli, mode, person) as connected:
        result = await connected.call_tool("reboot", {})

    assert (result.is_error, len(person.asked)) == (True, 1)
    assert says in text(result)
    assert rebooted(cli) == []


async def test_an_approval_is_for_one_call(tmp_path):
    cli, person = asking_site(tmp_path), Person(YES, NO)
    async with client("stdio", cli, "auto", person) as connected:
        first = await connected.call_tool("reboot", {})
        second = await connected.call_tool("reboot", {})

    assert (first.is_error, second.is_error) == (False, True)
    assert rebooted(cli) == ["now"]


@pytest.mark.parametrize(("wire", "mode"), WAYS)
async def test_one_call_may_ask_more_than_once(wire, mode, tmp_path):
    person = Person(YES, ROME)
    async with client(wire, asking_site(tmp_path), mode, person) as connected:
        result = await connected.call_tool("both", {})

    assert text(result) == "Rome"
    assert [sorted(asked.requested_schema["properties"]) for asked in person.asked] == [["approve"], ["town"]]
    assert "asks you:" in person.asked[1].message


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_without_elicitation_is_told_the_denial(mode, tmp_path):
    async with client("stdio", asking_site(tmp_path), mode) as connected:
        result = await connected.call_tool("reboot", {})

    assert result.is_error
    assert "no approver answered" in text(result)
    assert "approvers = " not in text(result)


async def test_below_another_host_no_person_is_asked(tmp_path, monkeypatch):
    cli, person = asking_site(tmp_path), Person(YES)
    cli.environ = lambda plain=cli.environ, **more: {**plain(**more), "PLUGGENT_INSIDE": "1"}
    async with client("stdio", cli, "auto", person) as connected:
        result = await connected.call_tool("reboot", {})

    assert result.is_error
    assert person.asked == []


async def test_an_ask_that_is_limited_to_others_is_not_put_to_it(tmp_path):
    rule = '[[plugins.pluggent-permissions.rules]]\nid = "boss"\ndecision = "ask"\nwhen.tool = "acme:tool/counted"\n'
    cli, person = asking_site(tmp_path, config=f"{GRANT}{rule}"), Person(YES)
    async with client("stdio", cli, "auto", person) as connected:
        result = await connected.call_tool("counted", {})

    assert not result.is_error
    assert len(person.asked) == 1
    assert "pluggent-permissions asks" in person.asked[0].message


async def test_who_waits_for_a_person_takes_no_place_from_a_call_that_could_run(tmp_path):
    one_at_a_time = f"{GRANT}[plugins.pluggent-mcp.serve]\nmax_calls = 1\n"
    answered = asyncio.Event()

    class Slow(Person):
        async def __call__(self, context, params):
            await answered.wait()
            return YES

    async with (
        asyncio.timeout(30),
        client("stdio", asking_site(tmp_path, config=one_at_a_time), "legacy", Slow()) as connected,
    ):
        waiting = asyncio.create_task(connected.call_tool("reboot", {}))
        second = asyncio.create_task(connected.call_tool("reboot", {"when": "too"}))
        counted = await connected.call_tool("counted", {})
        denied = await asyncio.wait({waiting, second}, return_when=asyncio.FIRST_COMPLETED)
        answered.set()
        results = await asyncio.gather(waiting, second)

    assert text(counted) == "one"
    assert len(denied[0]) == 1
    assert sorted(result.is_error for result in results) == [False, True]
