"""The rules of arguments that are read once, frozen, digested and approved: rules 10 and 11."""

import asyncio
import json
from typing import Any

import pytest
from each_of import each_of
from hypothesis import given, settings, strategies as st
from pluggent_hookspecs import ApprovalEvent, Ask, Deny, ModelParameters, ToolCall, tool
from pluggent_testing.fakes import Recorder, call
from policy_rules import ASKS, agreeing, deciding, hooked, yes
from policy_stage import Danger, reach, results, said, stage

# ---- rule 10: one reading of the arguments

DEEP = "[" * 100 + "]" * 100


@each_of(
    "text",
    [
        '{"path": NaN}', '{"path": Infinity}', '{"path": -Infinity}', '{"path": "\\ud800"}', '{"path": "\ud800"}',
        '{"path": 1}', "[]", "null", '"path"', '{"path": "x"} {"path": "y"}', "{'path': 'x'}", '{"path": "x",}', "{",
        f'{{"path": {DEEP}}}', '{"path": "x", "more": 1}', "{}", '{"path": "x" /* , "path": "y" */}',
        '[{"path": "x"}]', '\ufeff{"path": "x"}', '{"path": "x"}\x00{"path": "y"}', f'{{"path": {"9" * 5000}}}',
        '{"path": "x", "p\N{CYRILLIC SMALL LETTER A}th": "y"}',
    ],
)  # fmt: skip
async def test_arguments_that_are_not_strictly_right_run_nothing(text: str):
    danger = Danger(effects=())

    async with stage(ToolCall("c", "danger", text), tools=danger.tools()) as on:
        await on.session.say("go")
        output = await on.session.call_tool("danger", text)

    assert (danger.ran, on.decisions("tool_call"), output.is_error) == ([], [], True)
    assert "invalid arguments" in results(on.session.history)[0]


@each_of("key", ["path", "p\\u0061th"])
async def test_policy_and_tool_see_the_same_value_of_a_duplicate_key(key: str):
    danger, seen = Danger(effects=()), []

    def note(event: Any) -> None:
        seen.append((dict(event.arguments), event.arguments_json))

    text = f'{{"path": "good", "{key}": "evil"}}'
    await said(ToolCall("c", "danger", text), tools=danger.tools(), plugins=[hooked(decide_tool_call=note)])

    assert seen == [({"path": "evil"}, b'{"path":"evil"}')]
    assert danger.ran == ["evil"]


async def test_defaults_and_coercions_are_there_before_the_first_hook():
    seen: list[bytes] = []

    @tool(effects=())
    async def fetch(limit: float, unit: str = "km") -> str:
        """Fetch."""
        return f"{limit!r} {unit}"

    def note(event: Any) -> None:
        seen.append(event.arguments_json)

    watcher = hooked(transform_tool_call=note, decide_tool_call=note)
    on, _ = await said(call("fetch", limit=3), tools=[fetch], plugins=[watcher])

    assert seen[0] == seen[1]
    assert b'"unit":"km"' in seen[0]
    assert on.read_by_model() == ["3.0 km"]


def fails(event: object) -> None:
    raise ValueError("broken")


@each_of(
    "value",
    [
        {}, {"path": 1}, {"path": "x", "more": 1}, {"path": float("nan")}, {"path": "\ud800"}, {"path": object()},
        [("path", "x")], "path", 5, True, {"path": ["x"]}, {1: "x"}, fails,
    ],
)  # fmt: skip
async def test_what_a_transform_returns_is_checked_like_the_models_own_arguments(value: Any):
    seen = await reach("say", [hooked(name="Rewriter", transform_tool_call=value)])

    (told,) = seen.told
    assert seen.ran == ()
    assert "Denied" in told
    assert value is not fails or "app:rewriter" in told


async def test_big_integers_survive_the_freeze():
    got: list[int] = []

    @tool(effects=())
    async def count(number: int) -> None:
        """Count."""
        got.append(number)

    await said(ToolCall("c", "count", f'{{"number": {2**200 + 1}}}'), tools=[count], plugins=[Recorder()])

    assert got == [2**200 + 1]


LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)  # fmt: skip
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
@settings(max_examples=60, deadline=None)
def test_what_the_policy_saw_is_what_the_tool_gets(arguments: dict[str, Any]):
    got, seen = list[Any](), list[bytes]()

    @tool(effects=())
    async def take(value: dict[str, Any]) -> None:
        """Take it."""
        got.append(value)

    async def main() -> None:
        policy = hooked(decide_tool_call=lambda event: seen.append(event.arguments_json))
        async with stage(tools=[take], plugins=[policy]) as on:
            await on.session.call_tool("take", {"value": arguments})

    asyncio.run(main())

    assert got == [json.loads(seen[0])["value"]]


# ---- rule 11: digests


async def digest_of_call(
    path: str = "x", session: str = "s", effects: tuple[str, ...] | None = (), id: str = "c",
    description: str = "Do it.", name: str = "danger", before: int = 0,
) -> str:  # fmt: skip
    async def run(path: str) -> str:
        return path

    run.__doc__ = description
    skipped = (call(name, f"skipped-{number}", path="y") for number in range(before))
    calls = (*skipped, call(name, id, path=path))
    on, _ = await said(calls, tools=[tool(name=name, effects=effects)(run)], id=session)
    return on.decisions("tool_call")[before].digest


async def digest_of_request(text: str = "go", session: str = "s", tools: bool = False, **parameters: Any) -> str:
    async with stage("hello", id=session, tools=Danger().tools() if tools else ()) as on:
        await on.session.say(text, parameters=ModelParameters(**parameters))
    return on.decisions("model_call")[0].digest


@each_of(
    ("digest", "parts"),
    [
        (digest_of_call, [{}, {"path": "y"}, {"session": "t"}, {"effects": ("shell",)}, {"effects": None}, {"id": "d"},
                          {"description": "Do something else."}, {"name": "other"}, {"before": 1}]),
        (digest_of_request, [{}, {"text": "stop"}, {"session": "t"}, {"tools": True}, {"temperature": 0.0},
                             {"temperature": 1.0}, {"extra": {"a": 1}}, {"extra": {"a": 2}},
                             {"output_schema": {"type": "object"}}, {"stop": ("a",)}]),
    ],
)  # fmt: skip
async def test_a_digest_depends_on_each_of_its_parts(digest: Any, parts: list[Any]):
    digests = [await digest(**part) for part in parts]

    assert len(set(digests)) == len(digests)
    assert await digest() == digests[0]


async def test_an_approval_is_for_one_call_and_the_next_one_is_asked_about_again():
    danger, asked = Danger(), list[ApprovalEvent]()

    calls = [call("danger", id, path="x") for id in ("one", "two")]
    on, _ = await said(*calls, tools=danger.tools(), config=ASKS, approver=agreeing(asked))

    assert danger.ran == ["x", "x"]
    digests = {event.digest for event in asked}
    assert len(digests) == 2
    assert digests <= {made.digest for made in on.decisions("tool_call")}


@pytest.mark.parametrize(
    ("later", "ran"),
    [(None, ["x"]), (Ask("really?"), ["x"]), (Deny("closed meanwhile"), []), (Ask("something else?"), [])],
    ids=["no opinion", "the same question", "deny", "another question"],
)
async def test_after_a_long_thought_policies_are_asked_again(
    later: object, ran: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pluggent_host.operations.pipeline.STALE_S", -1.0)  # every answer was given late
    danger, policy = Danger(()), deciding("decide_tool_call", Ask("really?"), later)

    on, _ = await said(call("danger", path="x"), tools=danger.tools(), plugins=[policy], approver=yes)

    assert danger.ran == ran
    assert len(results(on.session.history)) == 1


async def test_the_digest_of_the_chains_is_recorded():
    on, _ = await said("hello", plugins=[deciding("decide_input", None)])

    begun = [entry for entry in on.session.records() if type(entry).__name__ == "TurnBegan"]
    assert [getattr(entry, "chains", "") for entry in begun] == [on.host.chains.digest]
