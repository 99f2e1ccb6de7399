"""Vectors and requests for them, as the contract has them."""

import math
import re
import struct

import attrs
import pytest
from hypothesis import given, strategies as st
from pluggent_hookspecs import (
    CountsTokens,
    Embedder,
    EmbeddingIncomplete,
    EmbeddingRequest,
    EmbeddingResponse,
    ProviderError,
    ProviderErrorKind,
    ReplyMeta,
    Usage,
    Vectors,
)

numbers = st.floats(width=32)
rows = st.integers(1, 5).flatmap(lambda size: st.lists(st.tuples(*[numbers] * size), min_size=1, max_size=6))


@given(rows)
def test_vectors_hold_the_rows_they_are_made_of(given):
    vectors = Vectors.of(given)

    assert len(vectors) == len(given)
    assert [struct.pack(f"<{len(row)}f", *row) for row in vectors] == [
        struct.pack(f"<{len(row)}f", *row) for row in given
    ]
    assert vectors == Vectors(b"".join(struct.pack(f"<{len(row)}f", *row) for row in given), len(given[0]))


@given(rows)
def test_vectors_are_finite_if_every_number_is(given):
    assert Vectors.of(given).finite == all(math.isfinite(number) for row in given for number in row)


@given(st.lists(numbers, min_size=1))
def test_numbers_near_the_largest_float_are_finite(given):
    largest = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
    row = [math.copysign(largest, number) for number in given]

    assert Vectors.of([row]).finite


def test_a_vector_is_a_view_that_cannot_be_written_to():
    vector = Vectors.of([(1.0, 2.0)])[0]

    assert (vector.format, vector.shape) == ("f", (2,))
    with pytest.raises(TypeError):
        vector[0] = 3.0


def test_vectors_are_found_from_the_end_too():
    vectors = Vectors.of([(1.0,), (2.0,)])

    assert list(vectors[-1]) == [2.0]
    for beyond in (2, -3):
        with pytest.raises(IndexError, match="there are 2 vectors"):
            vectors[beyond]


def test_no_vectors_have_no_dimensions():
    assert Vectors.of([]) == Vectors() == Vectors.joined([]) == Vectors.joined([Vectors()])
    assert (len(Vectors()), list(Vectors()), Vectors().finite) == (0, [], True)


@pytest.mark.parametrize(("data", "dimensions"), [(b"1234", 0), (b"123", 1), (b"1234", 2), (b"", -1), (b"1234", -1)])
def test_bytes_that_are_no_vectors_are_refused(data, dimensions):
    with pytest.raises(ValueError, match="not a number of vectors"):
        Vectors(data, dimensions)


def test_vectors_of_different_sizes_are_refused():
    with pytest.raises(ValueError, match="of one size were expected, not of 1, 2"):
        Vectors.of([(1.0,), (1.0, 2.0)])
    with pytest.raises(ValueError, match="of one size were expected, not of 1, 2"):
        Vectors.joined([Vectors.of([(1.0,)]), Vectors.of([(1.0, 2.0)])])


def test_vectors_are_joined_and_cut_without_a_look_at_their_numbers():
    one, two = Vectors.of([(1.0, 2.0)]), Vectors.of([(3.0, 4.0), (5.0, 6.0)])

    assert Vectors.joined([one, Vectors(), two]) == Vectors.of([(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)])
    assert Vectors.joined([one, two]).first(1) == one
    assert Vectors.joined([two]).data is two.data


def test_vectors_are_told_apart_by_their_repr_which_has_none_of_their_numbers():
    one, other = repr(Vectors.of([(1.0, 2.0)])), repr(Vectors.of([(1.0, 2.5)]))

    assert one != other
    assert re.fullmatch(r"Vectors\(data=<8 bytes, sha256 [0-9a-f]{64}>, dimensions=2\)", one)


def test_one_text_instead_of_several_is_refused():
    with pytest.raises(TypeError, match=r"write texts=\(text,\)"):
        EmbeddingRequest("m", "hello")


def test_texts_are_kept_as_a_tuple():
    request = EmbeddingRequest("m", ["a", "b"])

    assert request.texts == ("a", "b")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        request.model = "n"  # type: ignore[misc]


def test_an_incomplete_embedding_has_what_came_and_all_that_the_failure_said():
    cause = ProviderError(
        ProviderErrorKind.RATE_LIMITED, "slow down", provider="v", status=429, retry_after=2.0, meta=ReplyMeta("r")
    )
    came = EmbeddingResponse(Vectors.of([(1.0,)]), Usage(input=3), "m")

    error = EmbeddingIncomplete(cause, came, 1_200)

    assert str(error) == "v: 1 of 1,200 texts were embedded, then: slow down"
    assert (error.kind, error.status, error.retry_after, error.retryable) == ("rate_limited", 429, 2.0, True)
    assert (error.response, error.cause, error.texts, error.meta) == (came, cause, 1_200, ReplyMeta("r"))


def test_embedders_and_counters_are_known_by_their_methods():
    class Both:
        name = target = "here"

        async def embed(self, request):
            raise AssertionError(request)

        async def count(self, request):
            raise AssertionError(request)

    assert all(isinstance(Both(), kind) for kind in (Embedder, CountsTokens))
    assert not any(isinstance(object(), kind) for kind in (Embedder, CountsTokens))
