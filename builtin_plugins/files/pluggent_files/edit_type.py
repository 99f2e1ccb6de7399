"""One replacement, as a model writes it."""

from __future__ import annotations

from typing import Annotated, TypedDict


class Replacement(TypedDict):
    """What every edit says."""

    old_text: Annotated[str, "The exact text to replace, white space included, without line numbers"]
    new_text: Annotated[str, "What stands there then; empty deletes"]


class Edit(Replacement, total=False):
    """One replacement."""

    replace_all: Annotated[bool, "Replace every occurrence; otherwise there must be exactly one"]
