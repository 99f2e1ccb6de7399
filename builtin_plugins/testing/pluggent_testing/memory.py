"""What every memory store has to do, as tests to be inherited.

    class TestMyStore(MemoryStoreConformance):
        def make_store(self, folder, clock):
            return MyStore(folder / "memory.db", clock=clock)

The tests need pytest and no plugin of it: each runs a story in an event loop of its own. Those
of lists and searches stand in memory_queries.py.
"""

# ruff: noqa: PLR2004 (these are tests: expected numbers)

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Mapping
from pathlib import Path

import attrs
import pytest
from pluggent_hookspecs import Json, MemoryItem, MemoryQuery, MemoryStore, MemoryStoreErrorKind

from pluggent_testing.memory_queries import ListsAndSearches
from pluggent_testing.memory_stories import AWKWARD, Clock, Story, Tell, found_by, items, keys_of, refused, text_of

__all__ = ["Clock", "MemoryStoreConformance"]


class MemoryStoreConformance(ListsAndSearches):
    """The promises of ``pluggent_hookspecs.MemoryStore``. Inherit, and say how a store is made.

    A store that takes its time from elsewhere sets ``takes_clock = False``; what needs a
    clock is then skipped.
    """

    takes_clock = True

    def make_store(self, folder: Path, clock: Clock) -> MemoryStore | Awaitable[MemoryStore]:
        """Return a new, empty store. *folder* is this test's own; the suite closes the store."""
        raise TypeError(
            f"{type(self).__name__} does not say how a store is made: write make_store(self, folder, clock)"
        )

    @pytest.fixture
    def clock(self) -> Clock:
        """Return the clock of this test."""
        return Clock()

    @pytest.fixture
    def told(self, tmp_path: Path, clock: Clock) -> Tell:
        """Return what runs a story with a new store, from its making to its closing."""

        async def tell(story: Story) -> None:
            made = self.make_store(tmp_path, clock)
            store = await made if inspect.isawaitable(made) else made
            try:
                await asyncio.wait_for(story(store), 60)
            finally:
                await store.aclose()

        return lambda story: asyncio.run(tell(story))

    @pytest.fixture
    def ticking(self, clock: Clock) -> Clock:
        """Return the clock of this test, or skip it for a store that takes none."""
        if not self.takes_clock:
            pytest.skip("this store takes its time from elsewhere")
        return clock

    def test_a_store_is_a_memory_store_with_a_name(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            assert isinstance(store, MemoryStore)
            assert store.name

        told(story)

    # ---- save, get, delete --------------------------------------------------------------

    def test_what_was_saved_is_given_back_whole(self, told: Tell) -> None:
        data: Mapping[str, Json] = {
            "text": "天气 🎉",
            "none": None,
            "yes": True,
            "list": (1, 2.5, (), {"a": None}),
            "big": 2**53,
        }
        item = MemoryItem("notes", "key", "line\n天气 \x00 🎉", data, ttl_s=3600.5, value=-0.25)

        async def story(store: MemoryStore) -> None:
            (saved,) = await store.save([item])
            assert attrs.evolve(saved, created_s=0.0, updated_s=0.0) == item
            assert await store.get("notes", "key") == saved

        told(story)

    def test_awkward_names_are_kept_apart(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            await store.save([MemoryItem(space, key, f"{space}/{key}") for space in AWKWARD for key in AWKWARD])
            for space in AWKWARD:
                for key in AWKWARD:
                    assert text_of(await store.get(space, key)) == f"{space}/{key}"

        told(story)

    def test_saving_again_replaces_the_item(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            (first,) = await store.save([MemoryItem("n", "k", "old", {"a": 1}, value=2.0)])
            (second,) = await store.save([MemoryItem("n", "k", "new")])
            assert await store.get("n", "k") == second
            assert (second.text, second.data, second.value) == ("new", {}, 0.0)
            assert second.created_s == first.created_s
            assert second.updated_s >= first.updated_s
            assert await keys_of(store, MemoryQuery("n")) == ["k"]

        told(story)

    def test_the_store_sets_the_times_of_saving(self, told: Tell, ticking: Clock) -> None:
        async def story(store: MemoryStore) -> None:
            start = ticking.now_s
            await store.save([MemoryItem("n", "k", "x", created_s=1.0, updated_s=2.0)])
            ticking.advance(10)
            (saved,) = await store.save([MemoryItem("n", "k", "x")])
            assert saved.created_s == pytest.approx(start)
            assert saved.updated_s == pytest.approx(start + 10)

        told(story)

    def test_saving_nothing_is_fine(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            assert await store.save([]) == ()

        told(story)

    def test_what_was_saved_comes_back_in_the_order_given(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            saved = await store.save(items("n", "cab"))
            assert [item.key for item in saved] == ["c", "a", "b"]

        told(story)

    @pytest.mark.parametrize("bad", [MemoryItem("", "k", "x"), MemoryItem("n", "", "x")], ids=["namespace", "key"])
    def test_one_invalid_item_and_nothing_is_saved(self, told: Tell, bad: MemoryItem) -> None:
        async def story(store: MemoryStore) -> None:
            await store.save([MemoryItem("n", "old", "before")])
            batch = [MemoryItem("n", "new", "x"), MemoryItem("n", "old", "after"), bad]
            assert await refused(store.save(batch)) is MemoryStoreErrorKind.INVALID
            assert await keys_of(store, MemoryQuery("n")) == ["old"]
            assert text_of(await store.get("n", "old")) == "before"
            assert await store.search("n", "after") == ()

        told(story)

    def test_empty_names_are_refused(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            calls = [store.get("", "k"), store.get("n", ""), store.delete("", "k"), store.delete("n", "")]
            calls_of_lists = [store.list(MemoryQuery("")), store.search("", "x")]
            for call in (*calls, *calls_of_lists):
                assert await refused(call) is MemoryStoreErrorKind.INVALID

        told(story)

    def test_deleting_twice_is_fine(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            await store.save([MemoryItem("n", "k", "x")])
            assert await store.delete("n", "k") is True
            assert await store.delete("n", "k") is False
            assert await store.get("n", "k") is None
            assert await store.search("n", "x") == ()

        told(story)

    def test_large_items_are_kept(self, told: Tell) -> None:
        text = "天气 " * 300_000

        async def story(store: MemoryStore) -> None:
            await store.save([MemoryItem("n", "k", text, {"long": "x" * 1_000_000})])
            kept = await store.get("n", "k")
            assert kept is not None
            assert (kept.text == text, kept.data == {"long": "x" * 1_000_000}) == (True, True)

        told(story)

    # ---- namespaces ---------------------------------------------------------------------

    def test_namespaces_never_see_each_other(self, told: Tell) -> None:
        spaces = ("a", "a:b", "a:", "A", "a%")

        async def story(store: MemoryStore) -> None:
            await store.save([MemoryItem(space, "k", f"tea {index}") for index, space in enumerate(spaces)])
            for index, space in enumerate(spaces):
                assert text_of(await store.get(space, "k")) == f"tea {index}"
                assert [item.namespace for item in (await store.list(MemoryQuery(space))).items] == [space]
                assert [hit.item.namespace for hit in await store.search(space, "tea")] == [space]
            assert await store.delete("a", "k") is True
            assert text_of(await store.get("a:b", "k")) == "tea 1"
            assert (await store.list(MemoryQuery("nobody"))).items == ()
            assert await store.search("nobody", "tea") == ()

        told(story)

    # ---- time ---------------------------------------------------------------------------

    def test_an_item_whose_time_is_over_is_gone_at_once(self, told: Tell, ticking: Clock) -> None:
        async def story(store: MemoryStore) -> None:
            await store.save([MemoryItem("n", "short", "tea", ttl_s=10), MemoryItem("n", "long", "tea")])
            ticking.advance(9)
            assert await keys_of(store, MemoryQuery("n")) == ["long", "short"]
            ticking.advance(1)
            assert await store.get("n", "short") is None
            assert await keys_of(store, MemoryQuery("n")) == ["long"]
            assert await found_by(store, "tea") == ["long"]
            assert await store.delete("n", "short") is False

        told(story)

    def test_saving_again_starts_the_time_anew(self, told: Tell, ticking: Clock) -> None:
        async def story(store: MemoryStore) -> None:
            await store.save([MemoryItem("n", "k", "x", ttl_s=10)])
            ticking.advance(9)
            await store.save([MemoryItem("n", "k", "x", ttl_s=10)])
            ticking.advance(9)
            assert await store.get("n", "k") is not None
            await store.save([MemoryItem("n", "k", "x")])
            ticking.advance(1_000_000)
            assert await store.get("n", "k") is not None

        told(story)

    def test_an_item_that_comes_back_after_its_time_is_new(self, told: Tell, ticking: Clock) -> None:
        async def story(store: MemoryStore) -> None:
            (first,) = await store.save([MemoryItem("n", "k", "x", ttl_s=10)])
            ticking.advance(20)
            (second,) = await store.save([MemoryItem("n", "k", "x")])
            assert second.created_s > first.created_s

        told(story)

    # ---- many at once, cancelled, closed ------------------------------------------------

    def test_calls_may_overlap(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            saves = [store.save([MemoryItem("n", f"{i % 10}-{k}", str(i)) for k in range(5)]) for i in range(50)]
            reads = [store.list(MemoryQuery("n")) for _ in range(10)]
            searches = [store.search("n", "7") for _ in range(10)]
            await asyncio.gather(*saves, *reads, *searches)
            texts = {item.key: item.text for item in (await store.list(MemoryQuery("n"))).items}
            assert len(texts) == 50
            for group in range(10):  # each batch was stored whole, so the last one of a group won all its keys
                assert len({texts[f"{group}-{k}"] for k in range(5)}) == 1

        told(story)

    def test_a_cancelled_save_has_stored_all_or_nothing(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            for steps in range(12):
                batch = [MemoryItem(f"space {steps}", str(i), "x") for i in range(100)]
                task = asyncio.ensure_future(store.save(batch))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                assert len(await keys_of(store, MemoryQuery(f"space {steps}"))) in (0, 100)

        told(story)

    def test_a_closed_store_says_so(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            await store.save(items("n", "a"))
            await store.aclose()
            await store.aclose()
            calls: list[Awaitable[object]] = [
                store.save(items("n", "b")),
                store.save([]),
                store.get("n", "a"),
                store.delete("n", "a"),
                store.list(MemoryQuery("n")),
                store.search("n", "a"),
            ]
            for call in calls:
                assert await refused(call) is MemoryStoreErrorKind.CLOSED

        told(story)
