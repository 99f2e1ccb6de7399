"""The file of a batch: a request a line, as JSON; and the lines of its results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pluggent_contract_values.as_json import to_plain
from pluggent_hookspecs.background import BatchResult
from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.messages import Message, Role
from pluggent_hookspecs.models import ModelParameters, ModelRequest

MOST_PROBLEMS = 20
_KEYS = frozenset({"id", "custom_id", "prompt", "messages", "system"})
_ROLES = {"system": Role.SYSTEM, "developer": Role.DEVELOPER, "user": Role.USER, "assistant": Role.ASSISTANT}


def read_requests(text: str, place: str, parameters: ModelParameters, system: str) -> Mapping[str, ModelRequest]:
    r"""Return the requests in *text*, by their ids. Raises ConfigError with all problems, by their lines.

    >>> list(read_requests('"hi"\n{"id": "b", "prompt": "ho"}', "f", ModelParameters(), ""))
    ['line-1', 'b']
    """
    found: dict[str, ModelRequest] = {}
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            id, request = _request(json.loads(line), number, parameters, system)
            if id in found:
                raise ValueError(f"the id {id!r} is taken by an earlier line")  # noqa: TRY301 (as the others)
            found[id] = request
        except (ValueError, RecursionError) as error:
            problems.append(f"line {number}: {error}")
        if len(problems) >= MOST_PROBLEMS:
            break
    if problems:
        raise ConfigError(place, problems)
    if not found:
        raise ConfigError(place, ['there is no request in it; write one a line: {"id": "a", "prompt": "…"}'])
    return found


def _request(said: object, number: int, parameters: ModelParameters, system: str) -> tuple[str, ModelRequest]:
    if isinstance(said, str):
        said = {"prompt": said}
    if not isinstance(said, dict):
        raise ValueError('expected a text, or an object such as {"id": "a", "prompt": "…"}')
    fields = cast("dict[str, Any]", said)
    if unknown := [name for name in fields if name not in _KEYS]:
        raise ValueError(f"{unknown[0]!r} is unknown; there are {', '.join(sorted(_KEYS))}")
    if ("prompt" in fields) == ("messages" in fields):
        raise ValueError("give prompt or messages")
    id = fields.get("id", fields.get("custom_id", f"line-{number}"))
    above = fields.get("system", system)
    if not isinstance(id, str) or not isinstance(above, str):
        raise ValueError("id and system are texts")
    said_first = (Message.system(above),) if above else ()
    prompt = fields.get("prompt")
    if "prompt" in fields and not isinstance(prompt, str):
        raise ValueError("prompt is a text")
    messages = (Message.user(prompt),) if isinstance(prompt, str) else _messages(fields["messages"])
    return id, ModelRequest("", (*said_first, *messages), (), parameters)


def _messages(given: object) -> Sequence[Message]:
    if not isinstance(given, list) or not given:
        raise ValueError("messages is a list of objects with role and content")
    made: list[Message] = []
    for each in cast("list[object]", given):
        fields: Mapping[str, object] = cast("Mapping[str, object]", each) if isinstance(each, dict) else {}
        role, content = fields.get("role"), fields.get("content")
        if (
            not isinstance(role, str)
            or role not in _ROLES
            or not isinstance(content, str)
            or set(fields) - {"role", "content"}
        ):
            raise ValueError(f"a message has a role ({', '.join(_ROLES)}) and a content, which is a text")
        made.append(Message(_ROLES[role], Message.user(content).content))
    return made


def result_document(result: BatchResult) -> Mapping[str, Any]:
    """Return *result* as the object of its line."""
    head: dict[str, Any] = {"id": result.id, "outcome": result.outcome}
    response = result.response
    if response is None:
        return {**head, "kind": str(result.kind), "error": result.message} if result.message else head
    calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in response.message.tool_calls]
    usage = {name: value for name, value in to_plain(response.usage).items() if name != "type"}
    more: dict[str, Any] = {"tool_calls": calls} if calls else {}
    return {
        **head, "text": response.message.text, **more, "finish_reason": str(response.finish_reason),
        "model": response.model, "usage": usage,
    }  # fmt: skip
