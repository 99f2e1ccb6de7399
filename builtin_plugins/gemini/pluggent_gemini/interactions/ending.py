"""How an interaction ended: why, what it used, and what else the vendor said of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pluggent_hookspecs import Finished, FinishReason, Json, ReplyMeta, Usage
from pluggent_provider_http.payload import Object, as_fields, as_text
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.token_counts import as_tokens, plausible

_ECHOES = frozenset({
    "agent_config", "background", "environment", "event_id", "event_type", "generation_config", "input", "interaction",
    "interaction_id", "labels", "metadata", "object", "previous_interaction_id", "response_format",
    "response_mime_type", "response_modalities", "safety_settings", "store", "stream", "system_instruction", "tools",
    "webhook_config",
})  # fmt: skip
"""Fields that repeat the request, or that say what an event is."""
_READ = frozenset({
    "error", "errors", "id", "model", "output_audio", "output_image", "output_text", "output_video", "service_tier",
    "status", "steps", "usage",
})  # fmt: skip
"""Fields that have a place of their own; output_… is what libraries make of the steps."""
_REASONS = {
    "completed": FinishReason.STOP,
    "requires_action": FinishReason.TOOL_CALLS,
    "incomplete": FinishReason.LENGTH,
}
_UNFINISHED = ("queued", "in_progress")
_COUNTS = ("total_input_tokens", "total_tool_use_tokens", "total_cached_tokens", "total_output_tokens",
           "total_thought_tokens", "total_tokens")  # fmt: skip
_NOTHING: tuple[Any, ...] = (None, "", [], {}, 0)


def check_end(answer: Object, faults: Faults) -> None:
    """Raise the ProviderError that *answer*, an interaction, is, if it is no reply or not the whole of one."""
    status = as_text(answer.get("status"))
    if answer.get("error") or status == "failed":
        raise faults.from_payload({"error": _error_of(answer)})
    if status in _UNFINISHED:
        raise faults.protocol(f"answered before the reply was made: its status is '{status}'; leave out 'background'")
    if status == "cancelled":
        raise faults.broken("was cancelled by the server")


def _error_of(answer: Object) -> object:
    errors: Any = answer.get("errors")
    first: object = cast("list[object]", errors)[0] if isinstance(errors, list) and errors else None
    spoken = [as_fields(step).get("error") for step in answer.get("steps") or ()]
    return answer.get("error") or first or next(filter(None, spoken), "the reply failed, and no reason was given")


class Ending:
    """What is known of the end of a reply, read from any number of events."""

    def __init__(self, notes: tuple[str, ...]) -> None:
        self._notes = notes
        self._said: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._events: list[Any] = []

    def take(self, answer: Object) -> None:
        """Take what is known of the interaction now."""
        self._said |= {name: value for name, value in answer.items() if value not in _NOTHING}
        self._usage |= as_fields(answer.get("usage"))

    def keep(self, event: Object, most: int) -> None:
        """Keep an event that is not known, unless there are *most* of them already."""
        if len(self._events) < most:
            self._events.append(event)

    def usage(self) -> Usage:
        """Return the counts so far in the contract's terms."""
        return self._counted()[0]

    def finished(self, message_extra: Mapping[str, Json], *, calls: bool) -> Finished:
        """Return the end of the reply."""
        said = self._said
        extra: dict[str, Any] = {n: v for n, v in said.items() if n not in _READ and n not in _ECHOES}
        usage, wrong = self._counted()
        counts = {name: value for name, value in self._usage.items() if not _is_read(name, value)}
        status = as_text(said.get("status"))
        reason = _REASONS.get(status, FinishReason.OTHER)
        if calls and reason is FinishReason.STOP:
            reason = FinishReason.TOOL_CALLS
        if reason is FinishReason.OTHER or (reason is FinishReason.TOOL_CALLS and not calls):
            reason, extra["status"] = FinishReason.OTHER, status
        more: dict[str, Any] = {
            "usage": counts | ({"impossible": wrong} if wrong else {}),
            "errors": said.get("errors"),
            "events": self._events,
        }
        extra |= {name: value for name, value in more.items() if value}
        meta = ReplyMeta(service_tier=as_text(said.get("service_tier")), notes=self._notes)
        return Finished(reason, usage, as_text(said.get("model")), as_text(said.get("id")), extra, message_extra, meta)

    def _counted(self) -> tuple[Usage, dict[str, int]]:
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
                audio=_sound(given.get("output_tokens_by_modality")),
                input_audio=_sound(given.get("input_tokens_by_modality")),
            )
        )


def _sound(details: object) -> int | None:
    """Return how many tokens were sound, of a list by modalities."""
    listed: list[object] = cast("list[object]", details) if isinstance(details, list) else []
    for detail in map(as_fields, listed):
        if detail.get("modality") == "audio":
            return as_tokens(detail.get("tokens"))
    return None


def _is_read(name: str, value: object) -> bool:
    """Whether a count is a part of Usage, or says nothing."""
    if name == "total_tool_use_tokens":
        return value in _NOTHING  # a part of the input that the contract has no name for
    return value in _NOTHING or (name in _COUNTS and as_tokens(value) is not None)
