"""Seven vendors on loopback that refuse with status 400 what the real ones refuse, and a model behind each.

Whatever is asked, the model thinks, says something and calls two tools; when it has their results, it thinks and says
what they are. What it signs is remembered: a signature at another vendor, or beside other words, is refused too.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import attrs
from converse_schema import broken_rules
from gemini_schema import problems as gemini_problems
from interactions_schema import problems as interactions_problems
from pluggent_anthropic.plugin import Anthropic
from pluggent_bedrock.plugin import Bedrock
from pluggent_gemini.plugin import Gemini
from pluggent_gemini.settings import Server as GeminiServer
from pluggent_hookspecs import (
    FinishReason,
    Json,
    Message,
    ModelResponse,
    Part,
    Reasoning,
    Secret,
    Text,
    ToolCall,
    Usage,
    VendorPart,
    thaw,
)
from pluggent_ollama.plugin import Ollama
from pluggent_openai.plugin import OpenAI
from pluggent_openai.settings import Server as OpenAIServer
from pluggent_testing.providers.asking import opened
from pluggent_testing.wires import (
    AnthropicWire,
    ConverseWire,
    GeminiWire,
    InteractionsWire,
    OllamaWire,
    OpenAIWire,
    ResponsesWire,
    Says,
    Wire,
    WireServer,
)
from pluggent_testing.wires.http_server import Received, Steps, answer
from pluggent_testing.wires.server import holds, strings
from responses_schema import problems as responses_problems
from vendor_rules import chat_problems, messages_problems, ollama_problems

SECRET = "EMP-123456"
"""What a model says when it is asked to leak; a policy takes it out."""


@attrs.frozen
class Vendor:
    """One vendor: its wire, a model of it, what it refuses, ids of its calls, a part of its own, and our provider."""

    wire: Callable[[], Wire]
    model: str
    problems: Callable[[Any], Iterable[str]]
    call_id: str
    own: Mapping[str, Json] | None
    made: Callable[[str, Secret], opened]


def _openai(name: str, api: Any) -> Callable[[str, Secret], opened]:
    def made(url: str, key: Secret) -> opened:
        server = OpenAIServer(base_url=url, api_key=key, api=api)
        return opened(OpenAI(OpenAI.Settings(servers={name: server})), name)

    return made


def _gemini(name: str, api: Any) -> Callable[[str, Secret], opened]:
    def made(url: str, key: Secret) -> opened:
        server = GeminiServer(base_url=url, api_key=key, api=api)
        return opened(Gemini(Gemini.Settings(servers={name: server})), name)

    return made


SEARCH: Mapping[str, Json] = {"type": "web_search_call", "id": "ws_7", "status": "completed", "action": {"query": "7"}}
VENDORS: Mapping[str, Vendor] = {
    "chat": Vendor(OpenAIWire, "gpt-4.1", chat_problems, "call_{}", None, _openai("chat", "chat")),
    "responses": Vendor(
        ResponsesWire, "gpt-5.5", responses_problems, "call_r{}", SEARCH, _openai("responses", "responses")
    ),
    "anthropic": Vendor(
        AnthropicWire,
        "sonnet-of-7",
        messages_problems,
        "toolu_{}",
        {"type": "redacted_thinking", "data": "c2VhbGVk"},
        lambda url, key: opened(Anthropic(Anthropic.Settings(base_url=url, api_key=key))),
    ),
    "google": Vendor(
        GeminiWire,
        "gemini-3-flash",
        lambda body: gemini_problems(body, signed=True),
        "g-{}",
        {"executableCode": {"language": "PYTHON", "code": "7"}},
        _gemini("google", "generate"),
    ),
    "steps": Vendor(
        InteractionsWire,
        "gemini-3-flash",
        lambda body: interactions_problems(body, signed=True),
        "s.{}",
        {"type": "google_search_call", "id": "gs_7", "arguments": {"queries": ["7"]}, "signature": "c3RlcHM="},
        _gemini("steps", "interactions"),
    ),
    "bedrock": Vendor(
        ConverseWire,
        "us.anthropic.sonnet-of-7",
        broken_rules,
        "tooluse_{}",
        {"reasoningContent": {"redactedContent": "YmVkcm9jaw=="}},
        lambda url, key: opened(Bedrock(Bedrock.Settings(base_url=url, api_key=key, region="us-east-1"))),
    ),
    "ollama": Vendor(
        OllamaWire,
        "qwen3:8b",
        ollama_problems,
        "{}",
        None,
        lambda url, key: opened(Ollama(Ollama.Settings(base_url=url, api_key=key))),
    ),
}


class StrictServer(WireServer):
    """One vendor. ``refused`` is what it has refused; ``signed`` are signatures and the thoughts that they are for.

    *signers* are all servers of a conversation, by name.
    """

    def __init__(self, name: str, signers: Mapping[str, StrictServer]) -> None:
        self.vendor = VENDORS[name]
        super().__init__(self.vendor.wire(), 20, 10**6)
        self.name = name
        self.refused: list[str] = []
        self.signed: dict[str, str] = {}
        self._signers = signers
        self._turns = 0

    def forget(self) -> None:
        """Begin again, for another conversation."""
        self.requests.clear()
        self.refused.clear()
        self.signed.clear()

    def by_itself(self, asked: Received) -> Steps:
        body = asked.json
        problems = [*self.vendor.problems(body), *self._forged(body)]
        if problems:
            self.refused += problems
            return answer(json.dumps({"error": {"message": "; ".join(problems)}}).encode(), 400)
        self._turns += 1
        return self.reply(self._reply(body))(asked)

    def _forged(self, body: Any) -> Iterator[str]:
        """Yield what of *body* another vendor has signed or made, and what was changed beside a signature."""
        for name, signer in self._signers.items():
            own = signer.vendor.own
            if name != self.name and own is not None and holds(body, own):
                yield f"a part of {name}"
            for signature, thought in signer.signed.items():
                for holder in holders(body, signature):
                    if name != self.name:
                        yield f"a signature of {name}"
                    elif thought not in holder and "thinking" in holder:
                        yield f"thinking that was changed: {holder}"

    def _reply(self, body: Any) -> ModelResponse:
        said = list(strings(body))
        number = f"{self.name}{self._turns}"
        wanted = [text for text in said if text.startswith("turn ")]
        word = wanted[-1].partition(":")[0].removeprefix("turn ")
        done = any(f"sum of {word} is" in text for text in said)
        leak = f" {SECRET}" if "leak" in wanted[-1] else ""
        if done:
            content = (*self._thought(f"{number} knows."), Text(f"{number} says{leak} that it is done."))
            return _response(Message.assistant(content))
        own = [VendorPart(self.vendor.wire().format, self.vendor.own)] if self.vendor.own else []
        content = (*self._thought(f"{number} thinks{leak}."), *own, Text(f"{number} looks."))
        return _response(Message.assistant(content, tuple(self._calls(number, word))))

    def _thought(self, text: str) -> list[Part]:
        says = self.wire.says
        if Says.THINKING not in says:
            return []
        if Says.SIGNATURES not in says:
            return [Reasoning(text)]
        return [Reasoning(text, self._sign(text))]

    def _sign(self, text: str) -> str:
        signature = base64.b64encode(f"signed by {self.name}: {text}".encode()).decode()
        self.signed[signature] = text
        return signature

    def _calls(self, number: str, word: str) -> Iterator[ToolCall]:
        for place in (1, 2):
            extra: dict[str, Json] = {}
            if self.name == "google" and place == 1:
                extra = {"gemini": {"thoughtSignature": self._sign(f"{number} calls.")}}
            arguments = json.dumps({"word": word, "a": place, "b": self._turns})
            yield ToolCall(self.vendor.call_id.format(f"{self._turns}_{place}"), "add", arguments, extra)


def _response(message: Message) -> ModelResponse:
    reason = FinishReason.TOOL_CALLS if message.tool_calls else FinishReason.STOP
    return ModelResponse(message, reason, Usage(100, 10), "model-1", "reply-1")


def holders(value: object, text: str) -> Iterator[str]:
    """Yield every JSON object that has *text* as one of its fields, as JSON."""
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        if text in fields.values():
            yield json.dumps(fields, ensure_ascii=False)
        for item in fields.values():
            yield from holders(item, text)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from holders(item, text)


def own_of(name: str) -> Any:
    """Return the part of its own that a vendor sends, as JSON; None if it has none."""
    own = VENDORS[name].own
    return None if own is None else thaw(own)
