from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pluggent_testing.paths import PathMatrix


class TestBareHost(PathMatrix):
    def composition(self) -> Mapping[str, Any]:
        return {"installed": False}
