"""The settings that are the command's own, and mean nothing to a host. Standard library only."""

# Every start pays for this file: a __future__ import would make NamedTuple compile each annotation.

from collections.abc import Mapping
from typing import Any, NamedTuple

from pluggent_plugin_loader.settings import NOTHING


class ModelNames(NamedTuple):
    """Names of models."""

    aliases: Mapping[str, str] = NOTHING
    """Your own names of models, each of one as provider/model."""


class CommandSettings(NamedTuple):
    """What the command has for a person: names and prompts."""

    models: ModelNames = ModelNames()
    templates: Mapping[str, Mapping[str, Any]] = NOTHING
    """Your own prompts by name, each a table with prompt, system, model and defaults."""
