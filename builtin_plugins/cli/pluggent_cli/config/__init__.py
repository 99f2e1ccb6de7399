r"""Settings from files, the environment and options. ``load_settings`` is public, for other applications.

>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     place = Path(folder, "acme.toml")
...     _ = place.write_text("[limits]\ntool_rounds = 5\n")
...     loaded = load_settings(config=place, environ={"HOME": folder}, cwd=Path(folder))
>>> loaded.settings.limits.tool_rounds
5
>>> loaded.origins["limits.tool_rounds"].line
2
"""

from pluggent_cli.config.sources import load_settings

__all__ = ["load_settings"]
