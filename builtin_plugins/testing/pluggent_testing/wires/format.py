"""What a wire is: how one vendor's server writes what it has to say. Yours can be one more.

A wire turns values of the contract into the bytes that a server of that vendor would send. It is
used at the other end of a provider, by the server of wires/conformance.py, and shares no code with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import ClassVar

import attrs
from pluggent_hookspecs import (
    FinishReason,
    Json,
    ModelInfo,
    ModelResponse,
    ProviderErrorKind as Kind,
    VendorPart,
)

from pluggent_testing.wires.http_server import Received

PIECE = 7
"""Into how many characters texts and arguments are cut where they are streamed."""


class Says(Enum):
    """What not every format has words for."""

    THINKING = "thinking"
    SIGNATURES = "thinking that is signed, and handed back"
    REFUSALS = "refusals in words of their own"
    CACHED = "how many tokens were read from a cache"
    CACHE_WRITES = "how many tokens were stored in a cache"
    THINKING_TOKENS = "how many tokens went into thinking"
    AUDIO_TOKENS = "how many tokens were sound"
    LOGPROBS = "log-probabilities, in the extra of a reply"
    ORDER = "the order of texts and thoughts in a reply"
    MESSAGE_FIELDS = "fields of a message that only the vendor knows, kept and sent back"
    ARGUMENTS_AS_TEXT = "a call's arguments in a whole reply as text, as the model wrote them"


@attrs.frozen
class Fault:
    """An answer by which a server says that something is wrong, and what a provider makes of it.

    ``body`` is that of an HTTP answer with ``status``, or one event of a stream.
    """

    name: str
    kind: Kind
    body: bytes
    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])
    retry_after: float | None = None
    actual: int | None = None
    limit: int | None = None


class Wire(ABC):
    """The bytes of one vendor. Inherit and fill in; nothing of it is called by a provider.

    ``format`` is the name under which the vendor's own fields stand in ``extra``. ``base_path``
    is what a base URL ends with. ``is_sse``: streams are server-sent events. ``own_fields`` are
    names of a request's body that belong to the provider, which no user may set by
    ``parameters.extra``. ``vendor_part`` is a part that this vendor sends and wants back as it is.
    ``idle_events`` are events that may come at any place of a stream and say nothing. ``names_replies``:
    a reply says which model made it, and has an id. ``dates_models``: a list of models says when each was made.
    ``arguments_are_objects``: a call's arguments are an object of the answer, in streams too, and never text.
    """

    format: ClassVar[str] = ""
    base_path: ClassVar[str] = ""
    stream_type: ClassVar[str] = "text/event-stream"
    is_sse: ClassVar[bool] = True
    says: ClassVar[frozenset[Says]] = frozenset()
    finish: ClassVar[Mapping[FinishReason, str]] = {}
    own_fields: ClassVar[tuple[str, ...]] = ()
    vendor_part: ClassVar[VendorPart | None] = None
    idle_events: ClassVar[tuple[bytes, ...]] = ()
    names_replies: ClassVar[bool] = True
    arguments_are_objects: ClassVar[bool] = False
    dates_models: ClassVar[bool] = True

    def wants_stream(self, asked: Received) -> bool:
        """Tell whether a request asks for a stream."""
        body: Mapping[str, Json] = asked.json
        return body.get("stream") is True

    def names_model(self, asked: Received, model: str) -> bool:
        """Tell whether a request names *model*."""
        return model in (asked.json.get("model"), *asked.path.partition("?")[0].split("/models/"))

    def data(self, event: bytes) -> bytes:
        """Return the JSON of *event*, which is what follows ``data:`` in server-sent events."""
        return event.partition(b"data: ")[2].rstrip(b"\n")

    def with_data(self, event: bytes, data: bytes) -> bytes:
        """Return *event* with other data in it, which need be no JSON."""
        before, mark, _ = event.partition(b"data: ")
        return before + mark + data + b"\n\n"

    @abstractmethod
    def whole(self, reply: ModelResponse) -> bytes:
        """Return the body of a whole reply."""

    @abstractmethod
    def events(self, reply: ModelResponse) -> list[bytes]:
        """Return the events of a streamed reply, texts and arguments in pieces of PIECE characters.

        Each can be sent by itself; only together are they a reply.
        """

    @abstractmethod
    def faults(self) -> Sequence[Fault]:
        """Return what this vendor's server answers instead of a reply, one for each kind that it knows.

        One has the name ``unknown model``.
        """

    def faults_in_stream(self) -> Sequence[Fault]:
        """Return what comes in the middle of a stream, each as one event."""
        return ()

    @abstractmethod
    def models(self, models: Sequence[ModelInfo], asked: Received) -> bytes:
        """Return the body that lists *models*, or the page of them that was asked for."""


def pieces(text: str) -> list[str]:
    """Return *text* in pieces."""
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


def given(fields: Mapping[str, Json]) -> dict[str, Json]:
    """Return those of *fields* that are not None."""
    return {name: value for name, value in fields.items() if value is not None}
