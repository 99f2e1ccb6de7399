"""On every path, any composition of policies, in code and installed, comes to what the algebra says (rules 1 to 5)."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attacks
import pytest
from attacks import CHAINED, FAILURES, INSTALLED, LATE, NAMES, RUBBISH, Member, outcome, playing
from hypothesis import HealthCheck, example, given, settings, strategies as st
from pluggent_hookspecs import Allow, Ask, Deny, Respond, tool
from pluggent_host import HostSettings, Why
from pluggent_host.settings import Grants, Timeouts
from pluggent_plugin_loader.discovery import Discovery, discover
from pluggent_testing.fakes import call
from policy_rules import ASKS, hooked
from policy_stage import stage

HOOKS = (*sorted(CHAINED), "decide_model_response", "decide_tool_result", "decide_output")
OF_CALLS = ("decide_tool_call", "decide_tool_result")

NONE_OF_IT = (None, Allow())
MOODS = {
    "agreeing": st.sampled_from(NONE_OF_IT),
    "asking": st.sampled_from([*NONE_OF_IT, Ask("may I?")]),
    "answering": st.sampled_from([None, Respond("cached"), Respond("other"), Ask("may I?")]),
    "denying": st.sampled_from([*NONE_OF_IT, Deny("no"), Ask("may I?"), Respond("cached")]),
    "failing": st.one_of(st.sampled_from(NONE_OF_IT), st.sampled_from([*FAILURES, *RUBBISH, LATE])),
}
"""What the members of a composition may answer; drawn for all of them, or nearly every composition would deny."""
FORMS = ("sync", "async", "waiting", "lazy")


@st.composite
def compositions(draw: st.DrawFn) -> list[Member]:
    """Return members in the order of their registration; who comes after whom forms no circle."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    answers = MOODS[draw(st.sampled_from(sorted(MOODS)))]
    members: list[Member] = []
    for place, name in enumerate(names):
        bands = ("normal", "late", "security") + (("host-first", "host-last") if name.startswith("app:") else ())
        after = draw(st.lists(st.sampled_from(names[:place]), unique=True)) if place else []
        form, band = draw(st.sampled_from(FORMS)), draw(st.sampled_from(bands))
        members.append(Member(name, draw(answers), form, band, tuple(after)))
    return draw(st.permutations(members))


ALLOWING, LATECOMER = [Member("acme-a", Allow())], [Member("acme-m", LATE), Member("app:b_member", Allow())]
RIVALS = [Member("acme-a", Respond("cached")), Member("app:y_member", Respond("other"))]
subsets = st.one_of(st.just(()), st.just(INSTALLED), st.lists(st.sampled_from(INSTALLED), unique=True).map(tuple))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Discovery]:
    """Return three installed distributions that are what the composition says."""
    folder: Path = tmp_path_factory.mktemp("site")
    with attacks.installed(folder):
        yield discover([str(folder)])


def timeouts(members: Sequence[Member]) -> Timeouts:
    """Return a short deadline if one is late, which makes all behind it late: a denial in any case."""
    return Timeouts(hook_s=0.02 if any(member.answer == LATE for member in members) else 60.0)


async def came_of(
    hook: str, members: Sequence[Member], ran: list[str], way: str = "say", **options: Any
) -> str:  # fmt: skip
    """Run a turn in which everything is decided about; return what came of that which *hook* decides."""
    passed: list[object] = []

    @tool(effects=())
    def danger(path: str) -> str:
        """Do it."""
        ran.append(path)
        return "did it"

    async def around(event: Any, call_next: Any) -> Any:
        passed.append(event)
        return await call_next()

    passes = hooked(name="Passes", transform_tool_call=lambda _: {"path": "y"}, around_tool_call=around)
    with playing(members, hook) as plugins:
        async with stage(call("danger", path="x"), "done", plugins=[*plugins, passes], tools=[danger], **options) as on:
            told, result = "", None
            if way == "call_tool":
                told = str((await on.session.call_tool("danger", {"path": "x"})).for_model)
            elif way == "stream":
                async with on.session.stream("go") as events:
                    _ = [event async for event in events]
                result = events.result
            else:
                result = await on.session.say("go")
            # Every policy is heard, and what runs has passed the around hooks.
            votes = [{vote.plugin for vote in made.votes} for made in on.decisions()]
            assert any({member.name for member in members} <= heard for heard in votes)
            assert len(passed) == len(ran)
            if hook in OF_CALLS:
                told = told or (on.read_by_model() or ["Denied: the turn ended"])[0]
                if told.startswith(("Denied:", "The result of this call was withheld", "This call needs")):
                    return "denied"
                return "run" if told == "did it" else told
    assert result is not None
    if result.why is Why.DENIED:
        return "denied"
    return "run" if result.text == "done" else result.text


@pytest.mark.parametrize("hook", HOOKS)
@given(
    members=compositions(), may_allow=subsets, may_respond=subsets, host_asks=st.booleans(),
    approved=st.sampled_from([True, False, None, "yes", 1]), way=st.sampled_from(["say", "stream", "call_tool"]),
)  # fmt: skip
@example(ALLOWING, (), (), None, True, "say")
@example(ALLOWING, ("acme-a",), (), None, True, "say")
@example([Member("acme-z", Ask("may I?"))], (), (), "yes", False, "say")
@example(LATECOMER, (), (), True, False, "say")
@example(RIVALS, (), INSTALLED, True, False, "say")
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_composition_comes_to_what_the_algebra_says(
    found: Discovery, hook: str, members: list[Member], may_allow: tuple[str, ...], may_respond: tuple[str, ...],
    approved: object, host_asks: bool, way: str,
) -> None:  # fmt: skip
    host_asks = host_asks and hook == "decide_tool_call"
    way = "say" if way == "call_tool" and hook not in OF_CALLS else way
    config = HostSettings(
        grants=Grants(security=INSTALLED, may_allow=may_allow, may_respond=may_respond),
        effects=ASKS.effects if host_asks else {}, timeouts=timeouts(members),
    )  # fmt: skip
    ran: list[str] = []

    came = asyncio.run(
        came_of(hook, members, ran, way, config=config, approver=lambda _: approved, installed=found)
    )  # fmt: skip

    expected = outcome(
        hook, members, may_allow=may_allow, may_respond=may_respond, approved=approved, host_asks=host_asks
    )
    assert came == expected
    # What has happened: a call runs unless it, or anything before it, was denied or answered.
    happens = expected == "run" or hook in ("decide_tool_result", "decide_output")
    assert ran == (["y"] if happens else [])


@given(members=compositions(), other=st.randoms())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_same_votes_come_to_the_same_by_any_plugin_in_any_place(
    found: Discovery, members: list[Member], other: Any
) -> None:
    grants = Grants(security=INSTALLED, may_allow=INSTALLED, may_respond=INSTALLED)
    config = HostSettings(grants=grants, timeouts=timeouts(members))
    answers = [member.answer for member in members]
    other.shuffle(answers)
    exchanged = [Member(each.name, answer, each.form) for each, answer in zip(members, answers, strict=True)]

    def came(composition: list[Member]) -> str:
        options: dict[str, Any] = {"config": config, "approver": lambda _: True, "installed": found}
        return asyncio.run(came_of("decide_tool_call", composition, [], **options))

    assert came(members) == came(exchanged)
