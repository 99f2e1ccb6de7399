from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pluggent_testing.paths import PathMatrix
from pluggent_testing.paths.table import EVERY, PATHS


class TestBareHost(PathMatrix):
    def composition(self) -> Mapping[str, Any]:
        return {"installed": False}


def test_no_entry_path_takes_the_place_of_another() -> None:
    assert [path.name for path in EVERY] == list(PATHS)
