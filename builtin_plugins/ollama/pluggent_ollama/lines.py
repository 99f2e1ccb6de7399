"""The lines of one answer of /api/chat as deltas, and the response that they make. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec
from pluggent_hookspecs import (
    Finished,
    FinishReason,
    Image,
    Json,
    ModelRequest,
    PartDelta,
    ProviderError,
    ReasoningDelta,
    ReplyMeta,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from pluggent_provider_http.call_ids import CallIds
from pluggent_provider_http.delta_batch import Batch
from pluggent_provider_http.payload import MalformedError, Object, as_list, as_object, as_text, decode
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.token_counts import as_tokens

from pluggent_ollama.request import VENDOR

_REASONS = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}
_KNOWN = frozenset({"model", "created_at", "message", "done", "done_reason", "logprobs"})
_COUNTS = {"prompt_eval_count": "input", "eval_count": "output"}
_MESSAGE = frozenset({"role", "content", "thinking", "tool_calls", "images"})
_CALL = frozenset({"id", "function", "type", "index"})
_MOST_CALLS = 1024
"""No reply of a model has as many; a server that sends them is broken."""


class _Said(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    role: Any = None
    content: str = ""
    thinking: str = ""


class _Line(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """What nearly every line looks like: more text or more thinking."""

    message: _Said
    done: Literal[False]
    model: Any = None
    created_at: Any = None


class _Function(msgspec.Struct):
    arguments: msgspec.Raw = msgspec.Raw(b"null")


class _Call(msgspec.Struct):
    function: _Function


class _Calling(msgspec.Struct):
    tool_calls: list[_Call]


class _CallLine(msgspec.Struct):
    """The arguments of calls as the server wrote them."""

    message: _Calling


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_calls = msgspec.json.Decoder(_CallLine).decode


class Lines:
    """The lines of one answer (ReplyEvents): what they add up to, and whether they came to their end."""

    def __init__(self, request: ModelRequest, faults: Faults, notes: tuple[str, ...] = ()) -> None:
        self.done = False
        self._faults = faults
        self._meta = ReplyMeta(notes=notes)
        self._ids = CallIds(request)
        self._calls = 0
        self._begun = self._content = False
        self._reason = self._model = ""
        self._counts: dict[str, Any] = {}
        self._extra: dict[str, Json] = {}
        self._message: dict[str, Json] = {}
        self._chances: list[Json] = []

    def take(self, payload: bytes, batch: Batch) -> None:
        """Read one line. Raises MalformedError, or the ProviderError that it holds."""
        if not (self._begun and self._take_plain(payload, batch)):
            self._take_any(as_object(decode(payload), "a line"), payload, batch)

    @property
    def complete(self) -> bool:
        """Whether the server has said that the reply is at its end."""
        return self.done

    def finish(self, batch: Batch) -> None:
        """Add the end of the reply. Raises ProviderError if there is none."""
        if not self._begun:
            raise self._faults.protocol("answered with an empty stream")
        if not self.done:
            raise self._faults.broken("broke off: no line said that it is done")
        if not self._reason and not self._content:
            raise self._faults.protocol("ended its reply without any content or done_reason")
        reason = _REASONS.get(self._reason, FinishReason.OTHER)
        if self._calls and (reason is FinishReason.STOP or not self._reason):
            reason = FinishReason.TOOL_CALLS
        extra = dict(self._extra)
        if reason is FinishReason.OTHER and self._reason:
            extra["finish_reason"] = self._reason
        if self._chances:
            extra["logprobs"] = {"content": self._chances}
        own: dict[str, Json] = {VENDOR: self._message} if self._message else {}
        batch.add(Finished(reason, Usage(**self._counts), self._model, "", extra, own, self._meta))

    def take_whole(self, body: bytes, batch: Batch) -> None:
        """Read an answer that came at once: it is one line."""
        self.take(body, batch)
        self.finish(batch)

    def _take_plain(self, payload: bytes, batch: Batch) -> bool:
        """Take a line of text or of thinking; False if it has to be read in full."""
        try:
            said = _decode_line(payload).message
        except (ValueError, RecursionError):  # no JSON of this shape, or no UTF-8
            return False
        self._say(said.thinking, said.content, batch)
        return True

    def _say(self, thought: str, text: str, batch: Batch) -> None:
        if thought:
            batch.grow(ReasoningDelta, thought)
        if text:
            batch.grow(TextDelta, text)
        self._content = self._content or bool(thought or text)

    def _take_any(self, line: Object, payload: bytes, batch: Batch) -> None:
        if line.get("error"):
            raise self._failed(line)
        message = line.get("message")
        if message is None and not isinstance(line.get("done"), bool):
            raise MalformedError("it has neither a message nor the word done")
        self._begun = True
        self._model = as_text(line.get("model")) or self._model
        if message is not None:
            self._take_message(as_object(message, "message"), payload, batch)
        if isinstance(chances := line.get("logprobs"), list):
            self._chances += cast("list[Json]", chances)
        if line.get("done") is True:
            self.done = True
            self._reason = as_text(line.get("done_reason"))
            self._take_end(line)

    def _take_message(self, message: Object, payload: bytes, batch: Batch) -> None:
        self._say(as_text(message.get("thinking")), as_text(message.get("content")), batch)
        if calls := message.get("tool_calls"):
            self._take_calls(as_list(calls, "tool_calls"), payload, batch)
        for data in as_list(message.get("images") or [], "images"):
            if not isinstance(data, str) or not data:
                raise MalformedError("an image is not base64")
            batch.add(PartDelta(Image(data=data)))
            self._content = True
        self._message |= {name: value for name, value in message.items() if name not in _MESSAGE and _is_said(value)}

    def _take_calls(self, calls: list[Any], payload: bytes, batch: Batch) -> None:
        written = _written(payload, len(calls))
        for place, entry in enumerate(calls):
            call = as_object(entry, "a tool call")
            function = as_object(call.get("function"), "the function of a tool call")
            name = as_text(function.get("name"))
            if not name:
                raise MalformedError("a tool call names no function")
            if self._calls >= _MOST_CALLS:
                raise MalformedError(f"it has more than {_MOST_CALLS:,} tool calls")
            arguments = (written[place] if written else "") or _arguments(function.get("arguments"))
            own = {key: value for key, value in call.items() if key not in _CALL and _is_said(value)}
            extra: Mapping[str, Json] = {VENDOR: own} if own else {}
            batch.add(ToolCallDelta(self._calls, self._ids.unique(call.get("id")), name, arguments, extra))
            self._calls += 1
            self._content = True

    def _take_end(self, line: Object) -> None:
        for name, value in line.items():
            if name in _COUNTS and (count := as_tokens(value)) is not None:
                self._counts[_COUNTS[name]] = count
            elif name not in _KNOWN and _is_said(value):
                self._extra[name] = value

    def _failed(self, line: Object) -> ProviderError:
        """Return the error in a line, which came under status 200; newer servers say there which one it would be."""
        said, status = line["error"], line.get("status")
        if isinstance(said, str) and isinstance(status, int):
            return self._faults.from_payload({"error": {"message": said, "code": status}})
        return self._faults.from_payload(line)


def _written(payload: bytes, count: int) -> list[str]:
    """Return the arguments of the calls of a line as the server wrote them, empty for what is no object.

    Nothing if they cannot be read by themselves.
    """
    try:
        calls = _decode_calls(payload).message.tool_calls
        raw = [bytes(call.function.arguments) for call in calls]
    except (ValueError, RecursionError):
        return []
    return [text.decode() if text.startswith(b"{") else "" for text in raw] if len(raw) == count else []


def _arguments(value: object) -> str:
    """Return a call's arguments, which are an object here, as text; of a server that sends text, as it came."""
    if value is None:
        return "{}"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _is_said(value: object) -> bool:
    return value not in (None, "", [], {}, 0, False)
