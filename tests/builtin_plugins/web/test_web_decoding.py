import gzip
import zlib

import pytest
from hypothesis import given, strategies as st
from pluggent_web.decoding import Decoder, PackedError


def decoded(encoding: str, *pieces: bytes, limit: int = 1_000_000) -> Decoder:
    decoder = Decoder(encoding, limit)
    for piece in pieces:
        decoder.feed(piece)
    decoder.end()
    return decoder


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKED = [("gzip", gzip.compress), ("X-GZip ", gzip.compress), ("deflate", zlib.compress), ("deflate", raw_deflate)]


@pytest.mark.parametrize(("encoding", "pack"), [*PACKED, ("", bytes), ("identity", bytes)])
@given(data=st.binary(max_size=2000), size=st.integers(2, 400))
def test_what_was_packed_comes_out_however_it_was_cut(encoding, pack, data: bytes, size: int):
    packed = pack(data)
    pieces = [packed[at : at + size] for at in range(0, len(packed), size)]

    assert bytes(decoded(encoding, *pieces).body) == data


@pytest.mark.parametrize(("encoding", "pack"), PACKED)
def test_a_bomb_is_as_large_as_the_limit(encoding, pack):
    bomb = pack(bytes(200_000_000))
    decoder = decoded(encoding, *[bomb[at : at + 65_536] for at in range(0, len(bomb), 65_536)], limit=1000)

    assert (len(decoder.body), decoder.full) == (1000, True)


def test_exactly_the_limit_is_not_too_much():
    assert not decoded("gzip", gzip.compress(bytes(1000)), limit=1000).full
    assert not decoded("", bytes(1000), limit=1000).full
    assert decoded("", bytes(1001), limit=1000).full


def test_members_of_gzip_follow_each_other_and_other_bytes_behind_the_end_are_nothing():
    two = gzip.compress(b"one ", mtime=0) + gzip.compress(b"two", mtime=0)

    assert bytes(decoded("gzip", two).body) == b"one two"
    assert bytes(decoded("gzip", two[:30], two[30:] + b"junk").body) == b"one two"
    assert bytes(decoded("deflate", zlib.compress(b"one") + b"junk").body) == b"one"


def test_endless_empty_members_end_with_the_first():
    assert bytes(decoded("gzip", gzip.compress(b"", mtime=0) * 1000).body) == b""


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip, gzip", "gzip,br", "gzip gzip", "\x00"])
def test_what_was_not_asked_for_is_refused(encoding: str):
    with pytest.raises(PackedError, match="not asked for"):
        Decoder(encoding, 10)


@pytest.mark.parametrize(
    ("encoding", "body", "says"),
    [
        ("gzip", b"<html>not packed</html>", "is not gzip"),
        ("gzip", gzip.compress(b"a" * 1000, mtime=0)[:-9], "broke off"),
        ("deflate", zlib.compress(b"a" * 1000)[:-9], "broke off"),
        ("gzip", gzip.compress(b"a" * 1000, mtime=0)[:-8] + bytes(8), "is not gzip"),
    ],
)
def test_what_is_not_packed_as_it_says_is_an_error(encoding: str, body: bytes, says: str):
    with pytest.raises(PackedError, match=says):
        decoded(encoding, body)


@given(st.sampled_from(["gzip", "deflate"]), st.lists(st.binary(max_size=50), max_size=5))
def test_any_bytes_are_unpacked_or_refused(encoding: str, pieces: list[bytes]):
    try:
        decoder = decoded(encoding, *pieces, limit=100)
    except PackedError:
        return
    assert len(decoder.body) <= 100
