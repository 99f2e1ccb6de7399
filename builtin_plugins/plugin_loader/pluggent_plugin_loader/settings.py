"""The plugins that an operator lets run, and the settings of each, as values.

Of the standard library: `pluggent plugins` and `--version` read them too and import no third-party package.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

NOTHING: Mapping[str, Any] = MappingProxyType({})

Mode = Literal["all", "allow", "safe"]


class Selection(NamedTuple):
    """The installed plugins that may run. Names are plugin ids, or ids with ``==version``."""

    mode: Mode = "all"
    """Which installed plugins run: "all"; "allow", those in the list; "safe", built-in ones only."""
    allow: tuple[str, ...] = ()
    """The list for mode = "allow": names, or name==version."""
    block: tuple[str, ...] = ()
    """Plugins that never run."""
    any_version: bool = False
    """Run plugins made for another version of the contract, too."""


class SystemList(tuple[str, ...]):  # noqa: SLOT001 (a tuple cannot have slots that hold something)
    """An allow list of the system's settings, which holds in safe mode too.

    ``whole`` is that list before other settings narrowed it: plugins outside of it are left out on purpose.
    """

    whole: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Iterable[str], whole: tuple[str, ...]) -> "SystemList":
        """Return *names*, narrowed from *whole*."""
        made = cls(names)
        made.whole = whole
        return made


class Section(dict[str, Any]):
    """The settings of one plugin; ``folders`` maps keys to the folder of their file, the base of relative paths."""

    def __init__(self, values: Mapping[str, Any], folders: Mapping[str, str]) -> None:
        super().__init__(values)
        self.folders = folders
