"""pluggent as a peer of the bench harness: the same work as other agent runtimes, through our public API.

Add a line to the harness' table of peers, with this file's absolute path as "runner" and a "venv"
into which the members are installed, then name the peer among those that are to run:

    "pluggent": {"venv": "pluggent", "runner": "/…/tests/benchmarks/run_pluggent.py", "requires": []}

Alone, against the harness' server, with the harness' folder on PYTHONPATH:

    python tests/benchmarks/run_pluggent.py --base-url http://127.0.0.1:8765/try/v1 --scenario s3
"""

import os
import sys
from contextlib import AsyncExitStack

# The harness runs in its own folder; a runner that lives elsewhere finds it there.
sys.path.insert(0, os.getcwd())  # noqa: PTH109 (pathlib would count as our start-up)

from harness import KEY, Peer, main  # pyright: ignore[reportMissingImports]


class Agent:
    """A host for one specification, opened by its first turn: building an agent is not async there."""

    def __init__(self, opening):
        self.opening = opening
        self.host = None


class Pluggent(Peer):
    name = "pluggent"

    def load(self):
        import pluggent_host

        os.environ.setdefault("OPENAI_API_KEY", KEY)
        self.lib = pluggent_host
        self.Host, self.Limits = pluggent_host.Host, pluggent_host.Limits

    async def open(self):
        self.hosts = AsyncExitStack()

    def build(self, spec):
        from pluggent_hookspecs import tool

        return Agent(
            self.Host.open(
                model=f"openai/{spec.model}",
                system=spec.system,
                tools=[tool(name=name, effects=())(function) for name, function in self.functions(spec).items()],
                settings={"pluggent-openai": {"base_url": spec.base_url, "api_key": "env:OPENAI_API_KEY"}},
                limits=self.Limits(tool_rounds=50),
            )
        )

    async def session(self, agent, history=()):
        if agent.host is None:
            agent.host = await self.hosts.enter_async_context(agent.opening)
        return await agent.host.session(history=history)

    async def turn(self, agent, prompt, history=None):
        session = await self.session(agent, history or ())
        try:
            return (await session.say(prompt)).text
        finally:
            await session.aclose()

    async def stream(self, agent, prompt):
        from pluggent_hookspecs import TextShown

        session = await self.session(agent)
        try:
            async with session.stream(prompt) as events:
                parts = [event.text async for event in events if isinstance(event, TextShown)]
        finally:
            await session.aclose()
        return "".join(parts), len(parts)

    def history(self, pairs):
        from pluggent_hookspecs import Message

        return tuple(
            message for user, assistant in pairs for message in (Message.user(user), Message.assistant(assistant))
        )

    async def close(self):
        await self.hosts.aclose()

    def version(self):
        return self.lib.__version__


if __name__ == "__main__":
    main(Pluggent)
