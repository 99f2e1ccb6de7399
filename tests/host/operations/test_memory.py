"""Memory through policies: no way to a store, for a tool or an application, leads around them or their transforms."""

import asyncio
import base64
import contextlib
from typing import Any

import attrs
import pytest
from each_of import shown
from fake_plugins import Person, plugin
from pluggent_hookspecs import (
    Allow,
    Ask,
    Change,
    Denied,
    Deny,
    HookError,
    MemoryHit,
    MemoryItem,
    MemoryPage,
    MemoryQuery,
    MemoryStoreError,
    MemoryStoreErrorKind,
    Respond,
    ToolContext,
    hookimpl,
    tool,
)
from pluggent_host import Host
from pluggent_host.operations.memory import MOST_CURSORS, Cursors
from pluggent_memory_inmemory.plugin import InMemory
from pluggent_testing.fakes import call
from pluggent_transcript.entries import Decided
from policy_stage import READS, USES, Store, attempt, either_way, note, stage

every_way = pytest.mark.parametrize("way", ["host", "tool", "call_tool"])
every_use = pytest.mark.parametrize("use", USES)
every_read = pytest.mark.parametrize("use", READS)


def deciding(use: str, answer: object, *, is_async: bool = False) -> object:
    """Return a policy that answers *answer* about this use."""

    async def later(event: object) -> object:
        await asyncio.sleep(0)
        return answer

    hook = "decide_memory_read" if use in READS else "decide_memory_write"
    return plugin("Decider", **{hook: later if is_async else answer})


def redacted(event: Any) -> list[MemoryItem]:
    return [attrs.evolve(item, text="redacted") for item in event.items]


@every_way
@every_use
async def test_without_an_objection_the_store_is_used(use: str, way: str) -> None:
    store = Store(note())
    expected: dict[str, Any] = {
        "get": note(),
        "list": MemoryPage((note(),), "next"),
        "search": (MemoryHit(note(), 0.5),),
        "save": (note("new"),),
        "delete": True,
    }

    got = await attempt(way, use, store=store)
    if isinstance(got, MemoryPage):
        assert got.cursor not in (None, "next")
        got = attrs.evolve(got, cursor="next")
    assert got == expected[use]
    assert store.calls[0] == use


@every_way
@every_use
@pytest.mark.parametrize(("is_async", "turned"), [(False, True), (True, False)])
async def test_a_denied_use_never_reaches_the_store(is_async: bool, turned: bool, use: str, way: str) -> None:
    store = Store(note())
    policy = deciding(use, Deny("not for the model", tell_user="not today"), is_async=is_async)

    outcome = await attempt(way, use, *either_way(policy, deciding(use, Allow()), turned=turned), store=store)

    assert isinstance(outcome, Denied)
    assert outcome.by.endswith("decider")
    assert outcome.digest
    assert use not in store.calls


@every_use
@pytest.mark.parametrize("answer", [Respond("cached"), Respond(()), True, "allow", {}, ValueError], ids=shown)
async def test_an_answer_outside_the_table_denies(answer: object, use: str) -> None:
    """Rule 5: memory is read or written, never answered in its place."""
    store = Store(note())

    assert isinstance(await attempt("tool", use, deciding(use, answer), store=store), Denied)
    assert use not in store.calls


@every_way
@every_use
@pytest.mark.parametrize("agreed", [True, False, None])
async def test_an_ask_is_put_to_a_person(agreed: bool | None, use: str, way: str) -> None:
    store, person = Store(note()), Person(agreed)

    outcome = await attempt(way, use, deciding(use, Ask("may I?")), store=store, approver=person)

    (event,) = person.asked
    assert event.capability.endswith(":memory/notes")
    assert isinstance(outcome, Denied) is (agreed is not True)
    assert (use in store.calls) is (agreed is True)


async def test_a_person_reads_everything_that_is_to_be_saved() -> None:
    person, text = Person(None), "line\u202e one\nline two" + "x" * 3000

    async with stage(plugins=[Store(), deciding("save", Ask("may I?"))], approver=person) as on:
        with pytest.raises(Denied):
            await on.host.memory("notes").save([note("a", text), note("b", "the other")])

    (event,) = person.asked
    assert "x" * 3000 in event.rendered
    assert "the other" in event.rendered
    assert "\u202e" not in event.rendered


async def test_a_policy_sees_who_reads_and_writes_what() -> None:
    seen: list[Any] = []
    policy = plugin(
        decide_memory_read=lambda e: seen.append((e.scope.principal, e.namespace, e.key, e.query, e.text)),
        decide_memory_write=lambda e: seen.append((e.scope.principal, e.items, e.delete)),
    )

    async with stage(plugins=[Store(note()), policy]) as on:
        for use in USES.values():
            await use(on.host.memory("notes", principal="ada"))

    assert seen == [
        ("ada", "n", "k", None, None),
        ("ada", "n", None, MemoryQuery("n"), None),
        ("ada", "n", None, None, "text"),
        ("ada", (note("new"),), ()),
        ("ada", (), (("n", "k"),)),
    ]


# ---- records, failures


async def test_every_use_inside_a_turn_is_recorded_below_its_call_under_an_id_and_a_digest_of_its_own() -> None:
    @tool(effects=("memory",))
    async def remember(context: ToolContext) -> str:
        """Use the memory, and read it once more through another handle."""
        for use in (*USES.values(), USES["get"]):
            await use(context.memory("notes"))
        return "used"

    async with stage(call("remember"), plugins=[Store(note())], tools=[remember]) as on:
        await on.session.say("go")

    made = [made for made in on.decisions() if made.operation.startswith("memory")]
    (outer,) = on.decisions("tool_call")
    assert [item.operation for item in made] == ["memory_read"] * 3 + ["memory_write"] * 2 + ["memory_read"]
    assert {(item.scope.parent_id, item.scope.origin) for item in made} == {(outer.operation_id, "tool")}
    assert len({item.operation_id for item in made}) == len({item.digest for item in made}) == 6
    recorded = [entry.decision for entry in on.session.records() if isinstance(entry, Decided)]
    assert [item for item in recorded if item.operation.startswith("memory")] == made


async def test_the_errors_of_a_store_come_through_as_they_are() -> None:
    error = MemoryStoreError(MemoryStoreErrorKind.UNAVAILABLE, "the disk is gone")

    assert await attempt("host", "get", store=Store(error=error)) is error


async def test_the_clock_of_a_call_stops_while_a_person_thinks_about_memory() -> None:
    """Rule 17."""

    @tool(effects=("memory",), timeout_s=0.05)
    async def remember(context: ToolContext) -> str:
        """Save something."""
        return str(await context.memory("notes").save([note()]) == (note(),))

    async def think(event: object) -> bool:
        await asyncio.sleep(0.1)
        return True

    plugins = [Store(), deciding("save", Ask("may I?"))]
    async with stage(call("remember"), plugins=plugins, tools=[remember], approver=think) as on:
        await on.session.say("go")

    assert on.read_by_model() == ["True"]


# ---- transforms


async def test_what_a_transform_made_of_the_items_is_decided_and_saved() -> None:
    store, seen = Store(), list[str]()

    async def redact(event: Any) -> list[MemoryItem]:
        await asyncio.sleep(0)
        return redacted(event)

    decide = lambda event: seen.extend(item.text for item in event.items)  # noqa: E731 (one of two hooks of a plugin)
    async with stage(plugins=[store, plugin(transform_memory_write=redact, decide_memory_write=decide)]) as on:
        saved = await on.host.memory("notes").save([note(text="secret")])

    assert [*seen, *(item.text for item in (*saved, *store.items.values()))] == ["redacted"] * 3


async def test_the_record_of_a_change_names_what_was_changed_and_no_text() -> None:
    rewriter = plugin("Rewriter", transform_memory_write=lambda event: [event.items[0], note("b", "redacted")])

    async with stage(plugins=[Store(), rewriter]) as on:
        await on.host.memory("notes").save([note("a", "kept"), note("b", "secret")])
        (made,) = on.decisions("memory_write")

    assert made.changes == (Change("app:rewriter", ("b",)),)


@pytest.mark.parametrize(("use", "what"), [("get", "k"), ("list", "a list"), ("search", "text")])
async def test_a_person_is_shown_what_would_be_read(use: str, what: str) -> None:
    shown: list[str] = []

    def approve(event: Any) -> bool:
        shown.append(event.rendered)
        return True

    await attempt("host", use, deciding(use, Ask("may I?")), store=Store(note()), approver=approve)

    assert shown == [f"read memory app:store:memory/notes, namespace n: {what}"]


@pytest.mark.parametrize(
    "value",
    [
        [note(namespace="elsewhere")], ["text"], "text", 5, [None], [note(), note(namespace="elsewhere")],
        {"a": "dict"}, True,
    ],
    ids=lambda value: repr(value)[:40],
)  # fmt: skip
async def test_a_transform_cannot_save_elsewhere_or_something_else(value: Any) -> None:
    store = Store()

    async with stage(plugins=[store, plugin("Rewriter", transform_memory_write=value)]) as on:
        with pytest.raises(HookError, match="app:rewriter"):
            await on.host.memory("notes").save([note()])

    assert store.calls == []


async def test_neither_a_transform_nor_the_caller_can_edit_items_while_they_are_decided() -> None:
    store, data = Store(), {"list": ["good"]}
    items = [MemoryItem("n", "k", "text", data)]

    class Editor:
        @hookimpl
        def transform_memory_write(self, event: Any) -> Any:
            self.kept = list(event.items)
            return self.kept

        @hookimpl
        async def decide_memory_write(self, event: Any) -> None:
            for edited in (self.kept, items):
                edited.append(note("evil"))
            data["list"].append("evil")
            await asyncio.sleep(0)

    async with stage(plugins=[store, Editor()]) as on:
        await on.host.memory("notes").save(items)

    assert [key for _, key in store.items] == ["k"]
    assert store.items["n", "k"].data == {"list": ("good",)}


@every_read
async def test_a_redactor_of_results_is_passed_by_no_read(use: str) -> None:
    class Redactor:
        @hookimpl(band="security")
        async def transform_memory_result(self, event: Any) -> Any:
            await asyncio.sleep(0)
            return redacted(event)

    outcome = await attempt("tool", use, Redactor(), store=Store(note(text="secret text")))

    assert "secret" not in repr(outcome)
    assert "redacted" in repr(outcome)


@every_read
async def test_a_result_transform_may_leave_items_out(use: str) -> None:
    outcome = await attempt("host", use, plugin(transform_memory_result=lambda _: []), store=Store(note()))

    assert outcome is None or (outcome.items if isinstance(outcome, MemoryPage) else outcome) == ()


@pytest.mark.parametrize(
    "value",
    [[note("made-up")], ["text"], 5, "text", [note(namespace="elsewhere")], ValueError("broken")],
    ids=shown,
)
@every_read
async def test_a_result_transform_that_makes_items_up_or_fails_withholds_the_items(use: str, value: Any) -> None:
    inventor = plugin("Inventor", transform_memory_result=value)

    outcome = await attempt("host", use, inventor, store=Store(note(text="secret text")))

    assert isinstance(outcome, HookError)
    assert outcome.plugin == "app:inventor"
    assert "secret" not in str(outcome)


# ---- cursors ----------------------------------------------------------------------------


class Hides:
    """A policy that hides what has a secret key."""

    @hookimpl
    def transform_memory_result(self, event: Any) -> list[MemoryItem]:
        return [item for item in event.items if not item.key.startswith("secret")]


def decoded(cursor: str) -> str:
    """Return all that can be read from a cursor."""
    data = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    return (
        cursor + repr(data) + repr(base64.urlsafe_b64decode(data + b"=" * (-len(data) % 4)) if data.isascii() else "")
    )


async def test_a_cursor_names_no_key_that_a_policy_hides_and_leads_on() -> None:
    keys = [f"{'secret' if number % 2 else 'open'}-{number}" for number in range(6)]
    async with Host.open(model="none/m", installed=False, plugins=[InMemory(), Hides()]) as host:
        memory = host.memory()
        await memory.save([MemoryItem("n", key, "text") for key in keys])
        found: list[str] = []
        cursors: list[str] = []
        query = MemoryQuery("n", limit=2)
        while True:
            page = await memory.list(query)
            found += [item.key for item in page.items]
            if page.cursor is None:
                break
            cursors.append(page.cursor)
            query = attrs.evolve(query, cursor=page.cursor)

    assert sorted(found) == ["open-0", "open-2", "open-4"]
    assert len(cursors) == 2
    assert [cursor for cursor in cursors if "secret" in decoded(cursor)] == []
    assert len({len(cursor) for cursor in cursors}) == 1


@pytest.mark.parametrize(
    "wrong", ["other namespace", "other principal", "other host", "changed", "nonsense", "own of the store"]
)
async def test_a_cursor_of_another_list_is_refused(wrong: str) -> None:
    async def opened() -> Host:
        return await stack.enter_async_context(Host.open(model="none/m", installed=False, plugins=[InMemory()]))

    async with contextlib.AsyncExitStack() as stack:
        host = await opened()
        for name in ("n", "o"):
            await host.memory(principal="ann").save([MemoryItem(name, f"k{number}", "text") for number in range(3)])
        cursor = (await host.memory(principal="ann").list(MemoryQuery("n", limit=1))).cursor
        assert cursor is not None
        given = {
            "changed": cursor[:-9] + ("A" if cursor[-9] != "A" else "B") + cursor[-8:],
            "nonsense": "天气", "own of the store": base64.urlsafe_b64encode(b'[1, "k0", "x"]').decode(),
        }.get(wrong, cursor)  # fmt: skip
        memory = (await opened() if wrong == "other host" else host).memory(
            principal="bob" if "principal" in wrong else "ann"
        )
        query = MemoryQuery("o" if wrong == "other namespace" else "n", limit=1, cursor=given)

        with pytest.raises(MemoryStoreError, match="not a cursor of this list") as refused:
            await memory.list(query)

    assert refused.value.kind is MemoryStoreErrorKind.INVALID


def test_a_host_keeps_the_newest_cursors() -> None:
    cursors = Cursors()
    first, *others = [cursors.give(f"c{number}", "place") for number in range(MOST_CURSORS + 1)]

    with pytest.raises(MemoryStoreError, match="not a cursor of this list"):
        cursors.find(first, "place")
    assert [cursors.find(each, "place") for each in others] == [f"c{number}" for number in range(1, MOST_CURSORS + 1)]
