"""The models that can be asked in a region: those on demand, and the inference profiles of Amazon's own.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_ListFoundationModels.html
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_ListInferenceProfiles.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeAlias

from pluggent_hookspecs import ModelInfo
from pluggent_provider_http.payload import MalformedError, Object, as_list, as_object, as_text, decode_whole
from pluggent_provider_http.server_errors import Faults

MODELS, PROFILES = "/foundation-models", "/inference-profiles"
MAX_PAGES = 20

Read: TypeAlias = Callable[[Object], ModelInfo | None]


def read_models(data: bytes, faults: Faults) -> Sequence[ModelInfo]:
    """Return the models that answer with text and need no profile. Raises ProviderError ``protocol``."""
    return _read(data, "modelSummaries", _model, faults)[0]


def read_profiles(data: bytes, faults: Faults) -> tuple[Sequence[ModelInfo], str]:
    """Return a page of profiles, and the token of the next one, empty at the end. Raises ProviderError ``protocol``."""
    return _read(data, "inferenceProfileSummaries", _profile, faults)


def _read(data: bytes, name: str, read: Read, faults: Faults) -> tuple[Sequence[ModelInfo], str]:
    try:
        answer = as_object(decode_whole(data), "the answer")
        entries = [as_object(entry, "a model") for entry in as_list(answer.get(name), name)]
        found = [model for entry in entries if (model := read(entry)) is not None]
    except MalformedError as error:
        problem = f"answered with what is not a list of models: {error}: {faults.shown(data)}"
        raise faults.protocol(problem) from error
    return found, as_text(answer.get("nextToken"))


def _model(entry: Object) -> ModelInfo | None:
    modes, ways = entry.get("outputModalities"), entry.get("inferenceTypesSupported")
    if isinstance(modes, list) and "TEXT" not in modes:
        return None
    if isinstance(ways, list) and "ON_DEMAND" not in ways:
        return None
    return ModelInfo(_id(entry, "modelId"), as_text(entry.get("modelName")), extra=_more(entry, "modelId", "modelName"))


def _profile(entry: Object) -> ModelInfo:
    name = as_text(entry.get("inferenceProfileName"))
    known = ("inferenceProfileId", "inferenceProfileName", "createdAt")
    created = _seconds(as_text(entry.get("createdAt")))
    return ModelInfo(_id(entry, "inferenceProfileId"), name, created, extra=_more(entry, *known))


def _id(entry: Object, field: str) -> str:
    found = as_text(entry.get(field))
    if not found:
        raise MalformedError(f"a model has no {field}")
    return found


def _more(entry: Object, *known: str) -> Object:
    return {name: value for name, value in entry.items() if name not in known and value is not None}


def _seconds(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except (ValueError, OverflowError, OSError):
        return None
