"""The settings that are the command's own, and mean nothing to a host. Standard library only."""

# Every start pays for this file: a __future__ import would make NamedTuple compile each annotation.

from collections.abc import Mapping
from typing import Any, NamedTuple

from pluggent_plugin_loader.settings import NOTHING


class ModelNames(NamedTuple):
    """How a person calls models."""

    aliases: Mapping[str, str] = NOTHING
    """Your own names of models: name = "provider/model"."""


class CommandSettings(NamedTuple):
    """What the settings say to the command alone; ``templates`` has the fields of each PromptTemplate by its name."""

    models: ModelNames = ModelNames()
    templates: Mapping[str, Mapping[str, Any]] = NOTHING
    """Prompts by name: name = "Translate into French: $input"; or a table of prompt, system, model and defaults."""
