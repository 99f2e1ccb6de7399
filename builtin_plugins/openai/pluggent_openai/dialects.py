"""Where servers differ from OpenAI's chat completions. Data, and its lookup.

A new server needs one entry in SERVERS, an odd one of your own ``compat = {...}`` in its settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

import attrs

ALL = "*"


def _to_names(value: Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _one_of(*known: str) -> Any:
    def check(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if value not in known:
            raise ValueError(f"compat: {attribute.name}: expected one of {', '.join(map(repr, known))}, got {value!r}")

    return check


def _some_of(*known: str) -> Any:
    def check(_: object, attribute: attrs.Attribute[Any], value: tuple[object, ...]) -> None:
        if wrong := [name for name in value if name not in known]:
            raise ValueError(f"compat: {attribute.name}: expected some of {', '.join(known)}; {wrong[0]!r} is none")

    return check


def _is(wanted: type, words: str) -> Any:
    def check(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if type(value) is not wanted:
            raise ValueError(f"compat: {attribute.name}: expected {words}, got {value!r}")

    return check


def _count(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if type(value) is not int or value < 0:
        raise ValueError(f"compat: {attribute.name}: expected a whole number from 0, got {value!r}")


def _are_texts(_: object, attribute: attrs.Attribute[Any], value: tuple[object, ...]) -> None:
    if not all(isinstance(name, str) and name for name in value):
        raise ValueError(f"compat: {attribute.name}: expected a list of names, got {value!r}")


TAGS = "tags"
"""The ``reasoning`` of models that want earlier thinking in the text."""
_flag = _is(bool, "true or false")
_text = _is(str, "a text")


@attrs.frozen(kw_only=True)
class Dialect:
    """How one server speaks. The defaults are OpenAI's own ways; every field can be set by ``compat``.

    What goes by another name; empty where the server has no such field:

    - ``max_tokens``, ``user``, ``seed``: the request's fields for ModelParameters.max_output_tokens,
      user and seed.
    - ``logprobs``: ``flag`` is ``logprobs`` true with ``top_logprobs``, ``count`` the number alone.
    - ``reasoning``: the field of an assistant's message in which earlier thinking is wanted back;
      ``content`` means parts of the content. ``reasoning_required``: also empty, with calls. ``tagged`` are
      patterns of models that want it in the text, between <think> and </think>.

    What the server has: ``top_k``, ``service_tier``, ``metadata``, ``parallel_tool_calls``;
    ``tool_choice``, the forms other than auto; ``custom_tools`` (a function is offered instead);
    ``strict`` (left out); ``json_schema`` (a json_object with the schema in an instruction);
    ``developer``, the role (system instead); ``refusals`` as parts (text instead); ``file_url``,
    files by their URL; ``stream_options``; ``stream_tools`` (false: asked whole if there are tools);
    ``cache`` (prompt_cache_options). ``think_tags``: thinking may stand in the text, between <think> and </think>.

    What Responses is asked for: ``ask_encrypted``, encrypted thinking (``include``), without which none goes back;
    OpenAI sends it unasked. ``background``: whether it makes replies in the background.

    What it does with what was said: ``returns``, the fields of its replies' messages and calls
    that it takes back (``*``: all of them); ``call_id_chars``, the length that ids of calls must
    have (0: any); ``cost``, whether ``usage.cost`` is in US dollars.
    """

    max_tokens: str = attrs.field(
        default="max_completion_tokens", validator=_one_of("max_completion_tokens", "max_tokens")
    )
    user: str = attrs.field(default="safety_identifier", validator=_one_of("safety_identifier", "user", ""))
    seed: str = attrs.field(default="seed", validator=_text)
    logprobs: Literal["flag", "count", ""] = attrs.field(default="flag", validator=_one_of("flag", "count", ""))
    reasoning: str = attrs.field(default="", validator=_text)
    reasoning_required: bool = attrs.field(default=False, validator=_flag)
    tagged: tuple[str, ...] = attrs.field(default=(), converter=_to_names, validator=_are_texts)
    top_k: bool = attrs.field(default=False, validator=_flag)
    service_tier: bool = attrs.field(default=True, validator=_flag)
    metadata: bool = attrs.field(default=True, validator=_flag)
    parallel_tool_calls: bool = attrs.field(default=True, validator=_flag)
    tool_choice: tuple[str, ...] = attrs.field(
        default=("none", "required", "named", "allowed"),
        converter=_to_names,
        validator=_some_of("none", "required", "named", "allowed"),
    )
    custom_tools: bool = attrs.field(default=True, validator=_flag)
    strict: bool = attrs.field(default=True, validator=_flag)
    json_schema: bool = attrs.field(default=True, validator=_flag)
    developer: bool = attrs.field(default=True, validator=_flag)
    refusals: bool = attrs.field(default=True, validator=_flag)
    file_url: bool = attrs.field(default=False, validator=_flag)
    stream_options: bool = attrs.field(default=True, validator=_flag)
    stream_tools: bool = attrs.field(default=True, validator=_flag)
    think_tags: bool = attrs.field(default=False, validator=_flag)
    ask_encrypted: bool = attrs.field(default=False, validator=_flag)
    background: bool = attrs.field(default=True, validator=_flag)
    returns: tuple[str, ...] = attrs.field(default=("audio",), converter=_to_names, validator=_are_texts)
    call_id_chars: int = attrs.field(default=0, validator=_count)
    cache: bool = attrs.field(default=True, validator=_flag)
    cost: bool = attrs.field(default=False, validator=_flag)
    message_key: str = attrs.field(init=False, eq=False, repr=False)
    tool_key: str = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        # What an encoded message and tool depend on names their places in the memo; see wire.
        message = (self.reasoning, self.reasoning_required, self.developer, self.refusals)
        known = (*message, self.cache, self.file_url, self.returns, self.call_id_chars, self.custom_tools)
        object.__setattr__(self, "message_key", f"pluggent_openai message {known}")
        object.__setattr__(self, "tool_key", f"pluggent_openai tool {(self.custom_tools, self.strict)}")

    def for_tagged(self) -> Dialect:
        """Return how the server speaks of the models in ``tagged``."""
        return attrs.evolve(self, reasoning=TAGS)

    def takes_back(self, field: str) -> bool:
        """Whether *field* of a reply is to be sent again in later requests."""
        return field in self.returns or ALL in self.returns


# For servers not in the table: what most servers understand, and nothing that some refuse. All
# take max_tokens, and where max_completion_tokens is not known it is mostly ignored in silence.
_OTHERS: Mapping[str, Any] = {
    "max_tokens": "max_tokens",
    "user": "user",
    "tool_choice": ("none", "required", "named"),
    "custom_tools": False,
    "developer": False,
    "refusals": False,
    "cache": False,
    "background": False,
    "returns": (ALL,),
    "think_tags": True,
}

SERVERS: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    # https://developers.openai.com/api/reference/resources/chat
    "openai": (("api.openai.com",), attrs.asdict(Dialect(), filter=lambda attribute, _: attribute.init)),
    # https://learn.microsoft.com/en-us/azure/foundry/reference/rest/chat-create-chat-completion has both
    # names of the user, its dated API versions `user` alone.
    "azure": (
        (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"),
        {
            "max_tokens": "max_completion_tokens",
            "tool_choice": ("none", "required", "named", "allowed"),
            "custom_tools": True,
            "developer": True,
            "refusals": True,
            "ask_encrypted": True,
            "background": True,
            "cache": True,
            "returns": ("audio",),
        },
    ),
    # https://api-docs.deepseek.com/api/create-chat-completion: max_tokens alone, no json_schema ("This
    # response_format type is unavailable now"). https://api-docs.deepseek.com/guides/thinking_mode: with
    # tools the thinking has to come back, and every turn with calls has to have it.
    # "unknown variant `developer`": https://github.com/earendil-works/pi/issues/1048
    "deepseek": (
        ("api.deepseek.com",),
        {
            "json_schema": False, "reasoning": "reasoning_content", "reasoning_required": True, "returns": (),
            "think_tags": False,
        },
    ),
    # ChatCompletionRequest of https://github.com/mistralai/client-python 3.7: random_seed, top_k, metadata,
    # neither user nor stream_options (usage always comes); roles system, user, assistant, tool; thinking is
    # a part of the content. Ids of calls: https://github.com/pydantic/pydantic-ai/issues/9096
    "mistral": (
        ("api.mistral.ai",),
        {
            "user": "", "seed": "random_seed", "top_k": True, "reasoning": "content", "stream_options": False,
            "returns": ("prefix",), "call_id_chars": 9, "think_tags": False,
        },
    ),
    # https://console.groq.com/docs/openai: logprobs are refused. CompletionCreateParams of
    # https://github.com/groq/groq-python 1.7: no metadata; roles system and developer; `reasoning` in messages.
    "groq": (
        ("api.groq.com",),
        {
            "max_tokens": "max_completion_tokens", "logprobs": "", "metadata": False, "developer": True,
            "reasoning": "reasoning", "returns": (),
        },
    ),
    # ChatRequest of https://github.com/OpenRouterTeam/python-sdk 1.3: top_k, user; files by URL; usage.cost.
    # https://openrouter.ai/docs/guides/best-practices/reasoning-tokens: reasoning_details come back unchanged.
    "openrouter": (
        ("openrouter.ai",),
        {
            "max_tokens": "max_completion_tokens", "top_k": True, "developer": True, "refusals": True,
            "file_url": True, "reasoning": "reasoning", "returns": ("reasoning_details", "audio"), "cost": True,
            "ask_encrypted": True, "think_tags": False,
        },
    ),
    # CompletionCreateParams of https://github.com/togethercomputer/together-py 3.1: logprobs is a number;
    # none of user, metadata, service_tier, parallel_tool_calls.
    "together": (
        ("api.together.xyz", "api.together.ai"),
        {
            "user": "", "logprobs": "count", "top_k": True, "metadata": False, "service_tier": False,
            "parallel_tool_calls": False, "returns": (),
        },
    ),
    # https://docs.fireworks.ai/api-reference/post-chatcompletions: top_k; reasoning_content in messages.
    "fireworks": (("api.fireworks.ai",), {"top_k": True, "reasoning": "reasoning_content", "returns": ()}),
    # https://docs.x.ai/docs/api-reference: user, max_completion_tokens, no top_k, metadata "not supported".
    # https://docs.x.ai/docs/guides/chat: thinking goes back encrypted, if it was asked for.
    "xai": (
        ("api.x.ai",),
        {
            "max_tokens": "max_completion_tokens", "metadata": False, "ask_encrypted": True, "returns": (),
            "think_tags": False,
        },
    ),
    # https://ai.google.dev/gemini-api/docs/openai; what it does not know is refused ("Unknown name"): metadata
    # https://github.com/ed-donner/agents/issues/45, top_k https://github.com/MinLL/SkyrimNet-GamePlugin/issues/77.
    # https://ai.google.dev/gemini-api/docs/thought-signatures: calls come back with their extra_content.
    "gemini": (
        ("generativelanguage.googleapis.com",),
        {
            "max_tokens": "max_completion_tokens", "user": "", "logprobs": "", "metadata": False,
            "service_tier": False, "returns": ("extra_content",), "think_tags": False,
        },
    ),
    # https://docs.ollama.com/api/openai-compatibility: max_tokens; neither tool_choice nor user; openai.go reads
    # `reasoning` of a message. strict: https://github.com/pydantic/pydantic-ai/issues/4116.
    # developer: https://github.com/ollama/ollama-python/issues/453
    "ollama": (
        ("ollama.com", "localhost:11434", "127.0.0.1:11434"),
        {
            "user": "", "logprobs": "", "metadata": False, "service_tier": False, "parallel_tool_calls": False,
            "tool_choice": (), "strict": False, "reasoning": "reasoning", "returns": (),
        },
    ),
    # vllm/entrypoints/openai/chat_completion/protocol.py: top_k; tool_choice of three forms; `reasoning`.
    "vllm": (
        (),
        {"max_tokens": "max_completion_tokens", "top_k": True, "metadata": False, "service_tier": False,
         "reasoning": "reasoning"},
    ),
    # https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md: /completion's options too.
    "llama.cpp": ((), {"top_k": True, "metadata": False, "service_tier": False, "reasoning": "reasoning_content"}),
    # https://lmstudio.ai/docs/developer/openai-compat/chat-completions
    "lmstudio": (
        ("localhost:1234", "127.0.0.1:1234"),
        {"top_k": True, "user": "", "metadata": False, "service_tier": False, "logprobs": ""},
    ),
    # https://docs.qwencloud.com/api-reference/chat/openai-chat: roles system, user, assistant, tool; top_k.
    # No "required": https://docs.instructorphp.com/cookbook/examples/B04_LLMApiSupport/llm_qwen
    "dashscope": (
        ("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "dashscope-us.aliyuncs.com"),
        {"top_k": True, "tool_choice": ("none", "named")},
    ),
    # https://platform.kimi.ai/docs/guide/migrating-from-openai-to-kimi: no tool_choice "required".
    # https://platform.kimi.ai/docs/api/chat: max_completion_tokens; roles system, user, assistant.
    "moonshot": (
        ("api.moonshot.ai", "api.moonshot.cn"),
        {
            "max_tokens": "max_completion_tokens", "tool_choice": ("none", "named"),
            "reasoning": "reasoning_content", "think_tags": False,
        },
    ),
    # https://inference-docs.cerebras.ai/resources/openai: parallel_tool_calls and service_tier are status 400.
    # https://inference-docs.cerebras.ai/capabilities/reasoning: GLM wants its thinking back between tags.
    "cerebras": (
        ("api.cerebras.ai",),
        {
            "max_tokens": "max_completion_tokens", "metadata": False, "service_tier": False,
            "parallel_tool_calls": False, "tagged": ("zai-*",),
        },
    ),
    # https://docs.z.ai/api-reference/llm/chat-completion: tool_choice auto alone, response_format without a schema,
    # user_id. https://docs.z.ai/guides/capabilities/thinking-mode: reasoning_content comes back unchanged.
    "zai": (
        ("api.z.ai", "open.bigmodel.cn"),
        {
            "user": "", "logprobs": "", "metadata": False, "service_tier": False, "parallel_tool_calls": False,
            "tool_choice": (), "strict": False, "json_schema": False, "reasoning": "reasoning_content", "returns": (),
            "think_tags": False,
        },
    ),
    # https://huggingface.co/docs/inference-providers/tasks/chat-completion: one form for servers of many vendors.
    "huggingface": (("router.huggingface.co",), {"metadata": False, "service_tier": False}),
    # https://docs.snowflake.com/en/user-guide/snowflake-cortex/cortex-rest-api: no strict; max_completion_tokens.
    "snowflake": (
        (".snowflakecomputing.com",),
        {
            "max_tokens": "max_completion_tokens", "metadata": False, "service_tier": False, "strict": False,
            "returns": ("reasoning_details",),
        },
    ),
    # https://docs.tokenfactory.nebius.com/api-reference/inference/create-chat-completion: top_k, as vLLM
    "nebius": (
        ("api.studio.nebius.com", "api.tokenfactory.nebius.com"),
        {"top_k": True, "metadata": False, "service_tier": False},
    ),
    # https://docs.sambanova.ai/docs/en/features/openai-compatibility
    "sambanova": (
        ("api.sambanova.ai",),
        {"top_k": True, "logprobs": "", "metadata": False, "service_tier": False, "parallel_tool_calls": False},
    ),
}  # fmt: skip


def dialect_for(base_url: str, compat: Mapping[str, Any] = MappingProxyType({})) -> Dialect:
    """Return how the server at *base_url* speaks: by its host name in SERVERS, changed by *compat*.

    ``like`` in *compat* names an entry of SERVERS to go by instead. Raises ValueError naming a
    field that there is none of, or its value.

    >>> dialect_for("https://api.deepseek.com/v1").max_tokens
    'max_tokens'
    >>> dialect_for("http://127.0.0.1:8000/v1", {"like": "vllm", "user": ""}).top_k
    True
    """
    changes = dict(compat)
    name = changes.pop("like", None) or _named(base_url)
    if name is not None and name not in SERVERS:
        raise ValueError(f"compat: like: there is no server {name!r}; known are {', '.join(SERVERS)}")
    known = [attribute.name for attribute in attrs.fields(Dialect) if attribute.init]
    for field in changes:
        if field not in known:
            # Here and not above: it is needed for a mistake only.
            from difflib import get_close_matches

            near = get_close_matches(str(field), known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are like, {', '.join(known)}"
            raise ValueError(f"compat: {field!r} is unknown{hint}")
    entry: Mapping[str, Any] = SERVERS[name][1] if name is not None else {}
    return Dialect(**{**_OTHERS, **entry, **changes})


def _named(base_url: str) -> str | None:
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    for name, (hosts, _) in SERVERS.items():
        for known in hosts:
            if host == known or (known.startswith(".") and host.endswith(known)):
                return name
            if ":" in known and f"{host}:{parts.port}" == known:
                return name
    return None
