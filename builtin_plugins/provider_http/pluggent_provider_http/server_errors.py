"""What a server's refusal means: HTTP status, headers and body become a ProviderError.

Bodies come from outside and may echo what was sent: they are cut, and secrets are taken out.
The tables hold what the servers of many vendors say; a provider adds nothing of its own.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import quote, quote_plus

import attrs
import msgspec
from pluggent_hookspecs import ProviderError, ProviderErrorKind as Kind, SubmissionInDoubt

from pluggent_provider_http.retry_hints import limit_reset, retry_after, retry_delay, should_retry

SHOWN_CHARS = 500
"""How much of what a server says is shown."""
MESSAGE_CHARS = 1500
"""How long the sentence of an error may be."""
REQUEST_IDS = ("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "cf-ray")
"""Headers with the id of a request: of OpenAI and most others, Anthropic, Amazon, Azure, and what stands in front."""
_LOOKED_AT = 65_536
_READ_CHARS = 8192
"""How much of a server's sentence is read: the patterns below take time that grows faster than its length."""
_LARGEST_CODE = 10**15
_STATUS = re.compile("[1-5][0-9]{2}")
_ID_CHARS = 100
_START_CHARS = 16
_MAX_DEPTH = 3

_BY_STATUS = {
    401: Kind.AUTHENTICATION,
    403: Kind.AUTHENTICATION,
    408: Kind.TIMEOUT,
    504: Kind.TIMEOUT,
    409: Kind.UNAVAILABLE,
    425: Kind.UNAVAILABLE,
    429: Kind.RATE_LIMITED,
}

# An empty account is neither a refusal of what was asked nor a limit that passes: another
# try cannot help, and "refused" would be shown as the model's own no.
_NO_CREDIT = (
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "insufficient_balance",
    "billing_error",
)
_LOW_BALANCE = "credit balance is too low"
"""Anthropic says it in words alone: its status and its code are those of any bad request."""
_POLICY = (
    "content_policy_violation", "content_filter", "responsibleaipolicyviolation", "moderation_blocked",
    "invalid_prompt", "bio_policy", "cyber_policy",
    # Gemini's: https://ai.google.dev/gemini-api/docs/api-errors (November 2026)
    "safety", "recitation", "prohibited_content", "spii", "blocklist", "content_blocked",
)  # fmt: skip
_BAD_KEY = ("api_key_invalid", "api_key_service_blocked")
"""Google says it in the details of a bad request."""
_SEALED = ("invalid_encrypted_content",)
_WORDS = {
    "rate_limit": Kind.RATE_LIMITED,
    "too_many_requests": Kind.RATE_LIMITED,
    "overloaded": Kind.UNAVAILABLE,
    "authentication": Kind.AUTHENTICATION,
    "invalid_api_key": Kind.AUTHENTICATION,
    "permission": Kind.AUTHENTICATION,
    "invalid_request": Kind.BAD_REQUEST,
    "badrequest": Kind.BAD_REQUEST,
    "bad_request": Kind.BAD_REQUEST,
    "model_not_found": Kind.BAD_REQUEST,
    "not_found": Kind.BAD_REQUEST,
    "too_large": Kind.BAD_REQUEST,
    "timeout": Kind.TIMEOUT,
    # Gemini's
    "quota_exceeded": Kind.RATE_LIMITED,
    "parameter_unknown": Kind.BAD_REQUEST,
    "failed_precondition": Kind.BAD_REQUEST,
    "deadline_exceeded": Kind.TIMEOUT,
    # Amazon's, which end in Exception
    "throttling": Kind.RATE_LIMITED,
    "validationexception": Kind.BAD_REQUEST,
    "resourcenotfound": Kind.BAD_REQUEST,
    "accessdenied": Kind.AUTHENTICATION,
    "expiredtoken": Kind.AUTHENTICATION,
}
_BY_NAME = {
    "modelnotready": Kind.UNAVAILABLE,
    "modelerror": Kind.UNAVAILABLE,
    "servicequotaexceeded": Kind.RATE_LIMITED,
}
"""Amazon's words for what its status does not say: 429, 424 and 400."""
_STATUSES_OF_LENGTH = frozenset({400, 413, 422, 500})
_LENGTH_CODES = ("context_length_exceeded", "exceed_context_size_error", "context_window_exceeded", "string_above_max")

# How servers put it, each as seen in answers of the one that is named.
_LENGTHS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        # OpenAI, DeepSeek, OpenRouter, vLLM
        r"maximum context length is (?P<limit>[\d,]+) tokens.*?(?:resulted in|requested|about|has) (?P<actual>[\d,]+)",
        # vLLM
        r"passed (?P<actual>[\d,]+) input tokens.*?context length is only (?P<limit>[\d,]+)",
        # llama.cpp
        r"\((?P<actual>[\d,]+) tokens\) exceeds the available context size \((?P<limit>[\d,]+)",
        # Mistral
        r"contains (?P<actual>[\d,]+) tokens.*?too large for model with (?P<limit>[\d,]+) maximum context length",
        # Anthropic
        r"prompt is too long: (?P<actual>[\d,]+) tokens > (?P<limit>[\d,]+)",
        # Gemini's compatible endpoint
        r"input token count \(?(?P<actual>[\d,]+)\)? exceeds the maximum number of tokens allowed \(?(?P<limit>[\d,]+)",
        # xAI
        r"maximum prompt length is (?P<limit>[\d,]+) but the request contains (?P<actual>[\d,]+)",
        # Hugging Face TGI, Together
        r"`?inputs`? tokens \+ `?max_new_tokens`? must be <= (?P<limit>[\d,]+)\. Given: (?P<actual>[\d,]+)",
        # Fireworks
        r"prompt is too long: (?P<actual>[\d,]+), model maximum context length: (?P<limit>[\d,]+)",
        # Amazon's models
        r"too many input tokens\. max input tokens: (?P<limit>[\d,]+), request input token count: (?P<actual>[\d,]+)",
        r"too many input tokens|input is too long for requested model",
        r"input tokens exceeded",
        # OpenAI and Groq, where one request is above the tokens of a minute
        r"request too large.*?limit (?P<limit>[\d,]+), requested (?P<actual>[\d,]+)",
        r"(?:context (?:length|window|size)|maximum context|prompt is too long|too many tokens|request too large)",
    )
)


@attrs.frozen
class Faults:
    """Makes the errors of one call: knows who is asked, where, and what must not be shown.

    ``path`` is what requests append to the base URL; advice on status 404 names it. ``credentials`` is what
    a person has to look at when the server refuses them.

    >>> faults = Faults("acme", "https://api.example.org/v1", "m-1", secrets=("sk-12345678",))
    >>> error = faults.from_status(429, {"retry-after": "2"}, b'{"error": "slow down, sk-12345678"}')
    >>> error.kind.value, error.retry_after, "[secret]" in str(error)
    ('rate_limited', 2.0, True)
    """

    provider: str
    target: str
    model: str = ""
    secrets: tuple[str, ...] = attrs.field(default=(), repr=False)
    path: str = ""
    credentials: str = "api_key"

    def error(
        self, kind: Kind, message: str, *, status: int | None = None, retryable: bool | None = None
    ) -> ProviderError:
        """Return an error of *kind*: on one line that is not too long, without secrets."""
        line = self.shown(message, MESSAGE_CHARS)
        return ProviderError(kind, line, provider=self.provider, status=status, retryable=retryable)

    def unsendable(self, error: BaseException) -> ProviderError:
        """Return the error of a request that cannot be sent because of *error*, one of UNSENDABLE."""
        return self.error(Kind.BAD_REQUEST, f"the request cannot be sent: {error}")

    def protocol(self, problem: str, *, status: int | None = None) -> ProviderError:
        """Return the error of an answer that is none."""
        return self.error(Kind.PROTOCOL, f"{self.target} {problem}", status=status)

    def broken(self, problem: str) -> ProviderError:
        """Return the error of a stream that ended too early."""
        return self.error(Kind.STREAM_BROKEN, f"the reply of {self.target} {problem}")

    def redacted(self, text: str) -> str:
        """Return *text* without this call's secrets, however a server spells them: see ``spellings``."""
        if not self.secrets:
            return text
        return re.sub("|".join(spelling for secret in self.secrets for spelling in spellings(secret)), "[secret]", text)

    def shown(self, body: bytes | str, most: int = SHOWN_CHARS) -> str:
        """Return the start of *body* for an error message, on one line, without secrets."""
        text = body if isinstance(body, str) else body[: 4 * _LOOKED_AT].decode("utf-8", "replace")
        looked_at = " ".join(self.redacted(text[:_LOOKED_AT]).split())
        length = len(looked_at) if len(text) <= _LOOKED_AT else len(body)
        line = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in looked_at[: most + 1])
        return line if len(line) <= most else f"{line[:most]}… ({length:,} characters)"

    def gone(self, problem: str) -> ProviderError:
        """Return the error of what the server does not have any more, which no other try brings back."""
        return self.error(Kind.BAD_REQUEST, f"{self.target} {problem}", retryable=False)

    def in_doubt(self, error: ProviderError, what: str) -> SubmissionInDoubt:
        """Return *error* as that of a submission of which it is not known whether it arrived."""
        message = f"{error.message}; whether {what} was begun is not known"
        return SubmissionInDoubt(error.kind, message, provider=self.provider, status=error.status, meta=error.meta)

    def from_status(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Return what an HTTP answer that is not a success means."""
        payload = _decoded(body)
        said = _Said.of(payload) if payload is not None else _Said(body.decode("utf-8", "replace"))
        if named := headers.get("x-amzn-errortype"):
            said = attrs.evolve(said, words=f"{said.words} {_word(named.partition(':')[0]).lower()}")
        parts = [f"{self.target} answered {status}", self._words_on(status, said), self._id_of(headers)]
        text = self.shown(said.message) or self.shown(body)
        message = ": ".join((" ".join(filter(None, parts)), text)) if text else " ".join(filter(None, parts))
        return self._refusal(status, said, message, headers)

    def from_payload(self, payload: Mapping[str, Any]) -> ProviderError:
        """Return what an error object means that came in an answer with status 200."""
        said = _Said.of(payload)
        reason = self.shown(said.message) or "no reason given"
        return self._refusal(said.status, said, f"{self.target} sent an error: {reason}", {})

    def _refusal(self, status: int | None, said: _Said, message: str, headers: Mapping[str, str]) -> ProviderError:
        kind, actual, limit = _classified(status, said)
        wait_s = retry_after(headers)
        if wait_s is None:
            wait_s = said.wait_s
        if wait_s is None and kind is Kind.RATE_LIMITED:
            wait_s = limit_reset({**said.headers, **headers})
        return ProviderError(
            kind, self.shown(message, MESSAGE_CHARS), provider=self.provider, status=status, retry_after=wait_s,
            actual=actual, limit=limit, retryable=should_retry(headers),
        )  # fmt: skip

    def _words_on(self, status: int, said: _Said) -> str:
        if said.is_about_credit(status):
            return "(the account has no credit left; trying again does not help)"
        if said.has(_SEALED):
            return "(its thinking was encrypted for another key: begin a new session, or set replay_thinking = false)"
        if _classified(status, said)[0] is Kind.AUTHENTICATION:
            return f"(check {self.credentials} and what it may use)"
        if status == 404:  # noqa: PLR2004
            follows = f" where {self.path} follows" if self.path else " where it should"
            return f"(is there a model '{self.model}', and does base_url end{follows}?)"
        if 300 <= status < 400:  # noqa: PLR2004
            return "(redirects are not followed: set base_url to where the server is)"
        return ""

    def _id_of(self, headers: Mapping[str, str]) -> str:
        """Return what a vendor's support asks for first."""
        given = next((headers[name] for name in REQUEST_IDS if headers.get(name)), "")
        return f"(request {self.shown(given[:_ID_CHARS])})" if given else ""


def spellings(secret: str) -> tuple[str, ...]:
    """Return patterns of what shows *secret*: itself, as other texts write it, and the start that some servers show.

    These are JSON, HTML, a URL (in both cases of its digits) and base64. A start is half of the secret at least.
    """
    ways = dict.fromkeys((
        secret, json.dumps(secret)[1:-1], secret.replace("/", r"\/"), html.escape(secret),
        *(quoted for safe in ("", "/") for quoted in (quote(secret, safe=safe), quote_plus(secret, safe=safe))),
        base64.b64encode(secret.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(secret.encode()).decode().rstrip("="),
    ))  # fmt: skip
    patterns = [re.sub("%[0-9A-F]{2}", lambda found: f"(?i:{found[0]})", re.escape(way)) for way in ways]
    begun = secret[: max(_START_CHARS, len(secret) // 2)]
    return (*patterns, rf"{re.escape(begun)}[^\s\"'<>,;)]*") if len(begun) < len(secret) else tuple(patterns)


@attrs.frozen
class _Said:
    """What an error object says, in the shapes that servers use."""

    message: str
    words: str = ""
    status: int | None = None
    actual: int | None = None
    limit: int | None = None
    wait_s: float | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])

    @classmethod
    def of(cls, payload: object, depth: int = 0) -> _Said:
        """Read ``{"error": {...}}``, ``{"error": "text"}``, ``{"message": …}``, ``{"detail": …}``."""
        if isinstance(payload, list) and payload:
            return cls.of(cast("list[object]", payload)[0], depth)
        if not isinstance(payload, Mapping) or depth > _MAX_DEPTH:
            return cls(payload if isinstance(payload, str) else "")
        outer = cast("Mapping[str, Any]", payload)
        inner = outer.get("error")
        found = cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else outer
        message = found.get("message") or (inner if isinstance(inner, str) else None) or found.get("detail") or ""
        text = message if isinstance(message, str) else msgspec.json.encode(message).decode()
        code, *others = (_word(found.get(key)) for key in ("code", "type", "status", "__type"))
        words = " ".join((code, *others)).lower()
        metadata = _table(found.get("metadata"))
        behind = cls._behind(metadata.get("raw"), depth)
        more = (behind.message, _text(found.get("failed_generation"), "the model wrote: "))
        words = " ".join((words, *_reasons(found.get("details"))))
        return cls(
            ": ".join(dict.fromkeys(filter(None, (text, *(part for part in more if part not in text))))),
            f"{words} {behind.words}",
            int(code) if _STATUS.fullmatch(code) else None,
            _count(found.get("n_prompt_tokens")) or behind.actual,
            _count(found.get("n_ctx")) or behind.limit,
            _first(retry_delay(found), behind.wait_s),
            {**behind.headers, **_headers(metadata.get("headers"))},
        )

    @classmethod
    def _behind(cls, raw: object, depth: int) -> _Said:
        """Read what the server behind a gateway said (OpenRouter's ``metadata.raw``): JSON or words."""
        decoded = _decoded(raw.encode("utf-8", "replace")) if isinstance(raw, str) else raw
        said = cls.of(decoded, depth + 1)
        return attrs.evolve(said, message=raw) if isinstance(raw, str) and not said.message else said

    def is_about_credit(self, status: int | None) -> bool:
        required = status == 402  # noqa: PLR2004 (Payment Required)
        return required or self.has(_NO_CREDIT) or _LOW_BALANCE in self.message[:_READ_CHARS].lower()

    def has(self, names: tuple[str, ...]) -> bool:
        return any(name in self.words for name in names)


def _reasons(details: object) -> Iterator[str]:
    """Yield the reasons in the details of an error of Google (ErrorInfo)."""
    for detail in cast("list[object]", details) if isinstance(details, list) else ():
        yield _word(_table(detail).get("reason")).lower()


def _text(value: object, before: str) -> str:
    return f"{before}{value}" if isinstance(value, str) and value else ""


def _word(value: object) -> str:
    """Return a code or a kind of error, which is a word or a number; empty for what is neither."""
    if isinstance(value, str):
        return value[:_ID_CHARS]
    return str(value) if isinstance(value, int | float) and abs(value) < _LARGEST_CODE else ""


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _table(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _headers(value: object) -> dict[str, str]:
    return {name.lower(): text for name, text in _table(value).items() if isinstance(text, str)}


def _classified(status: int | None, said: _Said) -> tuple[Kind, int | None, int | None]:
    if said.is_about_credit(status):
        return Kind.BAD_REQUEST, None, None
    if said.has(_BAD_KEY):
        return Kind.AUTHENTICATION, None, None
    if said.has(_POLICY):
        return Kind.REFUSED, None, None
    length = _length(status, said)
    if length is not None:
        return Kind.CONTEXT_LENGTH, *length
    named = next((kind for name, kind in _BY_NAME.items() if name in said.words), None)
    if named is not None:
        return named, None, None
    if status is None:
        kind = next((kind for word, kind in _WORDS.items() if word in said.words), Kind.UNAVAILABLE)
        return kind, None, None
    fallback = Kind.UNAVAILABLE if status >= 500 else Kind.BAD_REQUEST  # noqa: PLR2004 (HTTP's classes)
    return _BY_STATUS.get(status, fallback), None, None


def _length(status: int | None, said: _Said) -> tuple[int | None, int | None] | None:
    coded, sentence = said.has(_LENGTH_CODES), said.message[:_READ_CHARS]
    too_large = status == 429 and "request too large" in sentence.lower()  # noqa: PLR2004 (never passes)
    if not (coded or too_large or status is None or status in _STATUSES_OF_LENGTH):
        return None
    for pattern in _LENGTHS:
        if match := pattern.search(sentence):
            numbers = match.groupdict()
            return said.actual or _count(numbers.get("actual")), said.limit or _count(numbers.get("limit"))
    return (said.actual, said.limit) if coded else None


def _count(value: object) -> int | None:
    if isinstance(value, str):
        digits = value.replace(",", "")
        return int(digits) if digits.isdecimal() and len(digits) < 16 else None  # noqa: PLR2004 (no count of tokens)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _decoded(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
