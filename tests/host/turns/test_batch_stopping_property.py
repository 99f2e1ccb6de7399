"""Whatever a batch is made of, nothing behind a call that stops it begins before that call has succeeded."""

import asyncio
from typing import Any

import attrs
from hypothesis import given, settings, strategies as st
from pluggent_hookspecs import ApprovalEvent, Ask, Deny, ToolCall, hookimpl, tool
from pluggent_host import HostSettings, Limits, Session
from pluggent_host.settings import ToolLimits
from pluggent_host.transcript.entries import Dispatched, Settled
from pluggent_testing.fakes import call
from talking import assert_whole, talking

RUNS, FAILS, NO_SUCH, BAD, LIMITED, DENIED, YES, NO = (
    "runs",
    "fails",
    "no such",
    "bad",
    "limited",
    "denied",
    "yes",
    "no",
)
FATES = (RUNS, RUNS, FAILS, NO_SUCH, BAD, LIMITED, DENIED, YES, NO)
WIDE = Limits(asks=99, denials=99, per_tool={})


@attrs.frozen
class One:
    """One call of a batch: what becomes of it if it is its turn, and how its tool is marked."""

    number: int
    fate: str
    stops: bool
    named: bool
    exclusive: bool
    effects: tuple[str, ...]
    concurrent: bool

    @property
    def name(self) -> str:
        return f"t{self.number}"

    @property
    def gates(self) -> bool:
        """Whether it stops the batch; of a tool that is not there only the operator can say so."""
        return self.named or (self.stops and self.fate != NO_SUCH)

    @property
    def call(self) -> ToolCall:
        return call(self.name, self.name, more=1) if self.fate == BAD else call(self.name, self.name)


batches = st.lists(
    st.tuples(
        st.sampled_from(FATES), st.booleans(), st.booleans(), st.booleans(),
        st.sampled_from([(), ("shell",)]), st.booleans(),
    ),
    min_size=1,
    max_size=7,
).map(lambda drawn: [One(number, *each) for number, each in enumerate(drawn)])  # fmt: skip


class World:
    """The tools and the policy of one batch, and a log of what began and ended."""

    def __init__(self, batch: list[One]) -> None:
        self.batch = batch
        self.log: list[tuple[str, int]] = []

    def tools(self) -> list[Any]:
        return [self._tool(one) for one in self.batch if one.fate != NO_SUCH]

    def _tool(self, one: One) -> Any:
        async def run() -> str:
            """Run."""
            self.log.append(("begins", one.number))
            for _ in range(3):
                await asyncio.sleep(0)
            self.log.append(("ends", one.number))
            if one.fate == FAILS:
                raise ValueError("no")
            return one.name

        marks: dict[str, Any] = {"effects": one.effects, "concurrent": one.concurrent, "exclusive": one.exclusive}
        return tool(name=one.name, stops_batch=one.stops, **marks)(run)

    @hookimpl
    def decide_tool_call(self, event: Any) -> Any:
        one = self.batch[int(event.tool.name[1:])]
        return Ask("?") if one.fate in (YES, NO) else Deny("no") if one.fate == DENIED else None

    def agrees(self, name: str) -> bool:
        return self.batch[int(name[1:])].fate == YES

    @property
    def config(self) -> HostSettings:
        limited = {one.name: ToolLimits(calls=0) for one in self.batch if one.fate == LIMITED}
        named = tuple(f"*{one.name}" for one in self.batch if one.named)
        return HostSettings(limits=WIDE._replace(per_tool=limited), stops_batch=named)

    def expected(self) -> list[str]:
        """Return the outcome of every call, as the record has it."""
        own = {
            RUNS: "", YES: "", FAILS: "failed", NO: "denied", DENIED: "denied",
            NO_SUCH: "unknown_tool", BAD: "invalid_arguments", LIMITED: "limit",
        }  # fmt: skip
        at_once = {NO_SUCH, BAD, LIMITED, DENIED}
        stopped, outcomes = False, list[str]()
        for one in self.batch:
            outcomes.append("skipped" if stopped and one.fate not in at_once else own[one.fate])
            stopped = stopped or (one.gates and bool(outcomes[-1]))
        return outcomes

    def check(self, session: Session) -> None:
        assert_whole(session.history)
        settled = {entry.call_id: entry.outcome for entry in session.records() if isinstance(entry, Settled)}
        # What a person has refused stays refused, also where it would not have run in any case.
        refused = {one.name for one in self.batch if one.fate == NO and settled[one.name] == "denied"}
        for one, expected in zip(self.batch, self.expected(), strict=True):
            assert settled[one.name] == ("denied" if one.name in refused else expected)
        began = [number for what, number in self.log if what == "begins"]
        ran = [number for number, outcome in enumerate(self.expected()) if self.batch[number].fate in (RUNS, FAILS, YES)
               and outcome in ("", "failed")]  # fmt: skip
        assert sorted(began) == ran, "each ran once, or not at all"
        for gate in self.batch:
            if gate.gates:
                self._nothing_overtakes(gate, session)

    def _nothing_overtakes(self, gate: One, session: Session) -> None:
        behind = range(gate.number + 1, len(self.batch))
        if ("ends", gate.number) in self.log:
            before = self.log[: self.log.index(("ends", gate.number))]
            assert not any(number in behind for _, number in before), "it began before the gate had ended"
        seen = {one.name: one.number for one in self.batch}
        over = False
        for entry in session.records():
            if isinstance(entry, Settled) and entry.call_id == gate.name:
                over = True
            if isinstance(entry, Dispatched):
                assert over or not any(seen[id] in behind for id, _, _ in entry.calls), "dispatched before"


@settings(max_examples=150, deadline=None)
@given(batches)
def test_nothing_overtakes_a_call_that_stops_the_batch(batch: list[One]) -> None:
    async def run() -> None:
        world = World(batch)

        def approve(event: ApprovalEvent) -> bool:
            return world.agrees(event.capability.rpartition("/")[2])

        async with talking(
            tuple(one.call for one in batch), "done", tools=world.tools(), plugins=[world], config=world.config,
            approver=approve,
        ) as session:  # fmt: skip
            await session.say("go")
            world.check(session)

    asyncio.run(run())


@settings(max_examples=150, deadline=None)
@given(batches, st.lists(st.booleans(), max_size=4))
def test_nothing_overtakes_it_where_a_person_answers_later_in_several_parts(
    batch: list[One], answered: list[bool]
) -> None:
    async def run() -> None:
        world = World(batch)
        config = world.config._replace(on_ask="pause")

        async with talking(
            tuple(one.call for one in batch), "done", tools=world.tools(), plugins=[world], config=config
        ) as session:
            result = await session.say("go")
            for all_at_once in [*answered, *[False] * len(batch)]:
                if session.paused:
                    asked = session.pending if all_at_once else session.pending[:1]
                    result = await session.resume({each.call_id: world.agrees(each.name) for each in asked})
            assert (result.pending, session.paused) == ((), False)
            world.check(session)

    asyncio.run(run())
