"""Memory through policies: no way to a store, for a tool or an application, leads around them."""

import asyncio
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from naming import shown
from pluggent_hookspecs import (
    Allow,
    ApprovalEvent,
    Ask,
    Denied,
    Deny,
    HookError,
    MemoryAccess,
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
from pluggent_host.testing.fakes import call
from pluggent_host.transcript import Decided
from policy_stage import Stage, either_way, stage

both_orders = pytest.mark.parametrize("turned", [False, True])


class Store:
    """A store that remembers what was asked of it."""

    name = "notes"

    def __init__(self, *items: MemoryItem, error: Exception | None = None) -> None:
        self.items = {(item.namespace, item.key): item for item in items}
        self.calls: list[str] = []
        self.error = error

    @hookimpl
    def provide_memory(self, event):
        return [self]

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.error is not None:
            raise self.error

    async def save(self, items: Any) -> tuple[MemoryItem, ...]:
        self._called("save")
        self.items.update({(item.namespace, item.key): item for item in items})
        return tuple(items)

    async def get(self, namespace: str, key: str) -> MemoryItem | None:
        self._called("get")
        return self.items.get((namespace, key))

    async def delete(self, namespace: str, key: str) -> bool:
        self._called("delete")
        return self.items.pop((namespace, key), None) is not None

    async def list(self, query: MemoryQuery) -> MemoryPage:
        self._called("list")
        return MemoryPage(tuple(i for (n, _), i in sorted(self.items.items()) if n == query.namespace), "next")

    async def search(self, namespace: str, text: str, limit: int = 10) -> tuple[MemoryHit, ...]:
        self._called("search")
        hits = [MemoryHit(item, 0.5) for (n, _), item in self.items.items() if n == namespace and text in item.text]
        return tuple(hits[:limit])

    async def aclose(self) -> None:
        self.calls.append("aclose")


def note(key: str = "k", text: str = "the text", namespace: str = "n") -> MemoryItem:
    return MemoryItem(namespace, key, text)


READS: dict[str, Callable[[MemoryAccess], Any]] = {
    "get": lambda memory: memory.get("n", "k"),
    "list": lambda memory: memory.list(MemoryQuery("n")),
    "search": lambda memory: memory.search("n", "text"),
}
WRITES: dict[str, Callable[[MemoryAccess], Any]] = {
    "save": lambda memory: memory.save([note("new")]),
    "delete": lambda memory: memory.delete("n", "k"),
}
USES = {**READS, **WRITES}


def hook_of(use: str) -> str:
    return "decide_memory_read" if use in READS else "decide_memory_write"


def deciding(hook: str, answer: object, *, is_async: bool = False) -> object:
    def decide(self: object, event: object) -> object:
        return answer

    async def decide_later(self: object, event: object) -> object:
        await asyncio.sleep(0)
        return answer

    chosen = decide_later if is_async else decide
    chosen.__name__ = hook
    return type("Decider", (), {hook: hookimpl(chosen)})()


async def by_host(use: Callable[[MemoryAccess], Any], on: Stage, outcome: list[Any]) -> None:
    try:
        outcome.append(await use(on.host.memory("notes")))
    except Exception as error:  # noqa: BLE001 (what came of it is what the test looks at)
        outcome.append(error)


async def attempt(way: str, use: str, *plugins: object, store: Store, **options: Any) -> Any:
    """Use *store* as the application does, or as a tool does; return what came of it."""
    outcome: list[Any] = []

    @tool(effects=("memory",))
    async def remember(context: ToolContext) -> str:
        """Use the memory."""
        try:
            outcome.append(await USES[use](context.memory("notes")))
        except Exception as error:  # noqa: BLE001 (as above)
            outcome.append(error)
        return "used"

    async with stage(call("remember"), plugins=[*plugins, store], tools=[remember], **options) as on:
        if way == "host":
            await by_host(USES[use], on, outcome)
        elif way == "tool":
            await on.session.say("go")
        else:
            await on.session.call_tool("remember", {})
    (only,) = outcome
    return only


every_way = pytest.mark.parametrize("way", ["host", "tool", "call_tool"])
every_use = pytest.mark.parametrize("use", USES)


@every_way
@every_use
async def test_without_an_objection_the_store_is_used(use: str, way: str) -> None:
    store = Store(note())

    outcome = await attempt(way, use, store=store)

    expected: dict[str, Any] = {
        "get": note(),
        "list": MemoryPage((note(),), "next"),
        "search": (MemoryHit(note(), 0.5),),
        "save": (note("new"),),
        "delete": True,
    }
    assert outcome == expected[use]
    assert store.calls[0] == use


@every_way
@every_use
@both_orders
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_denied_use_never_reaches_the_store(is_async: bool, turned: bool, use: str, way: str) -> None:
    store = Store(note())
    policy = deciding(hook_of(use), Deny("not for the model", tell_user="not today"), is_async=is_async)

    outcome = await attempt(way, use, *either_way(policy, deciding(hook_of(use), Allow()), turned=turned), store=store)

    assert isinstance(outcome, Denied)
    assert outcome.by.endswith("decider")
    assert outcome.digest
    assert use not in store.calls


@every_use
@pytest.mark.parametrize("answer", [Respond("cached"), Respond(()), True, "allow", {}, ValueError], ids=shown)
async def test_an_answer_outside_the_table_denies(answer: object, use: str) -> None:
    """Rule 5: memory is read or written, never answered in its place."""
    store = Store(note())

    outcome = await attempt("tool", use, deciding(hook_of(use), answer), store=store)

    assert isinstance(outcome, Denied)
    assert use not in store.calls


@every_way
@every_use
@pytest.mark.parametrize("agreed", [True, False, None])
async def test_an_ask_is_put_to_a_person(agreed: bool | None, use: str, way: str) -> None:
    store = Store(note())
    asked: list[ApprovalEvent] = []

    def approve(event: ApprovalEvent) -> bool | None:
        asked.append(event)
        return agreed

    outcome = await attempt(way, use, deciding(hook_of(use), Ask("may I?")), store=store, approver=approve)

    (event,) = asked
    assert event.capability.endswith(":memory/notes")
    assert isinstance(outcome, Denied) is (agreed is not True)
    assert (use in store.calls) is (agreed is True)


async def test_a_person_reads_everything_that_is_to_be_saved() -> None:
    asked: list[ApprovalEvent] = []
    text = "line\u202e one\nline two" + "x" * 3000

    async with stage(plugins=[Store(), deciding("decide_memory_write", Ask("may I?"))], approver=asked.append) as on:
        with pytest.raises(Denied):
            await on.host.memory("notes").save([note("a", text), note("b", "the other")])

    (event,) = asked
    assert "x" * 3000 in event.rendered
    assert "the other" in event.rendered
    assert "\u202e" not in event.rendered


async def test_a_policy_sees_what_is_read_and_written() -> None:
    seen: list[Any] = []

    class Policy:
        @hookimpl
        def decide_memory_read(self, event):
            seen.append((event.namespace, event.key, event.query, event.text))

        @hookimpl
        def decide_memory_write(self, event):
            seen.append((event.items, event.delete))

    async with stage(plugins=[Store(note()), Policy()]) as on:
        memory = on.host.memory("notes")
        for use in USES.values():
            await use(memory)

    assert seen == [
        ("n", "k", None, None),
        ("n", None, MemoryQuery("n"), None),
        ("n", None, None, "text"),
        ((note("new"),), ()),
        ((), (("n", "k"),)),
    ]


# ---- transforms


async def test_what_a_transform_made_of_the_items_is_decided_and_saved() -> None:
    store = Store()
    seen: list[Any] = []

    class Redactor:
        @hookimpl
        async def transform_memory_write(self, event):
            await asyncio.sleep(0)
            return [attrs.evolve(item, text="redacted") for item in event.items]

        @hookimpl
        def decide_memory_write(self, event):
            seen.extend(item.text for item in event.items)

    async with stage(plugins=[store, Redactor()]) as on:
        saved = await on.host.memory("notes").save([note(text="secret")])

    assert seen == ["redacted"]
    assert [item.text for item in (*saved, *store.items.values())] == ["redacted", "redacted"]


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

    class Rewriter:
        @hookimpl
        def transform_memory_write(self, event):
            return value

    async with stage(plugins=[store, Rewriter()]) as on:
        with pytest.raises(HookError, match="app:rewriter"):
            await on.host.memory("notes").save([note()])

    assert store.calls == []


async def test_a_transform_cannot_edit_items_after_the_decision() -> None:
    store = Store()

    class Editor:
        @hookimpl
        def transform_memory_write(self, event):
            self.kept = list(event.items)
            return self.kept

        @hookimpl
        def decide_memory_write(self, event):
            self.kept.append(note("evil"))

    async with stage(plugins=[store, Editor()]) as on:
        await on.host.memory("notes").save([note("good")])

    assert [key for _, key in store.items] == ["good"]


async def test_a_caller_cannot_edit_items_while_they_are_decided() -> None:
    store = Store()
    data: dict[str, Any] = {"list": ["good"]}
    items = [MemoryItem("n", "k", "text", data)]

    class Waits:
        @hookimpl
        async def decide_memory_write(self, event):
            items.append(note("evil"))
            data["list"].append("evil")
            await asyncio.sleep(0)

    async with stage(plugins=[store, Waits()]) as on:
        await on.host.memory("notes").save(items)

    assert [key for _, key in store.items] == ["k"]
    assert store.items["n", "k"].data == {"list": ("good",)}


@pytest.mark.parametrize("use", READS)
async def test_a_redactor_of_results_is_passed_by_no_read(use: str) -> None:
    class Redactor:
        @hookimpl(band="security")
        async def transform_memory_result(self, event):
            await asyncio.sleep(0)
            return [attrs.evolve(item, text="redacted") for item in event.items]

    outcome = await attempt("tool", use, Redactor(), store=Store(note(text="secret text")))

    assert "secret" not in repr(outcome)
    assert "redacted" in repr(outcome)


@pytest.mark.parametrize("use", READS)
async def test_a_result_transform_may_leave_items_out(use: str) -> None:
    class Nothing:
        @hookimpl
        def transform_memory_result(self, event):
            return []

    outcome = await attempt("host", use, Nothing(), store=Store(note()))

    assert outcome in (None, MemoryPage((), "next"), ())


@pytest.mark.parametrize("value", [[note("made-up")], ["text"], 5, "text", [note(namespace="elsewhere")]], ids=shown)
@pytest.mark.parametrize("use", READS)
async def test_a_result_transform_cannot_make_items_up(use: str, value: Any) -> None:
    class Inventor:
        @hookimpl
        def transform_memory_result(self, event):
            return value

    outcome = await attempt("host", use, Inventor(), store=Store(note()))

    assert isinstance(outcome, HookError)
    assert outcome.plugin == "app:inventor"


async def test_a_result_transform_that_fails_withholds_the_items() -> None:
    class Broken:
        @hookimpl
        def transform_memory_result(self, event):
            raise ValueError("broken")

    outcome = await attempt("tool", "get", Broken(), store=Store(note(text="secret")))

    assert isinstance(outcome, HookError)
    assert "secret" not in str(outcome)


# ---- records, scopes, failures


async def test_every_use_inside_a_turn_is_recorded_below_its_call() -> None:
    @tool(effects=("memory",))
    async def remember(context: ToolContext) -> str:
        """Use the memory."""
        for use in USES.values():
            await use(context.memory("notes"))
        return "used"

    async with stage(call("remember"), plugins=[Store(note())], tools=[remember]) as on:
        await on.session.say("go")

    made = [made for made in on.decisions() if made.operation.startswith("memory")]
    (outer,) = on.decisions("tool_call")
    assert [item.operation for item in made] == ["memory_read"] * 3 + ["memory_write"] * 2
    assert {item.scope.parent_id for item in made} == {outer.operation_id}
    assert {item.scope.origin for item in made} == {"tool"}
    recorded = [entry.decision for entry in on.session.records() if isinstance(entry, Decided)]
    assert [item for item in recorded if item.operation.startswith("memory")] == made


async def test_every_use_is_an_operation_with_an_id_and_a_digest_of_its_own() -> None:
    @tool(effects=("memory",))
    async def remember(context: ToolContext) -> str:
        """Use the memory twice, through two handles."""
        await context.memory("notes").get("n", "k")
        await context.memory("notes").get("n", "k")
        return "used"

    async with stage(call("remember"), plugins=[Store(note())], tools=[remember]) as on:
        await on.session.say("go")

    made = on.decisions("memory_read")
    assert len({item.operation_id for item in made}) == 2
    assert len({item.digest for item in made}) == 2


async def test_the_errors_of_a_store_come_through_as_they_are() -> None:
    error = MemoryStoreError(MemoryStoreErrorKind.UNAVAILABLE, "the disk is gone")

    assert await attempt("host", "get", store=Store(error=error)) is error


async def test_a_principal_is_known_to_the_policies() -> None:
    seen: list[str] = []

    class Policy:
        @hookimpl
        def decide_memory_read(self, event):
            seen.append(event.scope.principal)

    async with stage(plugins=[Store(), Policy()]) as on:
        await on.host.memory("notes", principal="ada").get("n", "k")

    assert seen == ["ada"]


async def test_the_clock_of_a_call_stops_while_a_person_thinks_about_memory() -> None:
    """Rule 17."""
    outcome: list[Any] = []

    @tool(effects=("memory",), timeout_s=0.05)
    async def remember(context: ToolContext) -> str:
        """Save something."""
        outcome.append(await context.memory("notes").save([note()]))
        return "saved"

    async def think(event: ApprovalEvent) -> bool:
        await asyncio.sleep(0.1)
        return True

    plugins = [Store(), deciding("decide_memory_write", Ask("may I?"))]
    async with stage(call("remember"), plugins=plugins, tools=[remember], approver=think) as on:
        await on.session.say("go")

    assert outcome == [(note(),)]
    assert on.read_by_model() == ["saved"]
