"""The settings that are the command's own, and mean nothing to a host. Standard library only."""

# Every start pays for this file: a __future__ import would make NamedTuple compile each annotation.

from collections.abc import Mapping
from typing import Any, NamedTuple

from pluggent_plugin_loader.settings import NOTHING


class ModelNames(NamedTuple):
    """What models may be called."""

    aliases: Mapping[str, str] = NOTHING
    """Your own names of models, as in fast = "openai/gpt-5-mini": then -m fast, or model = "fast"."""


class CommandSettings(NamedTuple):
    """All settings of the command that a host does not have."""

    models: ModelNames = ModelNames()
    templates: Mapping[str, Mapping[str, Any]] = NOTHING
    """Prompts for run -t NAME, as in short = "In one sentence: $input", or as a table of prompt, system, model and
    defaults. $input is what is said and piped in, -p gives other names a value, and $$ is a dollar."""
