"""The rules of arguments that are read once, frozen and digested: rules 10 and 11."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from naming import shown
from pluggent_hookspecs import ApprovalEvent, ModelParameters, ToolCall, hookimpl, tool
from pluggent_testing.fakes import Recorder, call
from policy_rules import ASKS, deciding
from policy_stage import Danger, reach, results, stage

# ---- rule 10: one reading of the arguments


@pytest.mark.parametrize(
    "text",
    [
        '{"path": NaN}', '{"path": Infinity}', '{"path": -Infinity}', '{"path": "\\ud800"}',
        '{"path": 1}', "[]", "null", '"path"', '{"path": "x"} {"path": "y"}', "{'path': 'x'}", '{"path": "x",}', "{",
        '{"path": ' + "[" * 100 + "]" * 100 + "}", '{"path": "x", "more": 1}', "{}",
    ],
    ids=lambda text: ascii(text)[:30],
)  # fmt: skip
async def test_arguments_that_are_not_strictly_right_run_nothing(text: str) -> None:
    danger, decided = Danger(effects=()), Recorder()

    async with stage(ToolCall("c", "danger", text), tools=danger.tools(), plugins=[decided]) as on:
        await on.session.say("go")
        await on.session.call_tool("danger", text)

    assert danger.ran == []
    assert on.decisions("tool_call") == []
    assert "invalid arguments" in results(on.session.history)[0]


async def test_half_a_character_in_arguments_is_not_mended_but_refused() -> None:
    danger = Danger(effects=())

    half = ToolCall("c", "danger", '{"path": "\ud800"}')
    async with stage(half, tools=danger.tools()) as on:
        await on.session.say("go")
        output = await on.session.call_tool("danger", half.arguments)

    assert danger.ran == []
    assert output.is_error
    assert "invalid arguments" in results(on.session.history)[0]


async def test_policy_and_tool_see_the_same_value_of_a_duplicate_key() -> None:
    danger, seen = Danger(effects=()), []

    class Policy:
        @hookimpl
        def decide_tool_call(self, event):
            seen.append((dict(event.arguments), event.arguments_json))

    twice = ToolCall("c", "danger", '{"path": "good", "path": "evil"}')
    async with stage(twice, tools=danger.tools(), plugins=[Policy()]) as on:
        await on.session.say("go")

    assert seen == [({"path": "evil"}, b'{"path":"evil"}')]
    assert danger.ran == ["evil"]


async def test_defaults_and_coercions_are_there_before_the_first_hook() -> None:
    seen: list[bytes] = []

    @tool(effects=())
    async def fetch(limit: float, unit: str = "km") -> str:
        """Fetch."""
        return f"{limit!r} {unit}"

    class Watcher:
        @hookimpl
        def transform_tool_call(self, event):
            seen.append(event.arguments_json)

        @hookimpl
        def decide_tool_call(self, event):
            seen.append(event.arguments_json)

    async with stage(call("fetch", limit=3), tools=[fetch], plugins=[Watcher()]) as on:
        await on.session.say("go")

    assert seen[0] == seen[1]
    assert b'"unit":"km"' in seen[0]
    assert on.read_by_model() == ["3.0 km"]


@pytest.mark.parametrize(
    "value",
    [
        {}, {"path": 1}, {"path": "x", "more": 1}, {"path": float("nan")}, {"path": "\ud800"}, {"path": object()},
        [("path", "x")], "path", 5, True, {"path": ["x"]}, {1: "x"},
    ],
    ids=shown,
)  # fmt: skip
async def test_what_a_transform_returns_is_checked_like_the_models_own_arguments(value: Any) -> None:
    class Rewriter:
        @hookimpl
        def transform_tool_call(self, event):
            return value

    seen = await reach("say", [Rewriter()])

    assert seen.ran == ()
    assert len(seen.told) == 1
    assert "Denied" in seen.told[0]


async def test_a_transform_that_fails_runs_nothing_and_names_its_plugin() -> None:
    class Broken:
        @hookimpl
        def transform_tool_call(self, event):
            raise ValueError("broken")

    seen = await reach("say", [Broken()])

    assert seen.ran == ()
    assert "app:broken" in seen.told[0]


async def test_big_integers_survive_the_freeze() -> None:
    got: list[int] = []

    @tool(effects=())
    async def count(number: int) -> str:
        """Count."""
        got.append(number)
        return "counted"

    number = 2**200 + 1
    async with stage(ToolCall("c", "count", f'{{"number": {number}}}'), tools=[count], plugins=[Recorder()]) as on:
        await on.session.say("go")

    assert got == [number]


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
@settings(max_examples=60, deadline=None)
def test_what_the_policy_saw_is_what_the_tool_gets(arguments: dict[str, Any]) -> None:
    got: list[Any] = []
    seen: list[bytes] = []

    @tool(effects=())
    async def take(value: dict[str, Any]) -> str:
        """Take it."""
        got.append(value)
        return "taken"

    class Policy:
        @hookimpl
        def decide_tool_call(self, event):
            seen.append(event.arguments_json)

    async def main() -> None:
        async with stage(tools=[take], plugins=[Policy()]) as on:
            await on.session.call_tool("take", {"value": arguments})

    asyncio.run(main())

    assert got == [json.loads(seen[0])["value"]]


# ---- rule 11: digests


async def digest_of(
    path: str = "x", session: str = "s", effects: tuple[str, ...] | None = (), id: str = "c",
    description: str = "Do it.", name: str = "danger", before: int = 0,
) -> str:  # fmt: skip
    async def run(path: str) -> str:
        return path

    run.__doc__ = description
    marked = tool(name=name, effects=effects)(run)
    skipped = (call(name, f"skipped-{number}", path="y") for number in range(before))
    calls = (*skipped, call(name, id, path=path))
    async with stage(calls, tools=[marked], id=session) as on:
        await on.session.say("go")
    return on.decisions("tool_call")[before].digest


async def test_the_digest_depends_on_each_of_its_parts() -> None:
    digests = [
        await digest_of(),
        await digest_of(path="y"),
        await digest_of(session="t"),
        await digest_of(effects=("shell",)),
        await digest_of(effects=None),
        await digest_of(id="d"),
        await digest_of(description="Do something else."),
        await digest_of(name="other"),
        await digest_of(before=1),
    ]

    assert len(set(digests)) == len(digests)
    assert await digest_of() == digests[0]


async def test_the_digest_of_a_model_request_depends_on_each_of_its_parts() -> None:
    async def digest(text: str = "go", session: str = "s", tools: bool = False, **parameters: Any) -> str:
        async with stage("hello", id=session, tools=Danger().tools() if tools else ()) as on:
            await on.session.say(text, parameters=ModelParameters(**parameters))
        return on.decisions("model_call")[0].digest

    digests = [
        await digest(),
        await digest("stop"),
        await digest(session="t"),
        await digest(tools=True),
        await digest(temperature=0.0),
        await digest(temperature=1.0),
        await digest(extra={"a": 1}),
        await digest(extra={"a": 2}),
        await digest(output_schema={"type": "object"}),
        await digest(stop=("a",)),
    ]

    assert len(set(digests)) == len(digests)
    assert await digest() == digests[0]


async def test_an_approval_is_for_one_call_and_the_next_one_is_asked_about_again() -> None:
    danger = Danger()
    asked: list[ApprovalEvent] = []

    def approve(event: ApprovalEvent) -> bool:
        asked.append(event)
        return True

    calls = [call("danger", "one", path="x"), call("danger", "two", path="x")]
    async with stage(*calls, tools=danger.tools(), config=ASKS, approver=approve) as on:
        await on.session.say("go")

    assert danger.ran == ["x", "x"]
    assert len({event.digest for event in asked}) == 2
    made = {made.digest for made in on.decisions("tool_call")}
    assert {event.digest for event in asked} <= made


async def test_the_digest_of_the_chains_is_recorded() -> None:
    async with stage("hello", plugins=[deciding("decide_input", None)]) as on:
        await on.session.say("go")

    begun = [entry for entry in on.session.records() if type(entry).__name__ == "TurnBegan"]
    assert [getattr(entry, "chains", "") for entry in begun] == [on.host.chains.digest]
