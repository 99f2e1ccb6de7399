"""A checker of generateContent requests, made of the vendor's schema (its SDK's types of August 2026).

A field that the schema does not have is a problem, as the API refuses it; so is an order of contents that the API
refuses, and a call of the current turn without a signature where *signed* is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

TEXT, LIST, OBJECT, FLAG, NUMBER, COUNT = str, list, dict, bool, (int, float), int

REQUEST: Mapping[str, Any] = {
    "contents": LIST, "systemInstruction": OBJECT, "tools": LIST, "toolConfig": OBJECT, "safetySettings": LIST,
    "generationConfig": OBJECT, "cachedContent": TEXT, "labels": OBJECT, "serviceTier": TEXT,
    "continuationToken": TEXT, "modelArmorConfig": OBJECT,
}  # fmt: skip
GENERATION: Mapping[str, Any] = {
    "temperature": NUMBER, "topP": NUMBER, "topK": NUMBER, "candidateCount": COUNT, "maxOutputTokens": COUNT,
    "stopSequences": LIST, "seed": COUNT, "presencePenalty": NUMBER, "frequencyPenalty": NUMBER,
    "responseLogprobs": FLAG, "logprobs": COUNT, "responseMimeType": TEXT, "responseJsonSchema": OBJECT,
    "responseModalities": LIST, "mediaResolution": TEXT, "thinkingConfig": OBJECT, "speechConfig": OBJECT,
}  # fmt: skip
THINKING: Mapping[str, Any] = {"includeThoughts": FLAG, "thinkingBudget": COUNT, "thinkingLevel": TEXT}
TOOL: Mapping[str, Any] = {
    "functionDeclarations": LIST, "googleSearch": OBJECT, "urlContext": OBJECT, "codeExecution": OBJECT,
    "fileSearch": OBJECT, "googleMaps": OBJECT, "computerUse": OBJECT, "mcpServers": LIST, "retrieval": OBJECT,
}  # fmt: skip
DECLARATION: Mapping[str, Any] = {
    "name": TEXT, "description": TEXT, "parametersJsonSchema": OBJECT, "responseJsonSchema": OBJECT, "behavior": TEXT,
}  # fmt: skip
CALLING: Mapping[str, Any] = {"mode": TEXT, "allowedFunctionNames": LIST, "streamFunctionCallArguments": FLAG}
TOOL_CONFIG: Mapping[str, Any] = {
    "functionCallingConfig": OBJECT, "retrievalConfig": OBJECT, "includeServerSideToolInvocations": FLAG,
}  # fmt: skip
DATA: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    "inlineData": (("mimeType", "data"), {"mimeType": TEXT, "data": TEXT, "displayName": TEXT}),
    "fileData": (("fileUri",), {"fileUri": TEXT, "mimeType": TEXT, "displayName": TEXT}),
    "functionCall": (("name",), {"id": TEXT, "name": TEXT, "args": OBJECT}),
    "functionResponse": (
        ("name", "response"),
        {"id": TEXT, "name": TEXT, "response": OBJECT, "parts": LIST, "willContinue": FLAG, "scheduling": TEXT},
    ),
    "executableCode": (("code", "language"), {"code": TEXT, "language": TEXT, "id": TEXT}),
    "codeExecutionResult": (("outcome",), {"outcome": TEXT, "output": TEXT, "id": TEXT}),
    "toolCall": (("toolType",), {"id": TEXT, "toolType": TEXT, "args": OBJECT}),
    "toolResponse": (("toolType",), {"id": TEXT, "toolType": TEXT, "response": OBJECT}),
}
BESIDE: Mapping[str, Any] = {
    "thought": FLAG, "thoughtSignature": TEXT, "mediaResolution": OBJECT, "videoMetadata": OBJECT,
    "partMetadata": OBJECT,
}  # fmt: skip


def problems(body: Mapping[str, Any], *, signed: bool = False) -> list[str]:
    """Return what the vendor's schema says against *body*; nothing if it is a request of this API."""
    found = [*_object("request", body, ("contents",), REQUEST)]
    generation = body.get("generationConfig", {})
    found += _object("generationConfig", generation, (), GENERATION)
    found += _object("thinkingConfig", generation.get("thinkingConfig", {}), (), THINKING)
    found += _object("toolConfig", body.get("toolConfig", {}), (), TOOL_CONFIG)
    found += _object("calling", body.get("toolConfig", {}).get("functionCallingConfig", {}), (), CALLING)
    for tool in body.get("tools", ()):
        found += _object("a tool", tool, (), TOOL)
        for declared in tool.get("functionDeclarations", ()):
            found += _object("a declaration", declared, ("name",), DECLARATION)
            found += _references(declared.get("parametersJsonSchema", {}))
    found += _object("systemInstruction", body.get("systemInstruction", {"parts": [0]}), ("parts",), {"parts": LIST})
    for place, content in enumerate(body["contents"]):
        found += _object(f"contents[{place}]", content, ("role", "parts"), {"role": TEXT, "parts": LIST})
        for part in content["parts"]:
            found += _part(f"contents[{place}]", part)
    found += _order(body["contents"])
    return [*found, *(_unsigned(body["contents"]) if signed else ())]


def _part(where: str, part: Mapping[str, Any]) -> Iterator[str]:
    kinds = [name for name in ("text", *DATA) if name in part]
    if len(kinds) != 1:
        yield f"{where}: a part with {kinds or 'nothing'} in it"
        return
    (kind,) = kinds
    yield from _object(where, part, (), {kind: TEXT if kind == "text" else OBJECT, **BESIDE})
    if kind != "text":
        yield from _object(f"{where}.{kind}", part[kind], *DATA[kind])
    for inner in part.get("functionResponse", {}).get("parts", ()):
        yield from _part(f"{where}.functionResponse", inner)


def _order(contents: list[Any]) -> Iterator[str]:
    if not contents or contents[0]["role"] != "user":
        yield "the first content is not a user's"
    following: list[Any] = [*contents[1:], {"role": "", "parts": []}]
    for content, follows in zip(contents, following, strict=True):
        if content["role"] not in ("user", "model"):
            yield f"a content of {content['role']}"
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        results = [part["functionResponse"] for part in follows["parts"] if "functionResponse" in part]
        if [(call.get("id"), call["name"]) for call in calls] != [
            (result.get("id"), result["name"]) for result in results
        ]:
            yield f"calls {calls} are followed by {results}"
        if results and len(results) != len(follows["parts"]):
            yield "results and other parts in one content"


def _unsigned(contents: list[Any]) -> Iterator[str]:
    """Yield what is not signed behind the last content in which a user has said something."""
    start = max(
        place
        for place, content in enumerate(contents)
        if content["role"] == "user" and not any("functionResponse" in part for part in content["parts"])
    )
    for content in contents[start:]:
        calls = [part for part in content["parts"] if "functionCall" in part]
        if calls and not calls[0].get("thoughtSignature"):
            yield f"the first call is not signed: {calls[0]}"


def _references(schema: Any) -> Iterator[str]:
    inside: Iterable[Any] = ()
    if isinstance(schema, dict):
        fields = cast("dict[str, Any]", schema)
        beside = [name for name in fields if not name.startswith("$")]
        if "$ref" in fields and beside:
            yield f"{beside} beside $ref"
        inside = fields.values()
    elif isinstance(schema, list):
        inside = cast("list[object]", schema)
    for value in inside:
        yield from _references(value)


def _object(where: str, value: Mapping[str, Any], needed: tuple[str, ...], known: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{where}: {name} is missing" for name in needed if name not in value)
    for name, given in value.items():
        if name not in known:
            yield f"{where}: there is no field {name}"
        elif not isinstance(given, known[name]):
            yield f"{where}: {name} is {type(given).__name__}"
