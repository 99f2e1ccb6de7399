"""ModelParameters as the fields of a chat completions request, in the words of one server."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from pluggent_hookspecs import AllowedTools, Json, ModelParameters, ModelRequest, ToolSpec
from pluggent_provider_http.unsendable import UnsendableError
from pluggent_provider_http.vendor_fields import plain

from pluggent_openai.dialects import Dialect
from pluggent_openai.fields import (
    checked_logprobs,
    checked_metadata,
    checked_user,
    extra_fields,
)

_NOT_STRICT = frozenset(
    [
        "allOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "default",
        "dependentRequired",
        "dependentSchemas",
        "contains",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "uniqueItems",
        "unevaluatedProperties",
    ]
)


def fields_of(request: ModelRequest, tools: tuple[ToolSpec, ...], dialect: Dialect, *, stream: bool) -> dict[str, Any]:
    """Return all fields but model, messages and tools; *tools* are what ``offered`` returned.

    Raises UnsendableError naming what the server has no word for.
    """
    parameters = request.parameters
    found = _sampling(parameters, dialect)
    _add_rarer(found, parameters, dialect)
    if parameters.output_schema is not None:
        found["response_format"] = response_format(parameters.output_schema, dialect)
    if request.tools:
        _add_tool_fields(found, request, tools, dialect)
    extra = extra_fields(parameters.extra, found) if parameters.extra else {}
    if stream:
        found["stream"] = True
        if dialect.stream_options:
            extra["stream_options"] = {"include_usage": True, **extra.get("stream_options", {})}
        elif "stream_options" in extra:
            raise _no_word("extra['stream_options']", "stream_options = true")
    else:
        extra.pop("stream_options", None)  # without a stream the API refuses them, and they mean nothing
    found.update(extra)
    return found


def offered(request: ModelRequest, dialect: Dialect) -> tuple[ToolSpec, ...]:
    """Return the tools to be sent: fewer where the server cannot be told otherwise which may be called."""
    choice = request.parameters.tool_choice
    if choice == "auto":
        return request.tools
    if choice == "none":
        return request.tools if "none" in dialect.tool_choice else ()
    if isinstance(choice, AllowedTools) and "allowed" not in dialect.tool_choice:
        return tuple(tool for tool in request.tools if tool.name in choice.names)
    if choice == "required" or "named" in dialect.tool_choice or isinstance(choice, AllowedTools):
        return request.tools
    return tuple(tool for tool in request.tools if tool.name == choice)


def cache_options(parameters: ModelParameters, dialect: Dialect) -> dict[str, Any]:
    """Return the field for ``parameters.cache``; none for the vendor's own way, which is ``auto``."""
    if parameters.cache in (None, "auto"):
        return {}
    # https://developers.openai.com/docs/guides/prompt-caching: explicit keeps what a breakpoint asks for, and no more.
    options = {"mode": "explicit"} if parameters.cache == "off" else {"ttl": parameters.cache}
    has_field("cache", known=dialect.cache)
    return {"prompt_cache_options": options}


def is_custom(tool: ToolSpec, dialect: Dialect) -> bool:
    """Whether *tool* is offered as a custom tool, which takes free text."""
    own = tool.extra.get("openai")
    return dialect.custom_tools and isinstance(own, Mapping) and own.get("type") == "custom"


def _sampling(parameters: ModelParameters, dialect: Dialect) -> dict[str, Any]:
    given: dict[str, Any] = {
        "temperature": parameters.temperature,
        "top_p": parameters.top_p,
        "stop": list(parameters.stop) or None,
        "presence_penalty": parameters.presence_penalty,
        "frequency_penalty": parameters.frequency_penalty,
        "reasoning_effort": parameters.reasoning_effort,
        dialect.max_tokens: parameters.max_output_tokens,
    }
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UnsendableError(f"parameters.{name} is {value}, which JSON cannot say")
    return {name: value for name, value in given.items() if value is not None}


def _add_rarer(found: dict[str, Any], parameters: ModelParameters, dialect: Dialect) -> None:
    if parameters.seed is not None:
        found[named_field("seed", dialect.seed)] = parameters.seed
    if parameters.user is not None:
        field = named_field("user", dialect.user)
        found[field] = checked_user(parameters.user, field)
    if parameters.top_k is not None:
        found[has_field("top_k", known=dialect.top_k)] = parameters.top_k
    if parameters.service_tier is not None:
        found[has_field("service_tier", known=dialect.service_tier)] = parameters.service_tier
    if parameters.metadata:
        found[has_field("metadata", known=dialect.metadata)] = checked_metadata(parameters.metadata)
    found |= cache_options(parameters, dialect)
    if parameters.logprobs is not None:
        count = checked_logprobs(parameters)
        named_field("logprobs", dialect.logprobs)
        found["logprobs"] = True if dialect.logprobs == "flag" else count
        if count and dialect.logprobs == "flag":
            found["top_logprobs"] = count


def named_field(parameter: str, field: str) -> str:
    """Return *field*, the server's name for *parameter*. Raises UnsendableError if it has none."""
    if not field:
        usual = "flag" if parameter == "logprobs" else parameter
        raise _no_word(parameter, f"{parameter} = '{usual}'")
    return field


def has_field(field: str, *, known: bool) -> str:
    """Return *field*. Raises UnsendableError unless it is *known* to the server."""
    if not known:
        raise _no_word(field, f"{field} = true")
    return field


def _no_word(parameter: str, setting: str) -> UnsendableError:
    hint = f"leave it out, or set compat = {{ {setting} }} for this server if it does"
    return UnsendableError(f"parameters.{parameter}: this server is not known to have such a field; {hint}")


def _add_tool_fields(
    found: dict[str, Any], request: ModelRequest, tools: tuple[ToolSpec, ...], dialect: Dialect
) -> None:
    # Without tools the API refuses these, so they are sent with tools only.
    parallel = request.parameters.parallel_tool_calls
    choice = tool_choice(request, dialect)
    if choice is not None and tools:
        found["tool_choice"] = choice
    if parallel is not None and tools:
        found[has_field("parallel_tool_calls", known=dialect.parallel_tool_calls)] = parallel


def tool_choice(request: ModelRequest, dialect: Dialect) -> Any:
    """Return the field of that name, None if it is not needed. Raises UnsendableError."""
    choice = request.parameters.tool_choice
    forms = dialect.tool_choice
    if choice == "auto":
        return None
    if choice == "none":
        return "none" if "none" in forms else None
    if choice == "required":
        return _required(forms)
    if isinstance(choice, AllowedTools):
        return _allowed(choice, request, dialect)
    tool = _tool(choice, request)
    return _named_tool(tool, dialect) if "named" in forms else _required(forms)


def _required(forms: tuple[str, ...]) -> str:
    if "required" not in forms:
        raise _no_word("tool_choice", "tool_choice = ['required']")
    return "required"


def _allowed(choice: AllowedTools, request: ModelRequest, dialect: Dialect) -> Any:
    tools = [_tool(name, request) for name in choice.names]
    if not tools:
        if choice.required:
            raise UnsendableError("parameters.tool_choice: one of no tools cannot be required; name some")
        return "none" if "none" in dialect.tool_choice else None
    named = [_named_tool(tool, dialect) for tool in tools]
    if "allowed" not in dialect.tool_choice:
        if not choice.required:
            return None
        one = len(named) == 1 and "named" in dialect.tool_choice
        return named[0] if one else _required(dialect.tool_choice)
    allowed = {"mode": "required" if choice.required else "auto", "tools": named}
    return {"type": "allowed_tools", "allowed_tools": allowed}


def _tool(name: str, request: ModelRequest) -> ToolSpec:
    for tool in request.tools:
        if tool.name == name:
            return tool
    known = ", ".join(tool.name for tool in request.tools)
    raise UnsendableError(f"parameters.tool_choice: there is no tool {name!r} among the offered ones ({known})")


def _named_tool(tool: ToolSpec, dialect: Dialect) -> dict[str, Any]:
    kind = "custom" if is_custom(tool, dialect) else "function"
    return {"type": kind, kind: {"name": tool.name}}


def response_format(schema: Mapping[str, Json], dialect: Dialect) -> dict[str, Any]:
    """Return the field of that name for a reply that follows *schema*."""
    if not dialect.json_schema:
        return {"type": "json_object"}
    title, about = schema.get("title"), schema.get("description")
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", title if isinstance(title, str) else "")[:64] or "output"
    described: dict[str, Any] = {"name": name, "schema": plain(schema, "parameters.output_schema")}
    if isinstance(about, str) and about:
        described["description"] = about
    if dialect.strict:
        described["strict"] = _is_strict(schema)
    return {"type": "json_schema", "json_schema": described}


def _is_strict(schema: Json) -> bool:
    """Whether *schema* surely keeps the rules of strict mode: objects closed, all of them required.

    https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
    """
    if isinstance(schema, Mapping):
        if not _NOT_STRICT.isdisjoint(schema):
            return False
        properties = schema.get("properties")
        if schema.get("type") == "object" or isinstance(properties, Mapping):
            names = set(properties) if isinstance(properties, Mapping) else set[str]()
            required = schema.get("required", ())
            if schema.get("additionalProperties") is not False:
                return False
            if not isinstance(required, list | tuple) or names != set(required):
                return False
        return all(_is_strict(value) for value in schema.values())
    return all(map(_is_strict, schema)) if isinstance(schema, list | tuple) else True
