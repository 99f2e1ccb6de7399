"""Servers whose tools change: what becomes of the tool, and that a change after an approval is told and asked again."""

import json

import pytest
from cli_support import Cli
from mcp_sdk import listening, made
from mcp_using import peer, server, talking, told, using
from pluggent_hookspecs import Approval, ToolError
from pluggent_host import HostSettings
from pluggent_mcp.settings import Server
from pluggent_testing.fakes import ScriptedModel, call
from saved import answer_stored


async def test_a_tool_whose_definition_changed_is_not_called_before_it_was_offered_anew():
    async with using(one=peer()) as used:
        before, old = used.sources["one"].revision, used.tools["one__echo"]
        await used.call("one__change")
        await used.revised("one", before)

        used.tools["old"] = old
        with pytest.raises(ToolError, match="the definition of 'echo' has changed since it was offered"):
            await used.call("old", text="x")
        assert used.tools["one__echo"].spec.description == "[MCP server one] Another one."
        assert (await used.call("one__echo", text="x")).for_model == "x"


async def test_a_tool_that_is_gone_is_not_called():
    async with using(one=peer()) as used:
        before, old = used.sources["one"].revision, used.tools["one__echo"]
        await used.call("one__remove")
        await used.revised("one", before)

        assert "one__echo" not in used.tools
        used.tools["old"] = old
        with pytest.raises(ToolError, match="it does not offer 'echo' any more"):
            await used.call("old", text="x")


async def test_a_server_that_comes_back_as_another_is_seen_through():
    async with using(one=peer()) as used:
        await used.call("one__grow")
        await used.revised("one", 0)
        before, grown = used.sources["one"].revision, used.tools["one__grown"]
        with pytest.raises(ToolError, match="exit code 9"):
            await used.call("one__die")

        used.tools["grown"] = grown
        with pytest.raises(ToolError, match="it does not offer 'grown' any more"):
            await used.call("grown")
        assert (used.sources["one"].revision or 0) > (before or 0)


async def test_a_list_that_did_not_change_is_no_news():
    async with using(one=peer(allow=("counts", "grow"))) as used:
        await used.call("one__grow")
        listings = 1
        while listings == 1:
            listings = json.loads(str((await used.call("one__counts")).for_model))[1]

        assert used.sources["one"].revision == 0
        assert used.tools.keys() == {"one__counts", "one__grow"}


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_new_tool_is_there_once_the_server_said_so_over_http(protocol):
    async with (
        listening(made().streamable_http_app()) as url,
        using(web=Server(url=f"{url}/mcp", protocol=protocol)) as used,
    ):
        await used.call("web__grow")
        await used.revised("web", 0)

        assert (await used.call("web__grown")).for_model == "grown"


async def test_a_tool_of_another_command_is_another_tool():
    async with using(one=peer()) as used:
        first = used.tools["one__echo"].spec
    async with using(one=peer("old")) as used:
        second = used.tools["one__echo"].spec

    assert first.version == second.version
    assert first.extra != second.extra


READS = {name: ["network_read"] for name in ("change", "counts", "reshape", "retitle", "result")}
"""What the peer's helping tools do; echo declares no effects, so it asks."""
CHANGED = "MCP server 'one' has changed tools since they were offered: 'echo' ({}). What was approved"
CHANGES = [
    ("change", "its description"),
    ("reshape", "its schema"),
    ("retitle", "its definition"),
    ("result", "the schema of its results"),
]
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
@pytest.mark.parametrize(("changing", "what"), CHANGES)
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
    assert f"warning: {CHANGED.format('its description')}" in done.err


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
