"""A server that changes a tool after somebody approved it: that is told, and asked again, in every way to approve."""

import json

import pytest
from cli_support import Cli
from mcp_using import peer, server, talking, told, using
from pluggent_hookspecs import Approval
from pluggent_host import HostSettings
from pluggent_testing.fakes import ScriptedModel, call
from transcript_file import answer_stored

READS = {name: ["network_read"] for name in ("change", "counts", "reshape")}
"""What the peer's helping tools do; nobody says what echo does, so it asks."""
CHANGED = "MCP server 'one' has changed tools since they were offered: 'echo' (its {}). What was approved"
ANEW = "'pluggent-mcp:tool/one__echo' has changed since it was approved; it is asked about anew"


class Person:
    """Approves as told, and remembers what was shown."""

    def __init__(self, answer):
        self.answer = answer
        self.shown = []

    def __call__(self, event):
        self.shown.append(event)
        return self.answer


async def relisted(session, changing):
    """Have the server change echo by the tool *changing*, and wait until its list was read again."""
    listings = json.loads(str((await session.call_tool("one__counts", {})).for_model))[1]
    await session.call_tool(f"one__{changing}", {})
    now = listings
    while now == listings:
        now = json.loads(str((await session.call_tool("one__counts", {})).for_model))[1]


@pytest.mark.parametrize("reach", ["session", "always"])
@pytest.mark.parametrize(("changing", "what"), [("change", "description"), ("reshape", "schema")])
async def test_what_was_approved_is_asked_again_after_a_change_and_that_is_told(
    reach, changing, what, tmp_path, caplog
):
    person = Person(Approval(agreed=True, reach=reach))
    echoed = call("one__echo", text="x")
    model = ScriptedModel(echoed, "a", echoed, "b", echoed, "c", echoed, "d")
    options = {"plugins": [model], "model": "scripted/m", "approver": person, "state_dir": tmp_path}
    async with talking({"one": told(effects=READS)}, **options) as session:
        await session.say("go")
        await session.say("again")
        assert len(person.shown) == 1
        assert "has changed" not in caplog.text

        await relisted(session, changing)
        await session.say("and now?")

        assert len(person.shown) == 2
        assert CHANGED.format(what) in caplog.text
        assert ANEW in caplog.text
        await session.say("once more")
        assert len(person.shown) == 2  # the new definition has been approved


async def test_a_server_that_is_another_in_the_next_process_is_asked_about_and_told(tmp_path, caplog):
    echoed = call("one__echo", text="x")
    model = ScriptedModel(echoed, "a", echoed, "b", echoed, "c")
    person = Person(Approval(agreed=True, reach="always"))
    options = {"plugins": [model], "model": "scripted/m", "approver": person, "state_dir": tmp_path / "state"}
    words = tmp_path / "words"
    words.write_text("Does echo.", "utf-8")
    served = told(f"says:{words}")
    for _ in range(2):
        async with talking({"one": served}, **options) as session:
            await session.say("go")
    assert (len(person.shown), ANEW in caplog.text) == (1, False)

    words.write_text("Does echo, and sends it to everybody.", "utf-8")
    async with talking({"one": served}, **options) as session:
        await session.say("go")

    assert (len(person.shown), ANEW in caplog.text) == (2, True)


def test_the_command_tells_of_a_change(tmp_path):
    cli = Cli(tmp_path)
    (cli.work / "mine.toml").write_text(server("one", more='effects = { "*" = [] }'), "utf-8")
    rounds = "one__change ; one__counts ; one__counts"

    done = cli("--config", "mine.toml", "run", "--tool", "mcp", rounds, PLUGGENT_BLOCK="pluggent-office-hours")

    assert done.code == 0
    assert f"warning: {CHANGED.format('description')}" in done.err


async def test_a_call_that_waited_for_a_person_is_not_run_as_another(tmp_path):
    words = tmp_path / "words"
    words.write_text("Does echo.", "utf-8")
    state = tmp_path / "state"
    served = told(f"says:{words}")
    model = ScriptedModel(call("one__echo", text="x"), "ok")
    options = {"model": "scripted/m", "plugins": [model], "state_dir": state, "config": HostSettings(on_ask="pause")}
    async with talking({"one": served}, id="s", **options) as session:
        paused = await session.say("go")
    answer_stored(state / "sessions", "s", [each.digest for each in paused.pending], Approval(agreed=True), "ann")
    words.write_text("Does echo, and sends it to everybody.", "utf-8")

    async with talking({"one": served}, id="s", **options) as session:
        await session.resume()

    assert "has changed since a person was asked" in session.history[2].text


async def test_a_pin_keeps_a_definition_across_processes_and_the_new_one_is_named(tmp_path, caplog):
    words = tmp_path / "words"
    words.write_text("Does echo.", "utf-8")
    async with using(one=peer(f"says:{words}")) as used:
        pin = used.tools["one__echo"].spec.version
    served = told(f"says:{words}", pins={"echo": pin}, effects={"*": []})

    async with talking({"one": served}) as session:
        assert (await session.call_tool("one__echo", {"text": "x"})).for_model == "x"
    assert "pinned" not in caplog.text
    words.write_text("Does echo, and sends it to everybody.", "utf-8")
    async with talking({"one": served}) as session:
        assert "one__echo" not in {tool.name for tool in session.tools}

    assert "its tool 'echo' is left out: its definition has changed since it was pinned" in caplog.text
