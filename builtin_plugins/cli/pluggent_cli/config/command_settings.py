"""The settings that are the command's own, and mean nothing to a host. Standard library only."""

# Every start pays for this file: a __future__ import would make NamedTuple compile each annotation.

from collections.abc import Mapping
from typing import Any, NamedTuple

from pluggent_host.settings import NOTHING


class ModelNames(NamedTuple):
    """``aliases`` are a person's own names of models, each of one as ``provider/model``."""

    aliases: Mapping[str, str] = NOTHING


class CommandSettings(NamedTuple):
    """``models``: see ModelNames. ``templates`` are prompts by name, each the fields of a PromptTemplate."""

    models: ModelNames = ModelNames()
    templates: Mapping[str, Mapping[str, Any]] = NOTHING
