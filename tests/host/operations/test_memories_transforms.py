"""Transforms of memory: what they may make of items saved and read."""

import asyncio
from typing import Any

import attrs
import pytest
from each_of import shown
from pluggent_hookspecs import HookError, MemoryItem, MemoryPage, hookimpl
from policy_stage import READS, Store, attempt, note, stage


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
