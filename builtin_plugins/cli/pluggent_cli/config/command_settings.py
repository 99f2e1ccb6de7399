"""The settings that are the command's own, and mean nothing to a host. Standard library only."""

# Every start pays for this file: a __future__ import would make NamedTuple compile each annotation.

from collections.abc import Mapping
from typing import Any, NamedTuple

from pluggent_host.settings import NOTHING


class ModelNames(NamedTuple):
    """Names of models."""

    aliases: Mapping[str, str] = NOTHING
    """Your own names of models: name = "provider/model"."""


class CommandSettings(NamedTuple):
    """``models``: see ModelNames. The tables of ``templates`` are the fields of a PromptTemplate."""

    models: ModelNames = ModelNames()
    templates: Mapping[str, Mapping[str, Any]] = NOTHING
    """Prompts for run -t: name = "text with $places", or { prompt, system, model, defaults }."""
