"""A state folder that pluggent 0.1 wrote while the host still kept the files: one session waits, one is answered.

As a program it writes the folder anew: python tests/support/written_before.py FOLDER. Nothing should need that.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from pluggent_hookspecs import Approval, Ask, ToolCallEvent, hookimpl, tool
from pluggent_hookspecs.decisions import Reach
from pluggent_host import Host, HostSettings
from pluggent_testing.fakes import ScriptedModel, call
from transcript_file import answer_stored, waiting_in


class Office:
    """A tool that sends, and a policy that asks about it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent: list[str] = []

    @hookimpl
    def decide_tool_call(self, event: ToolCallEvent) -> Ask:
        return Ask("it sends")

    def host(self, *replies: Any) -> Any:
        @tool(effects=("messaging",), description="Send it.")
        def send(to: str) -> str:
            self.sent.append(to)
            return f"sent to {to}"

        return Host.open(
            model="scripted/m", plugins=[ScriptedModel(*replies), self], tools=[send], installed=False,
            config=HostSettings(on_ask="pause"), state_dir=self.folder,
        )  # fmt: skip


async def write(folder: Path) -> None:
    """Write the sessions ``waits``, ``answered`` and ``always``, with an approval that holds in all of them."""
    office = Office(folder)
    for id, to in (("waits", "ann"), ("answered", "bob"), ("always", "cat")):
        async with office.host(call("send", id, to=to)) as host, await host.session(id) as session:
            await session.say(f"write to {to}")
        waiting = waiting_in(folder / "sessions", id)
        if waiting is not None and id != "waits":
            reach: Reach = "always" if id == "always" else "once"
            where = {"to": "cat"} if id == "always" else {}
            approval = Approval(agreed=True, reach=reach, where=where)
            answer_stored(folder / "sessions", id, [waiting.calls[0].digest], approval, "terminal:ann")


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1])))
