from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, strategies as st
from pluggent_hookspecs import (
    MemoryItem,
    MemoryQuery,
    MemoryStoreError,
    MemoryStoreErrorKind,
    PluginContext,
    ProvideEvent,
)
from pluggent_memory_inmemory.plugin import InMemory
from pluggent_memory_inmemory.settings import InMemorySettings
from pluggent_memory_inmemory.store import InMemoryStore
from pluggent_testing.memory import Clock, MemoryStoreConformance


class TestInMemoryStore(MemoryStoreConformance):
    def make_store(self, folder: Path, clock: Clock) -> InMemoryStore:
        return InMemoryStore(clock=clock)


class TestInMemoryStoreThatEvicts(MemoryStoreConformance):
    def make_store(self, folder: Path, clock: Clock) -> InMemoryStore:
        return InMemoryStore(InMemorySettings("value", max_items=100_000), clock)


class TestInMemoryStoreMadeLater(MemoryStoreConformance):
    takes_clock = False

    async def make_store(self, folder: Path, clock: Clock) -> InMemoryStore:
        return InMemoryStore()


async def keys(store: InMemoryStore, namespace: str = "n") -> list[str]:
    return [item.key for item in (await store.list(MemoryQuery(namespace))).items]


async def save(store: InMemoryStore, *keys: str, namespace: str = "n", **more: Any) -> None:
    await store.save([MemoryItem(namespace, key, f"text {key}", **more) for key in keys])


async def refused(call: Awaitable[object]) -> str:
    with pytest.raises(MemoryStoreError) as caught:
        await call
    assert caught.value.kind is MemoryStoreErrorKind.INVALID
    return str(caught.value)


async def test_ttl_forgets_what_has_no_time_of_its_own():
    clock = Clock()
    store = InMemoryStore(InMemorySettings("ttl", default_ttl_s=10), clock)
    await save(store, "default")
    await save(store, "own", ttl_s=20)

    clock.advance(10)

    assert await keys(store) == ["own"]


async def test_without_a_policy_nothing_is_forgotten():
    clock = Clock()
    store = InMemoryStore(clock=clock)
    await save(store, *(str(i) for i in range(1000)))

    clock.advance(1e9)

    assert len((await store.list(MemoryQuery("n", limit=2000))).items) == 1000


async def test_capacity_forgets_what_was_saved_longest_ago():
    store = InMemoryStore(InMemorySettings("capacity", max_items=3))
    for key in "abc":
        await save(store, key)

    await save(store, "a")
    await save(store, "d")

    assert await keys(store) == ["a", "c", "d"]


async def test_capacity_counts_all_namespaces_together():
    store = InMemoryStore(InMemorySettings("capacity", max_items=2))
    await save(store, "a", namespace="one")

    await save(store, "b", "c", namespace="two")

    assert (await keys(store, "one"), await keys(store, "two")) == ([], ["b", "c"])


async def test_recall_value_forgets_what_is_worth_least():
    store = InMemoryStore(InMemorySettings("value", max_items=3))
    for key, value in (("a", 5.0), ("b", 1.0), ("c", 1.0), ("d", 9.0)):
        await save(store, key, value=value)

    assert await keys(store) == ["a", "c", "d"]


async def test_what_is_being_saved_makes_others_go_however_little_it_is_worth():
    store = InMemoryStore(InMemorySettings("value", max_items=2))
    await save(store, "a", "b", value=9.0)

    await save(store, "c", value=-1.0)
    await save(store, "d", value=5.0)

    assert await keys(store) == ["b", "d"]


async def test_more_at_once_than_the_store_holds_is_refused_whole():
    store = InMemoryStore(InMemorySettings("capacity", max_items=2))
    await save(store, "a")

    problem = await refused(save(store, "b", "c", "d"))

    assert problem == "3 items at once are more than the store holds (max_items = 2)"
    assert await keys(store) == ["a"]


async def test_deleted_and_expired_items_free_their_space():
    clock = Clock()
    store = InMemoryStore(InMemorySettings("capacity", max_items=3), clock)
    await save(store, "old")
    await save(store, "brief", ttl_s=5)
    await save(store, "deleted")
    await store.delete("n", "deleted")
    clock.advance(5)

    await save(store, "b", "c")

    assert await keys(store) == ["b", "c", "old"]


async def test_a_store_that_is_written_for_long_stays_in_bounds():
    store = InMemoryStore(InMemorySettings("capacity", max_items=10, default_ttl_s=60))
    for i in range(5000):
        await save(store, str(i % 40))

    assert len(await keys(store)) == 10
    assert [hit.item.key for hit in await store.search("n", "39")] == ["39"]


async def test_a_clock_that_goes_back_brings_nothing_back():
    clock = Clock()
    store = InMemoryStore(clock=clock)
    await save(store, "a", ttl_s=10)
    clock.advance(20)
    await keys(store)

    clock.advance(-100)
    (saved,) = await store.save([MemoryItem("n", "b", "x")])

    assert await keys(store) == ["b"]
    assert saved.updated_s == Clock().now_s + 20


async def test_a_cursor_serves_its_own_list_only():
    store = InMemoryStore()
    await save(store, "a", "b", "c")
    query = MemoryQuery("n", limit=1)
    cursor = (await store.list(query)).cursor

    problem = await refused(store.list(attrs.evolve(query, order="created", cursor=cursor)))

    assert problem == "the cursor belongs to another list: only limit may change between pages"


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        (MemoryItem("n", "k", "x", ttl_s=0), "ttl_s: must be more than 0 seconds and finite, not 0"),
        (MemoryItem("n", "k", "x", ttl_s=float("nan")), "ttl_s: must be more than 0 seconds and finite, not nan"),
        (MemoryItem("n", "k", "x", value=float("inf")), "value: must be finite, not inf"),
        (MemoryItem("n", "k", "\ud800"), "text: holds a lone surrogate"),
        (MemoryItem("n", "k", "x", {"a": float("nan")}), "data: not JSON: Out of range float values"),
        (MemoryItem("n", "k", "x", {"a": "\ud800"}), "data: not JSON: 'utf-8' codec can't encode"),
        (MemoryItem("", "", "x"), "the namespace is empty; item 1: the key is empty"),
    ],
)
async def test_what_no_store_could_keep_is_refused(item: MemoryItem, problem: str):
    store = InMemoryStore()

    assert f"item 1: {problem}" in await refused(store.save([MemoryItem("n", "good", "x"), item]))
    assert await keys(store) == []


async def test_an_unknown_order_is_refused():
    order: Any = "size"

    problem = await refused(InMemoryStore().list(MemoryQuery("n", order=order)))

    assert problem == "order: unknown 'size'; known are key, created, updated"


async def test_search_finds_symbols_that_are_no_words():
    store = InMemoryStore()
    await store.save([MemoryItem("n", "1", "done 🎉🎉"), MemoryItem("n", "2", "🎉"), MemoryItem("n", "3", "done")])

    assert [hit.item.key for hit in await store.search("n", "🎉")] == ["1", "2"]


async def test_search_finds_single_chinese_characters_kana_and_hangul():
    store = InMemoryStore()
    texts = {"zh": "今天下雨", "ja": "すしを食べる", "ko": "한국어를 배운다"}
    await store.save([MemoryItem("n", key, text) for key, text in texts.items()])

    found = {text: [hit.item.key for hit in await store.search("n", text)] for text in ("雨", "すし", "한국")}

    assert found == {"雨": ["zh"], "すし": ["ja"], "한국": ["ko"]}


async def test_search_treats_full_width_and_ordinary_letters_alike():
    store = InMemoryStore()
    await store.save([MemoryItem("n", "1", "\uff34\uff25\uff21")])

    assert [hit.item.key for hit in await store.search("n", "tea")] == ["1"]


@given(st.text(), st.text())
def test_search_takes_any_text(text: str, query: str):
    async def story() -> None:
        store = InMemoryStore()
        item = MemoryItem("n", "k", text.encode("utf-8", "ignore").decode())
        await store.save([item])
        assert all(0 < hit.score <= 1 for hit in await store.search("n", query))

    asyncio.run(story())


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"policy": "lru"}, "policy: unknown 'lru'; known are none, ttl, capacity, value"),
        ({"policy": "capacity"}, "max_items: policy 'capacity' needs a number of at least 1"),
        ({"policy": "value", "max_items": 0}, "max_items: policy 'value' needs a number of at least 1"),
        ({"policy": "ttl"}, "default_ttl_s: policy 'ttl' needs it, in seconds"),
        ({"policy": "ttl", "default_ttl_s": 0}, "default_ttl_s: must be more than 0 seconds"),
        ({"max_items": 5}, "max_items: means nothing with policy 'none'; use 'capacity' or 'value'"),
        ({"default_ttl_s": 5}, "default_ttl_s: means nothing with policy 'none'; use 'ttl'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], problem: str):
    with pytest.raises(ValueError, match="^" + problem):
        InMemorySettings(**settings)


@attrs.frozen
class Context:
    plugin: str = "pluggent-memory-inmemory"
    host_version: str = "0"

    async def tools_named(self, pattern: str) -> tuple[str, ...]:
        raise AssertionError(pattern)

    async def model_named(self, name: str) -> str:
        return name


async def test_the_plugin_closes_its_store_at_the_end():
    context: PluginContext = Context()
    plugin = InMemory(InMemorySettings("capacity", max_items=1))
    (store,) = plugin.provide_memory(ProvideEvent())

    async with plugin.open(context):
        await store.save([MemoryItem("n", "k", "x")])

    with pytest.raises(MemoryStoreError, match="closed"):
        await store.get("n", "k")
