"""Whatever a batch is made of, nothing behind a call that stops it begins before that call has succeeded."""

import asyncio
from typing import Any

import attrs
from fake_plugins import plugin
from hypothesis import given, settings, strategies as st
from pluggent_hookspecs import Ask, Deny, tool
from pluggent_host import HostSettings, Limits, Session
from pluggent_testing.fakes import call
from pluggent_transcript.entries import Dispatched, Settled
from pluggent_transcript.limits import ToolLimits
from talking import assert_whole, talking

OUTCOMES = {
    "runs": "", "yes": "", "fails": "failed", "no": "denied", "denied": "denied", "no such": "unknown_tool",
    "bad": "invalid_arguments", "limited": "limit",
}  # fmt: skip
"""What becomes of a call if it is its turn, and the outcome on record."""
AT_ONCE = {"no such", "bad", "limited", "denied"}
"""What is known before any call runs."""
DECISIONS: dict[str, Any] = {"yes": Ask("?"), "no": Ask("?"), "denied": Deny("no")}


@attrs.frozen
class One:
    """One call of a batch: its fate, and how its tool is marked."""

    fate: str
    stops: bool
    named: bool
    exclusive: bool
    effects: tuple[str, ...] | None
    concurrent: bool

    @property
    def gates(self) -> bool:
        """Whether it stops the batch; of a tool that does not exist only the operator can say so."""
        return self.named or (self.stops and self.fate != "no such")


booleans = st.booleans()
ones = st.builds(
    One, st.sampled_from(["runs", *OUTCOMES]), booleans, booleans, booleans, st.sampled_from([(), None]), booleans
)
batches = st.lists(ones, min_size=1, max_size=7)


class World:
    """The tools and the policy of one batch, and a log of what began (True) and ended (False)."""

    def __init__(self, batch: list[One]) -> None:
        self.batch = {f"t{number}": one for number, one in enumerate(batch)}
        self.log: list[tuple[bool, str]] = []
        self.names = list(self.batch)

    def agrees(self, name: str) -> bool:
        return self.batch[name].fate == "yes"

    def talking(self, **options: Any) -> Any:
        """Open a session whose model makes the batch."""
        limited = {name: ToolLimits(calls=0) for name, one in self.batch.items() if one.fate == "limited"}
        config = HostSettings(
            limits=Limits(asks=99, denials=99, per_tool=limited), on_ask=options.pop("on_ask", "deny"),
            stops_batch=tuple(f"*{name}" for name, one in self.batch.items() if one.named),
        )  # fmt: skip
        policy = plugin(decide_tool_call=lambda event: DECISIONS.get(self.batch[event.tool.name].fate))
        calls = tuple(
            call(name, name, **({"more": 1} if one.fate == "bad" else {})) for name, one in self.batch.items()
        )
        tools = [self._tool(name, one) for name, one in self.batch.items() if one.fate != "no such"]
        return talking(calls, tools=tools, plugins=[policy], config=config, **options)

    def _tool(self, name: str, one: One) -> Any:
        marks: dict[str, Any] = {"effects": one.effects, "concurrent": one.concurrent, "exclusive": one.exclusive}

        @tool(name=name, stops_batch=one.stops, **marks)
        async def run() -> str:
            """Run."""
            self.log.append((True, name))
            for _ in range(3):
                await asyncio.sleep(0)
            self.log.append((False, name))
            if one.fate == "fails":
                raise ValueError("no")
            return name

        return run

    def expected(self) -> dict[str, str]:
        """Return the outcome of every call, as the record has it."""
        stopped, outcomes = False, dict[str, str]()
        for name, one in self.batch.items():
            outcomes[name] = "skipped" if stopped and one.fate not in AT_ONCE else OUTCOMES[one.fate]
            stopped = stopped or (one.gates and bool(outcomes[name]))
        return outcomes

    def check(self, session: Session) -> None:
        assert_whole(session.history)
        settled = {entry.call_id: str(entry.outcome) for entry in session.records() if isinstance(entry, Settled)}
        expected = self.expected()
        # What a person has refused stays refused, also where it would not have run in any case.
        refused = {name for name, one in self.batch.items() if one.fate == "no" and settled[name] == "denied"}
        assert settled == expected | dict.fromkeys(refused, "denied")
        ran = [name for name, one in self.batch.items() if expected[name] in ("", "failed")]
        assert sorted(name for begins, name in self.log if begins) == ran, "each ran once, or not at all"
        for number, name in enumerate(self.names):
            if self.batch[name].gates:
                self._nothing_overtakes(name, self.names[number + 1 :], session)

    def _nothing_overtakes(self, gate: str, behind: list[str], session: Session) -> None:
        before = self.log[: self.log.index((False, gate))] if (False, gate) in self.log else []
        assert not any(name in behind for _, name in before), "it began before the gate had ended"
        for entry in session.records():
            if isinstance(entry, Settled) and entry.call_id == gate:
                return
            if isinstance(entry, Dispatched):
                assert not any(id in behind for id, _, _ in entry.calls), "dispatched before"


@settings(max_examples=100, deadline=None)
@given(batches)
async def test_nothing_overtakes_a_call_that_stops_the_batch(batch: list[One]) -> None:
    world = World(batch)

    async with world.talking(approver=lambda event: world.agrees(event.capability.rpartition("/")[2])) as session:
        await session.say("go")

    world.check(session)


@settings(max_examples=100, deadline=None)
@given(batches, st.lists(booleans, max_size=4))
async def test_nothing_overtakes_it_where_a_person_answers_later_in_several_parts(
    batch: list[One], answered: list[bool]
) -> None:
    world = World(batch)

    async with world.talking(on_ask="pause") as session:
        result = await session.say("go")
        for all_at_once in [*answered, *[False] * len(batch)]:
            if session.paused:
                asked = session.pending if all_at_once else session.pending[:1]
                result = await session.resume({each.call_id: world.agrees(each.name) for each in asked})
        assert (result.pending, session.paused) == ((), False)

    world.check(session)
