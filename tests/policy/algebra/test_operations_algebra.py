"""Any composition of plugins obeys the algebra of decisions."""

import asyncio
from typing import Any

from hypothesis import given, settings, strategies as st
from pluggent_hookspecs import Allow, Ask, Deny, Respond, hookimpl
from pluggent_host.settings import HostSettings
from policy_stage import in_order, reach


class Member:
    """One plugin of a random composition."""

    def __init__(self, decision: object, is_async: bool, transforms: bool, log: list[str]) -> None:
        self.decision = decision
        self.is_async = is_async
        self.transforms = transforms
        self.log = log

    @hookimpl
    def transform_tool_call(self, event):
        self.log.append("transform")
        return {"path": event.arguments["path"] + "!"} if self.transforms else None

    @hookimpl
    def decide_tool_call(self, event):
        self.log.append(f"decide {event.arguments['path']}")
        if isinstance(self.decision, type) and issubclass(self.decision, BaseException):
            raise self.decision
        return self._later() if self.is_async else self.decision

    async def _later(self) -> object:
        await asyncio.sleep(0)
        return self.decision

    @hookimpl
    async def around_tool_call(self, event, call_next):
        self.log.append("around")
        return await call_next()


members = st.tuples(
    st.one_of(
        st.none(), st.just(Allow()), st.just(Deny("no")), st.just(Ask("?")), st.just(Respond("cached")),
        st.just(ValueError), st.just(True), st.just(asyncio.CancelledError),
    ),
    st.booleans(),
    st.booleans(),
)  # fmt: skip


def expected(decisions: list[object], approved: bool | None, host_asks: bool) -> str:
    if any(isinstance(item, type | bool | Deny) for item in decisions):
        return "denied"
    lifted = any(isinstance(item, Allow) for item in decisions)  # application code counts as the operator
    asked = any(isinstance(item, Ask) for item in decisions) or (host_asks and not lifted)
    if asked and not approved:
        return "denied"
    return "cached" if any(isinstance(item, Respond) for item in decisions) else "ran"


@given(
    st.lists(members, max_size=4),
    st.sampled_from([True, False, None]),
    st.booleans(),
    st.sampled_from(["say", "call_tool", "stream"]),
)
@settings(max_examples=150, deadline=None)
def test_any_composition_obeys_the_algebra(
    composition: list[tuple[object, bool, bool]], approved: bool | None, host_asks: bool, way: str
) -> None:
    log: list[str] = []
    plugins = in_order(*(Member(*parts, log) for parts in composition))
    config = HostSettings(effects={"app:tools:tool/danger": ("shell",)}) if host_asks else HostSettings()

    seen = asyncio.run(reach(way, plugins, config=config, approver=lambda _: approved))

    outcome = expected([decision for decision, _, _ in composition], approved, host_asks)
    path = "x" + "!" * sum(transforms for _, _, transforms in composition)
    assert seen.ran == ((path,) if outcome == "ran" else ())
    assert (seen.told == ("cached",)) is (outcome == "cached")
    assert log.count(f"decide {path}") >= len(composition)  # everybody is heard, on the frozen arguments
    assert [entry for entry in log if entry.startswith("decide")] == [f"decide {path}"] * log.count(f"decide {path}")
    assert log.count("around") == (len(composition) if outcome == "ran" else 0)


@given(st.lists(members, min_size=2, max_size=4), st.randoms())
@settings(max_examples=60, deadline=None)
def test_the_order_of_plugins_never_decides(composition: list[tuple[object, bool, bool]], shuffle: Any) -> None:
    other = list(composition)
    shuffle.shuffle(other)

    def outcome(parts: list[tuple[object, bool, bool]]) -> tuple[tuple[str, ...], bool]:
        seen = asyncio.run(reach("say", in_order(*(Member(*part, []) for part in parts))))
        return seen.ran, seen.told == ("cached",)

    assert outcome(composition) == outcome(other)
