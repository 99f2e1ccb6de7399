"""Prompt templates of the settings: ``$input`` is what a person says, other names are given with ``-p``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Template
from typing import Any

import attrs
from pluggent_hookspecs.errors import ConfigError
from pluggent_plugin_loader.suggestions import did_you_mean

INPUT = "input"


@attrs.frozen
class PromptTemplate:
    """A prompt with places. ``system`` and ``model`` are used unless an option says otherwise."""

    name: str
    prompt: str
    system: str = ""
    model: str = ""
    defaults: Mapping[str, str] = attrs.field(factory=dict[str, str])

    @property
    def takes_input(self) -> bool:
        """Whether ``$input`` stands in it."""
        return INPUT in Template(self.prompt).get_identifiers()

    def check(self, parameters: Mapping[str, str]) -> None:
        """Raise ConfigError for each of *parameters* that has no place, and each place that has no value."""
        places = set(Template(self.prompt).get_identifiers()) - {INPUT}
        problems = [
            f"-p {name}: the template has no ${name}{did_you_mean(name, places)}"
            for name in parameters
            if name not in places
        ]
        missing = sorted(places - parameters.keys() - self.defaults.keys())
        problems += [f"needs a value for ${name}: -p {name}=…" for name in missing]
        if problems:
            raise ConfigError(f"template {self.name}", problems)

    def filled(self, text: str, parameters: Mapping[str, str]) -> str:
        """Return the prompt with *text* as ``$input``; behind it where the template has no such place."""
        made = Template(self.prompt).substitute({**self.defaults, **parameters, INPUT: text})
        return made if self.takes_input or not text else f"{made}\n\n{text}"


def find_template(templates: Mapping[str, Mapping[str, Any]], name: str) -> PromptTemplate:
    """Return the template *name*. Raises ConfigError with what there is."""
    if name not in templates:
        have = ", ".join(sorted(templates))
        hint = did_you_mean(name, templates) or (f"; there are: {have}" if have else f"; write one: [templates.{name}]")
        raise ConfigError("--template", [f"there is no template {name!r}{hint}"])
    return PromptTemplate(name, **templates[name])


def read_parameters(given: Sequence[str], template: str) -> Mapping[str, str]:
    """Return what ``-p`` was given. Raises ConfigError."""
    found: dict[str, str] = {}
    problems: list[str] = []
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            problems.append(f"{text!r}: expected name=value")
        elif name == INPUT:
            problems.append("$input is what you say or pipe in")
        found[name] = value
    if given and not template:
        problems.append("is for a template: -t NAME")
    if problems:
        raise ConfigError("--param", problems)
    return found
