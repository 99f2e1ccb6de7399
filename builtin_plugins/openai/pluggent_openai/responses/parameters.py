"""ModelParameters as the fields of a Responses request."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pluggent_hookspecs import Json, ModelParameters, ModelRequest, ToolSpec
from pluggent_provider_http.unsendable import UnsendableError
from pluggent_provider_http.vendor_fields import plain

from pluggent_openai.dialects import Dialect
from pluggent_openai.fields import checked_logprobs, checked_metadata, checked_user
from pluggent_openai.parameters import cache_options, has_field, named_field, response_format, tool_choice

_NO_WORD = ("stop", "seed", "presence_penalty", "frequency_penalty")
_OWNED: Mapping[str, str] = {
    "model": "it is ModelRequest.model",
    "input": "it is made of ModelRequest.messages",
    "messages": "they are ModelRequest.messages",
    "tools": "they are ModelRequest.tools; ToolSpec.extra['openai_responses'] says what only this wire knows of one",
    "stream": "stream() asks for a stream, complete() does not",
    "background": "it is parameters.background",
    "conversation": "each request has the whole conversation",
    "previous_response_id": "each request has the whole conversation",
    "prompt": "a template that is stored at the vendor may have tools of its own, which no policy would see",
    "extra_headers": "headers belong into the server's setting 'headers'",
    "extra_query": "a query belongs into the server's setting 'base_url'",
}
"""Fields that ModelParameters.extra may not hold, and what to do instead."""
NO_FIELDS: Mapping[str, Any] = MappingProxyType({})
_CHANCES = "message.output_text.logprobs"
_ENCRYPTED = "reasoning.encrypted_content"


def fields_of(
    request: ModelRequest,
    tools: tuple[ToolSpec, ...],
    dialect: Dialect,
    *,
    stream: bool,
    fields: Mapping[str, Any] = NO_FIELDS,
) -> dict[str, Any]:
    """Return all fields but model, input and tools; those of the settings, *fields*, where nothing else is said.

    Raises UnsendableError naming what the API has no word for.
    """
    parameters = request.parameters
    for name in _NO_WORD:
        if getattr(parameters, name) not in (None, ()):
            hint = "leave it out, or set api = 'chat' for this server, or for this model in apis"
            raise UnsendableError(f"parameters.{name}: the Responses API has no word for it; {hint}")
    found = _sampling(parameters, dialect)
    if parameters.reasoning_effort is not None:
        found["reasoning"] = {"effort": parameters.reasoning_effort}
    if parameters.output_schema is not None:
        found["text"] = {"format": _flat(response_format(parameters.output_schema, dialect), "json_schema")}
    if parameters.logprobs is not None:
        found["top_logprobs"] = checked_logprobs(parameters)
    asked = [_CHANCES] if parameters.logprobs is not None else []
    if asked or dialect.ask_encrypted:
        found["include"] = [*asked, *([_ENCRYPTED] if dialect.ask_encrypted else [])]
    if tools:
        _add_tool_fields(found, request, dialect)
    _add_extra(found, parameters.extra)
    found = {**fields, **found}
    if found.setdefault("store", parameters.background) is False and parameters.background:
        raise UnsendableError("parameters.background: what is not stored cannot be fetched later; leave out 'store'")
    if stream:
        found["stream"] = True
    else:
        found.pop("stream_options", None)  # without a stream they are refused, and mean nothing
    return found


def _sampling(parameters: ModelParameters, dialect: Dialect) -> dict[str, Any]:
    given: dict[str, Any] = {
        "temperature": parameters.temperature,
        "top_p": parameters.top_p,
        "max_output_tokens": parameters.max_output_tokens,
    }
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UnsendableError(f"parameters.{name} is {value}, which JSON cannot say")
    if parameters.top_k is not None:
        given[has_field("top_k", known=dialect.top_k)] = parameters.top_k
    if parameters.user is not None:
        field = named_field("user", dialect.user)
        given[field] = checked_user(parameters.user, field)
    if parameters.service_tier is not None:
        given[has_field("service_tier", known=dialect.service_tier)] = parameters.service_tier
    given |= cache_options(parameters, dialect)
    if parameters.background:
        given[has_field("background", known=dialect.background)] = True
    if parameters.metadata:
        given[has_field("metadata", known=dialect.metadata)] = checked_metadata(parameters.metadata)
    return {name: value for name, value in given.items() if value is not None}


def _add_tool_fields(found: dict[str, Any], request: ModelRequest, dialect: Dialect) -> None:
    choice = tool_choice(request, dialect)
    if choice is not None:
        found["tool_choice"] = _flat_choice(choice)
    parallel = request.parameters.parallel_tool_calls
    if parallel is not None:
        found[has_field("parallel_tool_calls", known=dialect.parallel_tool_calls)] = parallel


def _flat_choice(choice: Any) -> Any:
    if isinstance(choice, str):
        return choice
    flat = _flat(choice, "function", "custom", "allowed_tools")
    if "tools" in flat:
        flat["tools"] = [_flat_choice(tool) for tool in flat["tools"]]
    return flat


def _flat(field: dict[str, Any], *nested: str) -> dict[str, Any]:
    """Return what chat completions nest under the name of its type as this API has it: on one level.

    >>> _flat({"type": "function", "function": {"name": "add"}}, "function")
    {'type': 'function', 'name': 'add'}
    """
    out: dict[str, Any] = {}
    for name, value in field.items():
        out |= value if name in nested else {name: value}
    return out


def _add_extra(found: dict[str, Any], extra: Mapping[str, Json]) -> None:
    """Add what goes into the request as it is; the fields of one object may come from both places."""
    for name, given in extra.items():
        where = f"parameters.extra[{name!r}]"
        if name in _OWNED:
            raise UnsendableError(f"{where}: {_OWNED[name]}")
        value: Any = plain(given, where)
        both: Any = (found.get(name), value)
        if all(isinstance(each, dict) for each in both) and not set(both[0]) & set(value):
            found[name] = {**both[0], **value}
        elif name == "include" and all(isinstance(each, list) for each in both):
            found[name] = list(dict.fromkeys([*both[0], *map(str, value)]))
        elif name in found:
            raise UnsendableError(f"{where}: '{name}' is already set by the provider; leave it out")
        else:
            found[name] = value
