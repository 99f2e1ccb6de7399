"""``pluggent setup`` as a new user meets it, with a home of its own, and what it asks."""

from pathlib import Path
from typing import Any

from cli_support import Cli, Done

PROVIDER, KEY, MODEL, WRITE = "Number or name: ", "is not shown): ", "a part of it: ", "Write this? [Y/n] "
READY = "Ready. To begin:\n"
CTRL_C, CTRL_D = "\x03", "\x04"


class Setup:
    """The command of a new user with a home of its own."""

    def __init__(self, cli: Cli, url: str, home: Path) -> None:
        self.cli = cli
        self.home = home
        home.mkdir()
        self.settings = home / ".config" / "pluggent" / "pluggent.toml"
        self.key = cli.state / "keys" / "openai"
        self.environ: dict[str, Any] = {
            "HOME": str(home), "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "", "NO_COLOR": "1", "XDG_CONFIG_HOME": "",
        }  # fmt: skip

    def __call__(self, *keys: str, arguments: tuple[str, ...] = (), **more: Any) -> Done:
        """Wait for the first of *keys*, type the second, and so on."""
        with self.cli.at_terminal("setup", *arguments, **self.environ, **more) as terminal:
            terminal.exchange("", *keys)
            return terminal.end()

    def run(self, *arguments: str) -> Done:
        """Run another command without a terminal."""
        return self.cli(*arguments, **self.environ)

    @property
    def left(self) -> list[str]:
        """Every file of settings and keys there is."""
        folders = (self.settings.parent, self.key.parent)
        return [file.name for folder in folders if folder.exists() for file in folder.iterdir()]
