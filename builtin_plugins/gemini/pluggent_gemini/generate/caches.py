"""Explicit caches: the beginning of requests, kept by the vendor under a name for a while.

The beginning is the system instruction, the tools and their configuration. Google bills what it keeps by the hour,
and reads from it at a tenth of the price.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import attrs
from pluggent_hookspecs import ModelRequest, ProviderError, Usage
from pluggent_provider_http.payload import MalformedError, as_fields, as_object, as_text, decode_whole
from pluggent_provider_http.token_counts import as_tokens
from pluggent_provider_http.unsendable import UNSENDABLE, UnsendableError

from pluggent_gemini.access import Access
from pluggent_gemini.generate.parts import encode
from pluggent_gemini.generate.request import Body, encode_request
from pluggent_gemini.model_traits import model_of
from pluggent_gemini.settings import LEAST_TTL_S, Server

if TYPE_CHECKING:  # it brings httpx2 along, which takes long to import
    from pluggent_provider_http.client import Client

_PATH = "/cachedContents"
_GONE = (403, 404)
_MARGIN_S = 30.0
_USUAL = (None, "auto")
_OFF = "off"
_TIME = re.compile(r"(?P<count>\d{1,6})(?P<unit>[smh])")
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
_NOTHING = Usage()
_MOST = 64
"""How many names are remembered."""


@attrs.frozen
class Cache:
    """What a request is sent with: the name of its beginning, empty if there is none; ``paid`` is what that cost."""

    name: str = ""
    notes: tuple[str, ...] = ()
    until: float = 0.0
    paid: Usage = _NOTHING


class Caches:
    """The explicit caches of one server, made when a request first needs them."""

    def __init__(self, access: Access, server: Server) -> None:
        self._access = access
        self._server = server
        self._known: dict[str, Cache] = {}
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    def may_keep(self, request: ModelRequest) -> bool:
        """Whether the settings or *request* want a cache; also if what is wanted cannot be read."""
        wished = request.parameters.cache
        return self._server.cache_ttl_s > 0 if wished in _USUAL else wished != _OFF

    def of(self, request: ModelRequest, content: Body) -> Cache:
        """Return the cache for a request, whose cost is told once. Raises UnsendableError for a time that is none."""
        if not self._ttl_s(request):
            return Cache()
        key = _key(request.model, content)
        found = self._known.get(key, Cache())
        if found.paid != _NOTHING:
            self._known[key] = attrs.evolve(found, paid=_NOTHING)
        return found if found.until > monotonic() else Cache()

    async def fill(self, request: ModelRequest, target: str, http: Client) -> None:
        """See that the beginning of *request* is kept; where the vendor keeps it not, the request goes without."""
        model = model_of(request.model, self._server.models.items())
        try:
            content = encode_request(request, self._server, target)
            ttl_s = self._ttl_s(request)
        except UNSENDABLE:
            return  # who asks is told when it is sent
        key = _key(request.model, content)
        if not content.head or not model.caches:
            return
        async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            known = self._known.get(key)
            if known is None or known.until <= monotonic():
                if len(self._known) >= _MOST:
                    self._known.clear()
                self._known[key] = await self._made(request.model, content, ttl_s, http)

    @contextmanager
    def checked(self, request: ModelRequest, target: str) -> Generator[None]:
        """Forget a cache that the vendor does not have any more; the request is worth another try then."""
        try:
            yield
        except ProviderError as error:
            if error.status in _GONE and "cachedcontent" in error.message.lower():
                with suppress(*UNSENDABLE):
                    self._known.pop(_key(request.model, encode_request(request, self._server, target)), None)
                error.retryable = True
            raise

    def _ttl_s(self, request: ModelRequest) -> float:
        """Return for how long what *request* begins with is to be kept; 0: not at all."""
        wished = request.parameters.cache
        if wished in _USUAL:
            return self._server.cache_ttl_s
        if wished == _OFF:
            return 0.0
        found = _TIME.fullmatch(wished or "")
        seconds = int(found["count"]) * _UNITS_S[found["unit"]] if found is not None else 0.0
        if seconds < LEAST_TTL_S:
            expected = f"expected off, auto, or a time such as 90s, 5m or 1h, {LEAST_TTL_S:g} s at least"
            raise UnsendableError(f"parameters.cache: {expected}, got {wished!r}")
        return seconds

    async def _made(self, model: str, content: Body, ttl_s: float, http: Client) -> Cache:
        await self._access.prepare()
        headers, faults = self._access.headers(model, _PATH)
        body = b'{"model":%b,%b"ttl":"%ds"}' % (encode(self._access.resource(model)), content.head, ttl_s)
        started = monotonic()
        try:
            async with http.post(_PATH, body, headers, faults) as answer:
                await self._access.check(answer)
                made = as_object(decode_whole(await answer.read()), "the answer")
        except (ProviderError, MalformedError) as error:
            # Such as too short a beginning; asked again when the time of a cache is over.
            return Cache("", (f"the vendor keeps no cache: {error}",), started + ttl_s)
        tokens = as_tokens(as_fields(made.get("usageMetadata")).get("totalTokenCount"))
        paid = _NOTHING if tokens is None else Usage(input=tokens, cache_write=tokens)
        return Cache(as_text(made.get("name")), (), started + max(ttl_s - _MARGIN_S, ttl_s / 2), paid)


def _key(model: str, content: Body) -> str:
    return hashlib.sha256(b"%b\0%b" % (model.encode("utf-8", "replace"), content.head)).hexdigest()
