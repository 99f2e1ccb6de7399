"""Memory through policies: no way to a store, for a tool or an application, leads around them."""

import asyncio
from typing import Any

import pytest
from each_of import shown
from pluggent_hookspecs import (
    Allow,
    ApprovalEvent,
    Ask,
    Denied,
    Deny,
    MemoryHit,
    MemoryPage,
    MemoryQuery,
    MemoryStoreError,
    MemoryStoreErrorKind,
    Respond,
    ToolContext,
    hookimpl,
    tool,
)
from pluggent_host.transcript.entries import Decided
from pluggent_testing.fakes import call
from policy_stage import READS, USES, Store, attempt, either_way, note, stage

both_orders = pytest.mark.parametrize("turned", [False, True])


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
