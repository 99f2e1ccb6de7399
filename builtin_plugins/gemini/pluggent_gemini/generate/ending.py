"""The end of a reply: names, why it ended, tokens, and all that the contract has no place for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from pluggent_hookspecs import Finished, FinishReason, Json, ProviderError, ProviderErrorKind, ReplyMeta, Usage
from pluggent_provider_http.payload import MalformedError, Object, as_fields, as_object, as_text, decode_whole
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.token_counts import as_tokens, plausible

_FILTERED = (
    "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
)  # fmt: skip
_REASONS = {
    "STOP": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    "CONTINUATION": FinishReason.LENGTH,  # without a token to go on with
    **dict.fromkeys(_FILTERED, FinishReason.CONTENT_FILTER),
}
_ANSWER = frozenset({"candidates", "usageMetadata", "modelVersion", "responseId"})
_CANDIDATE = frozenset({"content", "finishReason", "index", "continuationToken"})
_NOT_GIVEN = (None, "", "FINISH_REASON_UNSPECIFIED")
_COUNTS = ("promptTokenCount", "toolUsePromptTokenCount", "cachedContentTokenCount", "candidatesTokenCount",
           "thoughtsTokenCount", "totalTokenCount")  # fmt: skip
_TIERS = ("serviceTier", "trafficType")


class Ending:
    """What is known of the end of a reply, read from any number of answers and events."""

    def __init__(self, notes: tuple[str, ...], paid: Usage) -> None:
        self.model = self.id = ""
        self.reason: object = None
        self.continuation = ""
        self._notes = notes
        self.latest: bytes | msgspec.Raw = b""
        """Token counts as JSON, which are read when they are wanted."""
        self._usage: Object = {}
        self._before = paid
        self._extra: dict[str, Any] = {}

    def take(self, event: Object, candidate: Object) -> None:
        """Take an event, and its candidate."""
        self.model = as_text(event.get("modelVersion")) or self.model
        self.id = as_text(event.get("responseId")) or self.id
        if isinstance(counted := event.get("usageMetadata"), dict):
            self._usage, self.latest = {**self._usage, **cast("Object", counted)}, b""
        if (reason := candidate.get("finishReason")) not in _NOT_GIVEN:
            self.reason = reason
        self.continuation = as_text(candidate.get("continuationToken")) if reason == "CONTINUATION" else ""
        for fields, known in ((event, _ANSWER), (candidate, _CANDIDATE)):
            for name, value in fields.items():
                if name not in known and value not in (None, {}, []):
                    self._extra[name] = _grown(self._extra.get(name), value)

    def begin_again(self) -> None:
        """Go on with the next answer of the same reply: each is billed by itself."""
        self._before, self._usage, self.latest = self.usage(), {}, b""
        self.reason, self.continuation = None, ""

    def usage(self) -> Usage:
        """Return the counts in the contract's terms, of all answers so far."""
        return self._before + self._counted()[0]

    def finished(self, message_extra: Mapping[str, Json], *, calls: bool) -> Finished:
        """Return the end of the reply."""
        extra = dict(self._extra)
        usage, wrong = self._counted()
        said = {name: value for name, value in self._usage.items() if not _is_read(name, value)}
        if said or wrong:
            extra["usage"] = said | ({"impossible": wrong} if wrong else {})
        reason = _REASONS.get(str(self.reason), FinishReason.OTHER)
        if calls and reason is FinishReason.STOP:
            reason = FinishReason.TOOL_CALLS
        if reason in (FinishReason.OTHER, FinishReason.CONTENT_FILTER) and self.reason is not None:
            extra["finishReason"] = self.reason
        tier = next((found for name in _TIERS if (found := as_text(self._usage.get(name)))), "")
        meta = ReplyMeta(service_tier=tier, notes=self._notes)
        return Finished(reason, self._before + usage, self.model, self.id, extra, message_extra, meta)

    def _counted(self) -> tuple[Usage, dict[str, int]]:
        if self.latest:
            self._usage, self.latest = {**self._usage, **_read(bytes(self.latest))}, b""
        given = self._usage
        prompt, tools, cached, made, thought, total = (as_tokens(given.get(name)) for name in _COUNTS)
        sent = None if prompt is None else prompt + (tools or 0)
        output = None if made is None and thought is None else (made or 0) + (thought or 0)
        if output is None and sent is not None and total is not None and total >= sent:
            output = total - sent
        return plausible(
            Usage(
                input=sent,
                output=output,
                cached=cached,
                reasoning=thought,
                audio=_sound(given.get("candidatesTokensDetails")),
                input_audio=_sound(given.get("promptTokensDetails")),
            )
        )


def blocked(event: Object, faults: Faults) -> ProviderError | None:
    """Return the error of a prompt that was blocked, None if it was not."""
    said = as_fields(event.get("promptFeedback"))
    reason = as_text(said.get("blockReason"))
    if not reason or event.get("candidates"):
        return None
    words = as_text(said.get("blockReasonMessage"))
    problem = f"{faults.target} has blocked the prompt: {reason}{f': {words}' if words else ''}"
    return faults.error(ProviderErrorKind.REFUSED, problem)


def _read(usage: bytes) -> Object:
    try:
        return as_object(decode_whole(usage), "usageMetadata")
    except MalformedError:
        return {}


def _sound(details: object) -> int | None:
    """Return how many tokens were sound, of a list by modalities."""
    if not isinstance(details, list):
        return None
    for detail in cast("list[object]", details):
        if isinstance(detail, dict) and cast("Object", detail).get("modality") == "AUDIO":
            return as_tokens(cast("Object", detail).get("tokenCount"))
    return None


def _is_read(name: str, value: object) -> bool:
    """Whether a count is a part of Usage, or says nothing."""
    if name in _TIERS:
        return isinstance(value, str)
    if name == "toolUsePromptTokenCount":
        return False  # a part of the input that the contract has no name for
    return value in (None, [], {}) or (name in _COUNTS and as_tokens(value) is not None)


def _grown(had: Any, more: Any) -> Any:
    """Return what two events said of one field: fields join, lists grow unless the later has it all."""
    if isinstance(had, dict) and isinstance(more, dict):
        fields = cast("Object", more)
        return {**cast("Object", had), **{name: _grown(cast("Object", had).get(name), fields[name]) for name in fields}}
    if isinstance(had, list) and isinstance(more, list):
        before, after = cast("list[object]", had), cast("list[object]", more)
        return after if after[: len(before)] == before else [*before, *after]
    return more
