"""What every memory store has to do, as tests to be inherited.

    class TestMyStore(MemoryStoreConformance):
        def make_store(self, folder, clock):
            return MyStore(folder / "memory.db", clock=clock)

The tests need pytest and no plugin of it: each runs a story in an event loop of its own.
"""

# ruff: noqa: FBT001, PLR2004 (these are tests: cases and expected numbers)

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs
import pytest
from pluggent_hookspecs import Json, MemoryItem, MemoryQuery, MemoryStore, MemoryStoreError, MemoryStoreErrorKind

__all__ = ["Clock", "MemoryStoreConformance"]


Story: TypeAlias = Callable[[MemoryStore], Coroutine[Any, Any, None]]
Tell: TypeAlias = Callable[[Story], None]

AWKWARD = ("天气", "a:b", "a/b", "a%b", "a_b", "a*b", "a'b", 'a"b', "a\\b", " a ", "A", "ä", "a\u0308", "🎉", "a\nb")
"""Names that a store has to keep apart and give back as they are."""


@attrs.define
class Clock:
    """A clock that goes when it is told to; called, it gives seconds since the epoch."""

    now_s: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass."""
        self.now_s += seconds


def items(namespace: str, keys: Iterable[str]) -> list[MemoryItem]:
    """Return an item for each of *keys*."""
    return [MemoryItem(namespace, key, f"text of {key}") for key in keys]


def text_of(item: MemoryItem | None) -> str | None:
    """Return the text of *item*, None for none."""
    return item.text if item else None


async def keys_of(store: MemoryStore, query: MemoryQuery) -> list[str]:
    """Return the keys of all pages."""
    keys: list[str] = []
    while True:
        page = await store.list(query)
        keys += [item.key for item in page.items]
        if page.cursor is None:
            return keys
        query = attrs.evolve(query, cursor=page.cursor)


async def found_by(store: MemoryStore, text: str) -> list[str]:
    """Return the keys that a search in ``n`` finds, best first."""
    return [hit.item.key for hit in await store.search("n", text)]


async def refused(call: Awaitable[object]) -> MemoryStoreErrorKind:
    """Return why *call* failed; the test fails if it did not."""
    with pytest.raises(MemoryStoreError) as caught:
        await call
    return caught.value.kind


Order: TypeAlias = Literal["key", "created", "updated"]

QUERIES = ('"', "'", "*", "%", "_", "(", "a AND", "NOT", "OR OR", "a NEAR b", "key:", "{}", "-a", "--", "\\", "\x00")
"""Searches that mean something in a query language; here they are words, or nothing."""


class ListsAndSearches:
    """Lists page by page, and searches. The fixtures ``told`` and ``ticking`` come from who inherits."""

    # ---- lists --------------------------------------------------------------------------

    def test_lists_are_ordered_by_key_as_characters_are_numbered(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            await store.save([MemoryItem("n", key, "x") for key in AWKWARD])
            assert await keys_of(store, MemoryQuery("n")) == sorted(AWKWARD)
            assert await keys_of(store, MemoryQuery("n", descending=True)) == sorted(AWKWARD, reverse=True)

        told(story)

    def test_lists_are_ordered_by_the_order_of_saves_even_within_one_instant(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            for key in "cab":
                await store.save(items("n", key))
            await store.save(items("n", "a"))
            assert await keys_of(store, MemoryQuery("n", order="created")) == ["c", "a", "b"]
            assert await keys_of(store, MemoryQuery("n", order="created", descending=True)) == ["b", "a", "c"]
            assert await keys_of(store, MemoryQuery("n", order="updated")) == ["c", "b", "a"]
            assert await keys_of(store, MemoryQuery("n", order="updated", descending=True)) == ["a", "b", "c"]

        told(story)

    def test_a_prefix_is_meant_literally(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            await store.save([MemoryItem("n", key, "x") for key in ("a%1", "a%2", "ab", "A%3", "a*", "a_1", "ä")])
            assert await keys_of(store, MemoryQuery("n", prefix="a%")) == ["a%1", "a%2"]
            assert await keys_of(store, MemoryQuery("n", prefix="a_")) == ["a_1"]
            assert await keys_of(store, MemoryQuery("n", prefix="a*")) == ["a*"]
            assert await keys_of(store, MemoryQuery("n", prefix="z")) == []

        told(story)

    def test_since_is_strictly_later(self, told: Tell, ticking: Clock) -> None:
        async def story(store: MemoryStore) -> None:
            (first,) = await store.save(items("n", "a"))
            ticking.advance(1)
            await store.save(items("n", "b"))
            assert await keys_of(store, MemoryQuery("n", since_s=first.updated_s)) == ["b"]
            assert await keys_of(store, MemoryQuery("n", since_s=first.updated_s - 1)) == ["a", "b"]
            assert await keys_of(store, MemoryQuery("n", since_s=first.updated_s + 1)) == []

        told(story)

    @pytest.mark.parametrize("order", ["key", "created", "updated"])
    @pytest.mark.parametrize("descending", [False, True])
    def test_pages_make_the_whole_list(self, told: Tell, order: Order, descending: bool) -> None:
        async def story(store: MemoryStore) -> None:
            await store.save(items("n", "gbcadef"))
            query = MemoryQuery("n", order=order, descending=descending)
            whole = await keys_of(store, query)
            assert len(whole) == 7
            for limit in (1, 2, 3, 6, 7, 8):
                assert await keys_of(store, attrs.evolve(query, limit=limit)) == whole

        told(story)

    def test_the_last_page_says_so(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            await store.save(items("n", "ab"))
            assert (await store.list(MemoryQuery("n", limit=2))).cursor is None
            assert (await store.list(MemoryQuery("n", limit=1))).cursor is not None
            assert (await store.list(MemoryQuery("empty"))).cursor is None

        told(story)

    @pytest.mark.parametrize("order", ["key", "created", "updated"])
    @pytest.mark.parametrize("descending", [False, True])
    def test_saves_between_pages_neither_repeat_nor_hide_others(
        self,
        told: Tell,
        order: Order,
        descending: bool,
    ) -> None:
        async def story(store: MemoryStore) -> None:
            await store.save(items("n", "dhbfjl"))
            disturbed = {"b", "d", "new-a", "new-z", "aa", "zz"}
            query = MemoryQuery("n", order=order, descending=descending, limit=1)
            seen: list[str] = []
            for _ in range(2):
                page = await store.list(query)
                seen += [item.key for item in page.items]
                # new items on both sides, one saved anew, one that goes
                await store.save([MemoryItem("n", key, "again") for key in sorted(disturbed - {"b"})])
                await store.delete("n", "b")
                query = attrs.evolve(query, cursor=page.cursor)
            seen += await keys_of(store, query)
            others = [key for key in seen if key not in disturbed]
            assert sorted(others) == ["f", "h", "j", "l"]
            if order == "key":
                assert len(seen) == len(set(seen))

        told(story)

    def test_a_cursor_that_is_none_is_refused(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            await store.save(items("n", "abc"))
            for cursor in ("", "nonsense", "天气", "AAAA", "W10="):
                assert await refused(store.list(MemoryQuery("n", cursor=cursor))) is MemoryStoreErrorKind.INVALID

        told(story)

    @pytest.mark.parametrize("limit", [0, -1])
    def test_a_limit_below_one_is_refused(self, told: Tell, limit: int) -> None:
        async def story(store: MemoryStore) -> None:
            assert await refused(store.list(MemoryQuery("n", limit=limit))) is MemoryStoreErrorKind.INVALID
            assert await refused(store.search("n", "x", limit)) is MemoryStoreErrorKind.INVALID

        told(story)

    # ---- search -------------------------------------------------------------------------

    def test_search_finds_words_in_any_case(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            await store.save([MemoryItem("n", "1", "Green Tea, hot"), MemoryItem("n", "2", "coffee")])
            for text in ("tea", "TEA", "tea!", "a cup of tea"):
                assert await found_by(store, text) == ["1"]
            assert await found_by(store, "milk") == []

        told(story)

    def test_search_puts_better_matches_first(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            texts = {"one": "tea and a long story of other things", "both": "tea with milk", "none": "coffee"}
            await store.save([MemoryItem("n", key, text) for key, text in texts.items()])
            hits = await store.search("n", "tea milk")
            assert [hit.item.key for hit in hits] == ["both", "one"]
            assert 1 >= hits[0].score > hits[1].score > 0

        told(story)

    def test_search_gives_no_more_than_asked_for(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            await store.save([MemoryItem("n", str(i), "tea") for i in range(20)])
            assert len(await store.search("n", "tea", 3)) == 3
            assert len(await store.search("n", "tea")) == 10

        told(story)

    def test_search_finds_two_character_chinese_words(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            texts = {"1": "北京天气很好", "2": "北京很大", "3": "天天生气", "4": "weather 天气"}
            await store.save([MemoryItem("n", key, text) for key, text in texts.items()])
            assert sorted(await found_by(store, "天气")) == ["1", "4"]
            assert sorted(await found_by(store, "北京")) == ["1", "2"]
            assert (await found_by(store, "北京天气"))[0] == "1"
            assert await found_by(store, "上海") == []

        told(story)

    @pytest.mark.parametrize("text", ["", " ", "\n\t "])
    def test_search_for_nothing_finds_nothing(self, told: Tell, text: str) -> None:
        async def story(store: MemoryStore) -> None:
            await store.save([MemoryItem("n", "k", "a text")])
            assert await store.search("n", text) == ()

        told(story)

    @pytest.mark.parametrize("text", QUERIES)
    def test_search_has_no_syntax(self, told: Tell, text: str) -> None:
        async def story(store: MemoryStore) -> None:
            await store.save([MemoryItem("n", "k", "tea")])
            assert await store.search("n", text) == ()
            assert await found_by(store, f"{text} tea") == ["k"]

        told(story)

    def test_search_sees_the_latest_text_only(self, told: Tell) -> None:
        async def story(store: MemoryStore) -> None:
            await store.save([MemoryItem("n", "k", "tea")])
            await store.save([MemoryItem("n", "k", "coffee")])
            assert await found_by(store, "tea") == []
            assert await found_by(store, "coffee") == ["k"]

        told(story)


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
            assert (await store.list(MemoryQuery("absent"))).items == ()
            assert await store.search("absent", "tea") == ()

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
