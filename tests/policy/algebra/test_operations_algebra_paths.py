"""On every path, any composition of policies, in code and installed, comes to what the algebra says."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attack_members
import pytest
from attack_members import CHAINED, FAILURES, INSTALLED, LATE, NAMES, RUBBISH, Member, outcome, playing
from hypothesis import HealthCheck, example, given, settings, strategies as st
from pluggent_hookspecs import Allow, Ask, Deny, Respond, tool
from pluggent_host import HostSettings, Why
from pluggent_host.plugins.discovery import Discovery, discover
from pluggent_host.settings import Grants, Timeouts
from pluggent_testing.fakes import call
from policy_stage import Stage, stage

HOOKS = (*sorted(CHAINED), "decide_model_response", "decide_tool_result", "decide_output")
DANGER = "app:tools:tool/danger"

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
    with attack_members.installed(folder):
        yield discover([str(folder)])


async def came_of(hook: str, plugins: Sequence[object], ran: list[str], **options: Any) -> str:
    """Run a turn in which everything is decided about; return what came of that which *hook* decides."""

    @tool(effects=())
    def danger() -> str:
        """Do it."""
        ran.append("danger")
        return "did it"

    async with stage(call("danger"), "done", plugins=plugins, tools=[danger], **options) as on:
        result = await on.session.say("go")
        if hook in ("decide_tool_call", "decide_tool_result"):
            return _of_call(on, hook, ran)
        if result.why is Why.DENIED:
            return "denied"
        return "run" if result.text == "done" else result.text


def _of_call(on: Stage, hook: str, ran: list[str]) -> str:
    results = on.read_by_model()
    told = results[0] if results else "Denied: the turn ended"
    if told.startswith(("Denied:", "The result of this call was withheld", "This call needs")):
        return "denied"
    return "run" if told == "did it" else told


@pytest.mark.parametrize("hook", HOOKS)
@given(
    members=compositions(), may_allow=subsets, may_respond=subsets,
    approved=st.sampled_from([True, False, None, "yes", 1]), host_asks=st.booleans(),
)  # fmt: skip
@example(ALLOWING, (), (), None, True)
@example(ALLOWING, ("acme-a",), (), None, True)
@example([Member("acme-z", Ask("may I?"))], (), (), "yes", False)
@example(LATECOMER, (), (), True, False)
@example(RIVALS, (), INSTALLED, True, False)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_composition_comes_to_what_the_algebra_says(
    found: Discovery, hook: str, members: list[Member], may_allow: tuple[str, ...], may_respond: tuple[str, ...],
    approved: object, host_asks: bool,
) -> None:  # fmt: skip
    host_asks = host_asks and hook == "decide_tool_call"
    config = HostSettings(
        grants=Grants(security=INSTALLED, may_allow=may_allow, may_respond=may_respond),
        effects={DANGER: ("shell",)} if host_asks else {},
        # Whoever is late makes everybody behind him late, which is a denial in any case.
        timeouts=Timeouts(hook_s=0.02 if any(member.answer == LATE for member in members) else 60.0),
    )
    ran: list[str] = []

    with playing(members, hook) as plugins:
        came = asyncio.run(came_of(hook, plugins, ran, config=config, approver=lambda _: approved, installed=found))

    expected = outcome(
        hook, members, may_allow=may_allow, may_respond=may_respond, approved=approved, host_asks=host_asks
    )
    assert came == expected
    # What has happened: a call runs unless it, or anything before it, was denied or answered.
    happens = expected == "run" or hook in ("decide_tool_result", "decide_output")
    assert ran == (["danger"] if happens else [])


@given(members=compositions(), other=st.randoms())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_same_votes_come_to_the_same_whoever_casts_them_and_wherever_he_stands(
    found: Discovery, members: list[Member], other: Any
) -> None:
    config = HostSettings(
        grants=Grants(security=INSTALLED, may_allow=INSTALLED, may_respond=INSTALLED),
        timeouts=Timeouts(hook_s=0.02 if any(member.answer == LATE for member in members) else 60.0),
    )
    answers = [member.answer for member in members]
    other.shuffle(answers)
    exchanged = [Member(each.name, answer, each.form) for each, answer in zip(members, answers, strict=True)]

    def came(composition: list[Member]) -> str:
        with playing(composition, "decide_tool_call") as plugins:
            options: dict[str, Any] = {"config": config, "approver": lambda _: True, "installed": found}
            return asyncio.run(came_of("decide_tool_call", plugins, [], **options))

    assert came(members) == came(exchanged)
