"""Attempts to get a call that waits for a person to run otherwise than it was approved (rules 11, 16 and 41)."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from attacks import PAUSING, Workplace, about_write, answers, named
from fake_distributions import importable, install
from pluggent_hookspecs import Ask, Respond, ToolContext, errors, tool
from pluggent_host import Approval, Why
from pluggent_plugin_loader.discovery import discover
from pluggent_testing.fakes import call
from policy_rules import hooked
from saved import answer_stored
from talking import assert_whole

WRITE = call("write", text="a")
both_orders = pytest.mark.parametrize("name", ["A", "Z"])
both_forms = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


# ---- the file by hand


async def test_a_call_that_was_edited_in_the_file_does_not_run_as_another_tool(place: Workplace):
    await place.pause(WRITE)

    def edit(plain: dict[str, Any]) -> None:
        for each in plain["message"].get("tool_calls", []):
            each["name"] = "erase"

    place.edit("Said", edit)
    await place.resume("ok")

    assert place.done == []


async def test_an_approval_from_the_file_of_another_session_approves_nothing(place: Workplace):
    await place.pause(WRITE)
    place.store_answer(await place.pause(WRITE, id="other"), session="other")
    place.append(*place.lines("Resolved", "other"))

    result, _ = await place.resume("ok", answer=None)

    assert (result.why, place.done) == (Why.PAUSED, [])


async def test_a_session_that_was_copied_under_another_name_takes_no_approval_along(place: Workplace):
    place.store_answer(await place.pause(WRITE))
    shutil.copy(place.file(), place.file("copy"))

    async with place.open("ok", id="copy") as on:
        if on.session.paused:
            await on.session.resume()

    assert place.done == []


async def test_an_approval_that_stands_twice_in_the_file_is_good_for_one_run(place: Workplace):
    place.store_answer(await place.pause(WRITE, call("write", "again", text="a")))
    place.append(*place.lines("Resolved"))

    result, _ = await place.resume("ok", answer=None)

    assert ([each.call_id for each in result.pending], place.done) == (["again"], ["a"])


@pytest.mark.parametrize("share", [0.2, 0.5, 0.99])
async def test_a_part_of_an_approval_is_none(share: float, place: Workplace):
    place.store_answer(await place.pause(WRITE))
    (line,) = place.lines("Resolved")
    whole = place.file().read_bytes()
    place.file().write_bytes(whole[: len(whole) - len(line) + int(len(line) * share)])

    result, _ = await place.resume("ok", answer=None)

    assert (result.why, place.done) == (Why.PAUSED, [])


async def test_the_beginning_of_a_request_is_not_its_name(place: Workplace):
    paused = await place.pause(WRITE)

    for length in (0, 1, 16, 63):
        digest = paused.pending[0].digest[:length]
        with pytest.raises(errors.SessionError):
            answer_stored(place.folder / "sessions", "s", [digest], Approval(agreed=True), "terminal:ann")
    assert place.lines("Resolved") == []


# ---- other policies, other tools, other hosts


@both_orders
@both_forms
async def test_a_cache_that_came_later_answers_only_after_the_approval(is_async: bool, name: str, place: Workplace):
    await place.pause(WRITE)
    cache = about_write(Respond("cached"), is_async=is_async, name=name)

    async with place.open("ok", plugins=[cache]) as on:
        assert (await on.session.resume()).why is Why.PAUSED
        await on.session.resume(answers(on))

        assert on.read_by_model() == ["cached"]
    assert place.done == []


@both_orders
@both_forms
async def test_what_was_approved_is_not_rewritten_by_a_plugin_that_came_later(
    is_async: bool, name: str, place: Workplace
):
    await place.pause(WRITE)

    await place.resume("ok", plugins=[hooked(name=name, is_async=is_async, transform_tool_call={"text": "evil"})])

    assert place.done == ["a"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"config": PAUSING._replace(effects={"app:tools:tool/write": ("destructive",)})}, Why.COMPLETED),
        ({"config": PAUSING._replace(on_ask="deny"), "answer": None}, Why.DENIED),
        ({"dry_run": True}, Why.COMPLETED),
        ({"workspace": "there"}, Why.PAUSED),
        ({"tools": []}, Why.COMPLETED),
        ({"tools": "another"}, Why.COMPLETED),
    ],
    ids=["other effects", "a host that denies", "a dry run", "another folder", "no tool", "another tool"],
)
async def test_what_was_approved_does_not_run_on_other_terms(
    options: dict[str, Any], why: Why, place: Workplace, tmp_path: Path
):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()

    @tool(name="write", effects=("filesystem_write",))
    def another(text: str, where: str = "/") -> None:
        """Write."""
        place.done.append(where)

    given = {"workspace": "here", **options}
    if options.get("tools") == "another":
        given["tools"] = [another]
    await place.pause(WRITE, workspace=tmp_path / "here")
    result, on = await place.resume("ok", **{**given, "workspace": tmp_path / str(given["workspace"])})

    assert (result.why, place.done) == (why, [])
    if why is not Why.PAUSED:
        assert_whole(on.session.history)
    if options.get("config", PAUSING).effects or options.get("tools") == "another":
        assert "has changed since a person was asked" in on.read_by_model()[0]


ASKING = """
import attrs
from pluggent_hookspecs import Ask, hookimpl

@attrs.frozen
class Settings:
    below: int = 10

class Plugin:
    Settings = Settings

    def __init__(self, settings):
        self.settings = settings

    @hookimpl
    def decide_tool_call(self, event):
        return Ask("it writes")
"""


@pytest.mark.parametrize(("version", "below"), [("2.0", 10), ("1.0", 1_000_000)])
async def test_an_approval_answers_the_policy_that_asked_and_not_its_next_version(
    version: str, below: int, place: Workplace
):
    """Rule 41."""
    place.asks.words = None

    def options(site: Path, version: str, below: int) -> Any:
        install(site, "acme-asks", {"hooks/asks": "acme_asks:Plugin"}, modules={"acme_asks": ASKING}, version=version)
        config = PAUSING._replace(plugins={"acme-asks": {"below": below}})
        return {"config": config, "installed": discover([str(site)])}

    one, two = place.folder / "one", place.folder / "two"
    with importable(one):
        await place.pause(WRITE, **options(one, "1.0", 10))
    with importable(two):
        result, _ = await place.resume("fine", **options(two, version, below))

    assert (result.why, place.done) == (Why.PAUSED, [])


# ---- how far an approval reaches


async def test_one_approval_covers_neither_another_call_with_the_same_arguments_nor_one_of_the_next_round(
    place: Workplace,
):
    await place.pause(call("write", "1", text="a"), call("write", "2", text="a"))

    async with place.open(call("write", "1", text="a")) as on:
        two = await on.session.resume({"1": True})
        assert (two.why, place.done) == (Why.PAUSED, ["a"])
        three = await on.session.resume({"2": True})

    assert (three.why, place.done) == (Why.PAUSED, ["a", "a"])
    assert three.pending[0].digest not in {each.digest for each in two.pending}


async def test_an_approval_for_the_session_covers_no_other_tool_and_nothing_below_a_call(place: Workplace):
    @tool(effects=())
    async def outer(context: ToolContext) -> str:
        """Write below."""
        return str((await context.call_tool("erase", {"text": "b"})).for_model)

    asks = hooked(decide_tool_call=lambda event: Ask("it writes") if event.tool.name != "outer" else None)
    place.asks = named(asks, "Asks")  # type: ignore[assignment] # pyright: ignore[reportAttributeAccessIssue]
    await place.pause(WRITE)
    tools = [*place.tools(), outer]
    async with place.open("ok", call("erase", text="b"), tools=tools) as on:
        await on.session.resume(answers(on, Approval(agreed=True, reach="session")))
        assert (await on.session.say("and erase")).why is Why.PAUSED
    async with place.open(call("outer"), "ok", tools=tools) as on:
        await on.session.say("below then")

    assert place.done == ["a"]


# ---- answers


WRONG_ANSWERS: dict[str, Any] = {
    "text": lambda: "no",
    "a number": lambda: 0,
    "nothing": lambda: None,
    "an approval of text": lambda: Approval(agreed="no"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    "an unknown reach": lambda: Approval(agreed=True, reach="ever"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    "a reason that is none": lambda: Approval(agreed=True, reason=5),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
}


async def test_an_answer_that_is_none_approves_nothing_and_leaves_no_trace(place: Workplace):
    paused = await place.pause(call("write", "1", text="a"), call("write", "2", text="b"))

    for name, answer in WRONG_ANSWERS.items():
        async with place.open() as on:
            with pytest.raises((TypeError, ValueError, errors.SessionError)):
                await on.session.resume({"1": True, "2": answer()})
            assert on.session.pending == paused.pending, name
    async with place.open() as on:
        assert on.session.pending == paused.pending
    assert place.done == []
