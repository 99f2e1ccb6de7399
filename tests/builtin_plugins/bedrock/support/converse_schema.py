"""A checker of requests, made of the vendor's description of Converse (2023-09-30, as of November 2026).

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from typing import Any, cast

_S3 = {"uri": re.compile(r"s3://[a-z0-9][.\-a-z0-9]{1,61}[a-z0-9](/.*)?").fullmatch, "bucketOwner?": "text"}


def _of(*words: str) -> Callable[[Any], bool]:
    return lambda value: value in words


def _matches(pattern: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


_SOURCE = {"bytes|": "blob", "s3Location|": "S3"}
_NAME = _matches("[a-zA-Z0-9_-]{1,64}")
_ID = _matches("[a-zA-Z0-9_.:-]{1,64}")

# A name ends in ? where a member may be missing, in | where exactly one of these members is there.
SHAPES: dict[str, dict[str, Any]] = {
    "Request": {
        "messages?": ["Message"], "system?": ["System"], "inferenceConfig?": "Inference", "toolConfig?": "Tools",
        "guardrailConfig?": "Guardrail", "additionalModelRequestFields?": "any",
        "additionalModelResponseFieldPaths?": ["text"], "requestMetadata?": "any", "performanceConfig?": "any",
        "serviceTier?": {"type": _of("priority", "default", "flex", "reserved")}, "outputConfig?": "Output",
        "promptVariables?": "any",
    },
    "Message": {"role": _of("user", "assistant", "system"), "content": ["Block"]},
    "System": {"text|": "some text", "guardContent|": "any", "cachePoint|": "CachePoint"},
    "Block": {
        "text|": "text", "image|": "Image", "document|": "Document", "video|": "Video", "audio|": "Audio",
        "toolUse|": "Use", "toolResult|": "Result", "guardContent|": "any", "cachePoint|": "CachePoint",
        "reasoningContent|": "Thought", "citationsContent|": "Cited", "searchResult|": "any",
    },
    "Image": {"format": _of("png", "jpeg", "gif", "webp"), "source": _SOURCE},
    "Document": {
        "format?": _of("pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"),
        "name": _matches(r"[a-zA-Z0-9()\[\]-]+( [a-zA-Z0-9()\[\]-]+)*"),
        "source": {**_SOURCE, "text|": "text", "content|": "any"}, "context?": "text", "citations?": "any",
    },
    "Video": {"format": "text", "source": _SOURCE},
    "Audio": {"format": "text", "source": _SOURCE},
    "Use": {"toolUseId": _ID, "name": _NAME, "input": "object", "type?": _of("server_tool_use")},
    "Result": {"toolUseId": _ID, "content": ["Output of a tool"], "status?": _of("success", "error"), "type?": "text"},
    "Output of a tool": {
        "json|": "any", "text|": "text", "image|": "Image", "document|": "Document", "video|": "Video",
        "searchResult|": "any",
    },
    "CachePoint": {"type": _of("default"), "ttl?": _of("5m", "1h")},
    "Thought": {"reasoningText|": {"text": "text", "signature?": "text"}, "redactedContent|": "blob"},
    "Cited": {"content?": ["Cited text"], "citations?": ["any"]},
    "Cited text": {"text|": "text"},
    "S3": _S3,
    "Inference": {
        "maxTokens?": "count", "temperature?": "share", "topP?": "share",
        "stopSequences?": ["some text"],
    },
    "Tools": {"tools": ["Tool"], "toolChoice?": {"auto|": {}, "any|": {}, "tool|": {"name": _NAME}}},
    "Tool": {"toolSpec|": "Spec", "systemTool|": {"name": _NAME}, "cachePoint|": "CachePoint"},
    "Spec": {"name": _NAME, "description?": "some text", "inputSchema": {"json|": "object"}, "strict?": "any"},
    "Guardrail": {"guardrailIdentifier?": "text", "guardrailVersion?": "text", "trace?": "text",
                  "streamProcessingMode?": _of("sync", "async")},
    "Output": {"textFormat?": {"type": _of("json_schema"), "structure": {"jsonSchema|": "Schema"}}, "effort?": "text"},
    "Schema": {"schema": "text", "name?": "text", "description?": "text"},
}  # fmt: skip


def broken_rules(body: Any) -> list[str]:
    """Return what the vendor would refuse in the body of a request: shapes, and the order of turns."""
    found = list(_broken(body, "Request", ""))
    return found or [*_broken_turns(body.get("messages", ())), *_broken_tools(body)]


def _broken(value: Any, shape: Any, at: str) -> Iterator[str]:
    if isinstance(shape, str) and shape in SHAPES:
        shape = SHAPES[shape]
    if isinstance(shape, dict):
        yield from _broken_members(value, cast("dict[str, Any]", shape), at)
    elif isinstance(shape, list):
        if not isinstance(value, list) or not value:
            yield f"{at}: {value!r} is not a list of something"
        else:
            items: list[Any] = value  # pyright: ignore[reportUnknownVariableType] (whatever JSON it holds)
            for place, item in enumerate(items):
                yield from _broken(item, shape[0], f"{at}[{place}]")
    elif not (VALUES[shape] if isinstance(shape, str) else shape)(value):
        yield f"{at}: {value!r} is not {shape if isinstance(shape, str) else 'accepted'}"


def _is_blob(value: Any) -> bool:
    return isinstance(value, str) and bool(base64.b64decode(value, validate=True))


VALUES: dict[str, Callable[[Any], bool]] = {
    "any": lambda _: True,
    "text": lambda value: isinstance(value, str),
    "some text": lambda value: isinstance(value, str) and value != "",
    "object": lambda value: isinstance(value, dict),
    "blob": _is_blob,
    "count": lambda value: isinstance(value, int) and value >= 1,
    "share": lambda value: isinstance(value, int | float) and 0 <= value <= 1,
}


def _broken_members(value: Any, members: dict[str, Any], at: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{at}: {value!r} is not an object"
        return
    given = cast("dict[str, Any]", value)
    known = {name.rstrip("?|"): shape for name, shape in members.items()}
    yield from (f"{at}: unknown {name}" for name in given if name not in known)
    yield from (f"{at}: no {name}" for name in members if name[-1] not in "?|" and name not in given)
    if any(name.endswith("|") for name in members) and len(given) != 1:
        yield f"{at}: expected one of {', '.join(known)}, got {', '.join(given)}"
    for name, item in given.items():
        if name in known:
            yield from _broken(item, known[name], f"{at}.{name}")


def _broken_turns(messages: Any) -> Iterator[str]:
    waiting: list[str] = []
    for place, (message, role) in enumerate(zip(messages, ["user", "assistant"] * len(messages), strict=False)):
        if message["role"] != role:
            yield f"messages[{place}]: expected a turn of {role}"
        answered = [block["toolResult"]["toolUseId"] for block in message["content"] if "toolResult" in block]
        if role == "user" and answered != waiting:
            yield f"messages[{place}]: answers {answered} to {waiting}"
        texts = [block["text"] for block in message["content"] if "text" in block]
        if any(not text.strip() for text in texts):
            yield f"messages[{place}]: a blank text"
        if any("document" in block for block in message["content"]) and not texts:
            yield f"messages[{place}]: a document without a text"
        uses = [block["toolUse"] for block in message["content"] if "toolUse" in block]
        waiting = [use["toolUseId"] for use in uses if use.get("type") != "server_tool_use"]
    names = [block["document"]["name"] for message in messages for block in message["content"] if "document" in block]
    if len(set(names)) != len(names):
        yield f"documents share a name: {names}"


def _broken_tools(body: Any) -> Iterator[str]:
    blocks = [block for message in body.get("messages", ()) for block in message["content"]]
    if any("toolUse" in block or "toolResult" in block for block in blocks) and "toolConfig" not in body:
        yield "calls in the history, and no toolConfig"
