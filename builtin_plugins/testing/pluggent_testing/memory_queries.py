"""What a memory store promises about lists and searches; inherited by memory.MemoryStoreConformance."""

# ruff: noqa: FBT001, PLR2004 (these are tests: cases and expected numbers)

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs
import pytest
from pluggent_hookspecs import MemoryItem, MemoryQuery, MemoryStore, MemoryStoreErrorKind

from pluggent_testing.memory_stories import AWKWARD, Clock, Tell, found_by, items, keys_of, refused

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
