"""What a table of values as one test promises."""

import pytest
from each_of import each_of


def test_every_value_that_fails_is_named():
    @each_of(("a", "b"), [(1, 1), (1, 2), (3, 4)])
    def test(a, b):
        assert a == b

    with pytest.raises(ExceptionGroup, match=r"2 of 3 values failed: value: 1-2; value: 3-4") as caught:
        test()

    assert [type(one) for one in caught.value.exceptions] == [AssertionError, AssertionError]


def test_a_check_that_nothing_was_raised_counts():
    @each_of("text", ["1", "x"], ids=["number", "letter"])
    def test(text):
        with pytest.raises(ValueError, match="invalid"):
            int(text)

    with pytest.raises(BaseExceptionGroup, match="1 of 2 values failed: value: number"):
        test()


async def test_async_tests_are_run_for_every_value():
    seen = []

    @each_of("value", [1, 2, 3], ids=str)
    async def test(value):
        seen.append(value)

    await test()

    assert seen == [1, 2, 3]


@each_of("one", [1, 2])
@each_of("other", "ab")
def test_tables_combine_with_each_other_and_with_fixtures(one, other, tmp_path):
    assert (one, other) in {(1, "a"), (1, "b"), (2, "a"), (2, "b")}
    assert tmp_path.is_dir()


def test_no_value_is_no_table():
    with pytest.raises(AssertionError):
        each_of("value", [])
