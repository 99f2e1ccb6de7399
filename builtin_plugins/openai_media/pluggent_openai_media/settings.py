"""What can be written under ``[plugins.pluggent-openai-media]``. Values only: nothing is opened or read here."""

from __future__ import annotations

from typing import Literal

import attrs
from pluggent_hookspecs import Secret
from pluggent_provider_http.aws.endpoint import AwsEndpoint, check_auth
from pluggent_provider_http.endpoint import check_count, check_positive, check_url

DEFAULT_BASE_URL = "https://api.openai.com/v1"
DEFAULT_KEY = Secret("env:OPENAI_API_KEY")


@attrs.frozen(kw_only=True)
class MediaSettings(AwsEndpoint):
    """The server that is asked, as for pluggent-openai, its models, and how much goes in and out.

    >>> MediaSettings().image_model
    'gpt-image-2'
    """

    base_url: str = attrs.field(default="", validator=check_url)
    """Where requests go; empty: OPENAI_BASE_URL, else OpenAI itself."""
    api_key: Secret | None = attrs.field(factory=lambda: DEFAULT_KEY)
    """Keys are made at https://platform.openai.com/api-keys."""
    auth: Literal["bearer", "api-key", "none", "google", "sigv4"] = attrs.field(
        default="bearer", validator=check_auth("bearer", "api-key", "none", "google", "sigv4", default_key=DEFAULT_KEY)
    )
    """Who asks: bearer, api-key (where the key goes), none, google (api_key: credentials, or none) or sigv4 (AWS)."""
    first_byte_s: float = attrs.field(default=300.0, validator=check_positive)
    """Seconds from the call to the first byte of the answer: an image takes a minute or two."""
    image_model: str = "gpt-image-2"
    """The model that makes and edits images."""
    speech_model: str = "gpt-4o-mini-tts"
    """The model that speaks."""
    transcription_model: str = "gpt-4o-mini-transcribe"
    """The model that writes down what is said."""
    voice: str = "alloy"
    """The voice that speaks where a call names none."""
    image_bytes: int = attrs.field(default=25 << 20, validator=check_count)
    """The most bytes of an image that is edited."""
    audio_bytes: int = attrs.field(default=25 << 20, validator=check_count)
    """The most bytes of a recording."""
    show_bytes: int = attrs.field(default=3 << 20, validator=attrs.validators.ge(0))
    """An image of at most so many bytes is shown to the model that asked for it; 0 shows none."""
