"""How a reply ended: why, what it used, and what else the server said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs
from pluggent_hookspecs import Finished, FinishReason, Json, ReplyMeta, Usage
from pluggent_provider_http.payload import MalformedError, Object, as_object, as_text
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.token_counts import as_tokens, plausible

from pluggent_openai.responses.items import Items

_ECHOES = frozenset({
    "background", "conversation", "frequency_penalty", "include", "instructions", "max_output_tokens",
    "max_tool_calls", "metadata", "parallel_tool_calls", "presence_penalty", "previous_response_id", "prompt",
    "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier", "store",
    "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user",
})  # fmt: skip
"""Fields of an answer that repeat the request."""
_READ = frozenset({
    "error", "id", "incomplete_details", "model", "object", "output", "output_text", "service_tier", "status", "usage",
})  # fmt: skip
"""Fields of an answer that have a place of their own; output_text is what libraries make of the output."""
_REASONS = {"max_output_tokens": FinishReason.LENGTH, "content_filter": FinishReason.CONTENT_FILTER}
UNFINISHED = ("queued", "in_progress")
"""Statuses of a reply that is not made yet."""
_COUNTS = {"input_tokens": "input", "output_tokens": "output"}
_DETAILS: Mapping[str, Mapping[str, str]] = {
    "input_tokens_details": {"cached_tokens": "cached", "cache_write_tokens": "cache_write"},
    "output_tokens_details": {"reasoning_tokens": "reasoning"},
}


def check_end(answer: Object, faults: Faults) -> None:
    """Raise the ProviderError that *answer*, a response object, is, if it is no reply or not the whole of one."""
    status = as_text(answer.get("status"))
    if answer.get("error") or status == "failed":
        raise faults.from_payload({"error": answer.get("error") or "the reply failed, and no reason was given"})
    if status in UNFINISHED:
        raise faults.protocol(f"answered before the reply was made: its status is '{status}'; leave out 'background'")
    if status == "cancelled":
        raise faults.broken("was cancelled by the server")


def finished(answer: Object, items: Items, notes: tuple[str, ...], events: Sequence[Object] = ()) -> Finished:
    """Return the end of the reply that *items* make, as *answer*, a response object, tells it.

    *events* are those of the stream that belong to no item.
    """
    usage, counters = _usage(answer.get("usage"))
    if (hosted := items.hosted_usd()) is not None:
        usage = attrs.evolve(usage, hosted_usd=hosted)
    reason, said = _reason(answer, calls=items.calls)
    extra: dict[str, Json] = {
        name: value
        for name, value in answer.items()
        if name not in _READ and name not in _ECHOES and value not in (None, [], {})
    }
    found: dict[str, Any] = {"finish_reason": said, "usage": counters, "events": [*events]}
    if items.logprobs:
        found["logprobs"] = {"content": items.logprobs}
    extra |= {name: value for name, value in found.items() if value}
    ran = ", ".join(f"{name} {times} times" if times > 1 else name for name, times in items.hosted().items())
    told = (f"the vendor ran {ran}, which it may charge for beside the tokens",) if ran else ()
    meta = ReplyMeta(service_tier=as_text(answer.get("service_tier")), notes=(*notes, *told))
    model, id = as_text(answer.get("model")), as_text(answer.get("id"))
    return Finished(reason, usage, model, id, extra, items.message_extra(), meta)


def _reason(answer: Object, *, calls: bool) -> tuple[FinishReason, str]:
    """Return why the reply ended, and the server's word where the contract has none."""
    status: object = answer.get("status")
    if status == "incomplete":
        details: object = answer.get("incomplete_details")
        why = as_text(cast("Object", details).get("reason")) if isinstance(details, Mapping) else ""
        reason = _REASONS.get(why, FinishReason.OTHER)
        return reason, (why or "incomplete") if reason is FinishReason.OTHER else ""
    if status in ("completed", None, ""):
        return (FinishReason.TOOL_CALLS if calls else FinishReason.STOP), ""
    return FinishReason.OTHER, str(status)


def usage_of(answer: Object) -> Usage:
    """Return what the reply used, as far as *answer* says it."""
    return _usage(answer.get("usage"))[0]


def _usage(said: object) -> tuple[Usage, dict[str, Json]]:
    """Return the counts that the contract has, and every other one that is not 0, as the server wrote it."""
    if not isinstance(said, Mapping):
        return Usage(), {}
    found: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, value in cast("Object", said).items():
        if isinstance(value, dict):
            more = _counted(cast("Object", value), _DETAILS.get(name, {}), found)
            rest |= {name: more} if more else {}
        else:
            rest |= _counted({name: value}, _COUNTS, found)
    usage, wrong = plausible(Usage(**found))
    if rest.get("total_tokens") == usage.total:
        del rest["total_tokens"]
    if wrong:
        rest["impossible"] = wrong
    return usage, rest


def _counted(counts: Object, known: Mapping[str, str], found: dict[str, Any]) -> dict[str, Json]:
    rest: dict[str, Json] = {}
    for name, value in counts.items():
        if name in known and (count := as_tokens(value)) is not None:
            found[known[name]] = count
        elif value:
            rest[name] = value
    return rest


def response_of(event: Object) -> Object:
    """Return the response object that *event* holds. Raises MalformedError."""
    response = event.get("response")
    if response is None:
        raise MalformedError("it holds no response")
    return as_object(response, "response")
