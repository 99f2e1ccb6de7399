"""What a person agreed to when a turn began is sealed with the pause that carries it."""

import json
from pathlib import Path
from typing import Any

import pytest
from pluggent_hookspecs import Ask, hookimpl, tool
from pluggent_hookspecs.errors import SessionError
from pluggent_host import Host, HostSettings, Why
from pluggent_testing.fakes import ScriptedModel, call

PAUSING = HostSettings(on_ask="pause")


class Asks:
    @hookimpl
    def decide_input(self, event: Any) -> Ask:
        return Ask("may this be said?")

    @hookimpl
    def decide_tool_call(self, event: Any) -> Ask:
        return Ask("it sends")


@tool(effects=())
def send() -> str:
    """Send."""
    return "sent"


@pytest.mark.parametrize("forged", [False, True])
async def test_an_agreement_that_somebody_wrote_into_a_pause_does_not_count(tmp_path: Path, forged: bool):
    def host(*replies: Any) -> Any:
        return Host.open(
            model="scripted/m", plugins=[ScriptedModel(*replies), Asks()], tools=[send], installed=False,
            state_dir=tmp_path, config=PAUSING,
        )  # fmt: skip

    async with host(call("send")) as opened, await opened.session("s") as session:
        (said,) = (await session.say("go")).pending
        (sends,) = (await session.resume({said.call_id: True})).pending
    path = tmp_path / "sessions" / "s.jsonl"
    *lines, last = path.read_text().splitlines(keepends=True)
    paused = json.loads(last)
    assert paused["terms"]["agreed"]["by"] == "application"
    if forged:
        paused["terms"]["agreed"]["by"] = "boss"
        path.write_text("".join([*lines, json.dumps(paused) + "\n"]))

    async with host("done") as opened, await opened.session("s") as session:
        if forged:
            with pytest.raises(SessionError, match="the seal of the pause does not fit"):
                await session.resume({sends.call_id: True})
        else:
            assert (await session.resume({sends.call_id: True})).why is Why.COMPLETED
