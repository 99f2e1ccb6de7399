"""Fetches for the tool ``fetch_url``: one URL in, one framed page of text or one image out.

A redirect is a call of the tool of its own, below the first: every URL that is fetched has passed every policy.
Import it when the first URL is fetched: the HTTP library behind it takes longer than the host's start.
"""

from __future__ import annotations

import base64
import re
from contextvars import ContextVar

from pluggent_checked_http.pinned import addresses_of
from pluggent_hookspecs import Image, Text, ToolContext, ToolOutput

from pluggent_web.answers import Answer, FetchError
from pluggent_web.exchange import Exchange
from pluggent_web.fetch_tool import MAX_REDIRECTS, Content, Resolver
from pluggent_web.hosts import host_rules
from pluggent_web.pages.charsets import decode
from pluggent_web.pages.framing import Document, document, one_line, page
from pluggent_web.pages.kinds import Kind, kind_of
from pluggent_web.pages.reader import UnreadableError, read_html
from pluggent_web.pages.recent import RecentDocuments
from pluggent_web.settings import WebSettings
from pluggent_web.urls import Url, UrlError, follow, read_url

_TRAIL: ContextVar[tuple[str, ...]] = ContextVar("pluggent_web_trail", default=())
"""The URLs whose redirects led to this call."""
_GOOD = range(200, 300)
_ERROR_CHARS = 2_000
_SHOWN = 300
_MEDIA_TYPE = re.compile(r"[a-z0-9.+*-]{1,60}/[a-z0-9.+*-]{1,60}")


class Fetcher:
    """Fetches for all sessions of one plugin."""

    def __init__(self, settings: WebSettings, resolver: Resolver | None) -> None:
        self._settings = settings
        self._recent = RecentDocuments()
        self._exchange = Exchange(settings, host_rules(settings), resolver or addresses_of)

    async def fetch(self, text: str, offset: int, content: Content, context: ToolContext) -> ToolOutput:
        """Return what is at the URL *text*."""
        try:
            url = read_url(text)
            key = (context.session_id, str(url), content)
            if offset and (kept := self._recent.get(key)) is not None:
                return self._page(kept, offset)
            answer = await self._exchange.get(url)
            if answer.location is not None:
                return await _followed(url, answer.location, offset, content, context)
            made = await self._read(answer, content)
        except (UrlError, FetchError) as error:
            return ToolOutput.error(f"{error}.")
        if isinstance(made, ToolOutput):
            return made
        self._recent.keep(key, made)
        return self._page(made, offset)

    def _page(self, document: Document, offset: int) -> ToolOutput:
        total = len(document.text)
        if offset and offset >= total:
            return ToolOutput.error(f"{document.url} has {total:,} characters; offset={offset} is beyond its end.")
        return ToolOutput(page(document, offset, self._settings.page_chars))

    async def _read(self, answer: Answer, content: Content) -> Document | ToolOutput:
        said = answer.content_type
        kind, media_type = kind_of(answer.body, said)
        facts = f"Status {answer.status}, {_shown_type(media_type)}, {len(answer.body):,} bytes"
        notes = (f"Only the first {len(answer.body):,} bytes were read.",) if answer.cut else ()
        url = str(answer.url)
        if answer.status not in _GOOD:
            return await self._failed(answer, kind, facts)
        match kind:
            case Kind.IMAGE:
                return _image(answer, media_type, facts)
            case Kind.HTML if content != "source":
                return await _html(answer, content, facts, notes)
            case Kind.HTML | Kind.TEXT:
                text, _ = decode(answer.body, said, markup=kind is Kind.HTML)
                return document(url, "", text, facts, notes)
            case Kind.PDF:
                return ToolOutput.error(f"{url}\n{facts}\nThis is a PDF; its text cannot be read with this tool.")
            case Kind.OTHER:
                return ToolOutput.error(f"{url}\n{facts}\nThis is neither text nor an image that can be shown.")

    async def _failed(self, answer: Answer, kind: Kind, facts: str) -> ToolOutput:
        """Return an answer with the status of a failure; its words may say what to do."""
        url = str(answer.url)
        if "retry-after" in answer.headers:
            facts = f"{facts}, Retry-After: {one_line(answer.headers['retry-after'])[:40]}"
        made: Document | ToolOutput = document(url, "", "", facts)
        if kind is Kind.HTML:
            made = await _html(answer, "all", facts, ())
        elif kind is Kind.TEXT:
            made = document(url, "", decode(answer.body, answer.content_type)[0], facts)
        if isinstance(made, ToolOutput) or not made.text:
            return ToolOutput.error(f"{url}\n{facts}")
        return ToolOutput.error(page(made, 0, min(_ERROR_CHARS, self._settings.page_chars)))


async def _followed(url: Url, location: str, offset: int, content: Content, context: ToolContext) -> ToolOutput:
    """Return what a call of this tool for the target of a redirect returns, if the policies allow it."""
    try:
        target = follow(url, location)
    except UrlError as error:
        return ToolOutput.error(f"{_short(url)} redirects to a URL that is not fetched: {error}.")
    trail = (*_TRAIL.get(), str(url))
    if str(target) in trail:
        return ToolOutput.error(f"{_short(url)} redirects to {_short(target)}, which redirected to it: it never ends.")
    if len(trail) > MAX_REDIRECTS:
        return ToolOutput.error(f"More than {MAX_REDIRECTS} redirects; the last one to {_short(target)}.")
    token = _TRAIL.set(trail)
    try:
        output = await context.call_tool("fetch_url", {"url": str(target), "offset": offset, "content": content})
    finally:
        _TRAIL.reset(token)
    if output.is_error:
        return _behind(f"{_short(url)} redirects to {_short(target)}:\n", output)
    return _behind(f"Redirected from {_short(url)}\n", output) if len(trail) == 1 else output


def _short(url: Url) -> str:
    text = str(url)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _behind(words: str, output: ToolOutput) -> ToolOutput:
    """Return *output* with *words* in front of it."""
    if isinstance(output.for_model, str):
        return ToolOutput(words + output.for_model, is_error=output.is_error)
    return ToolOutput((Text(words), *output.for_model), is_error=output.is_error)


async def _html(answer: Answer, content: Content, facts: str, notes: tuple[str, ...]) -> Document | ToolOutput:
    html, _ = decode(answer.body, answer.content_type, markup=True)
    try:
        read = await read_html(html, str(answer.url), "main" if content == "main" else "all")
    except UnreadableError as error:
        return ToolOutput.error(f"{answer.url}\n{facts}\n{error}. With content=source its HTML can be read.")
    if read.whole and content == "main":
        notes = (*notes, "No main content was found: this is the whole page.")
    return document(str(answer.url), read.title, read.markdown, facts, notes)


def _image(answer: Answer, media_type: str, facts: str) -> ToolOutput:
    if answer.cut:
        return ToolOutput.error(f"{answer.url}\n{facts}\nThis image is larger than what is fetched.")
    picture = Image(data=base64.b64encode(answer.body).decode("ascii"), media_type=media_type)
    return ToolOutput((Text(f"{answer.url}\n{facts}\n"), picture))


def _shown_type(media_type: str) -> str:
    return media_type if _MEDIA_TYPE.fullmatch(media_type) else "unknown type"
