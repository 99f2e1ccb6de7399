"""``pluggent config example``: every option of this installation, and a file that can be used as it is."""

import argparse
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path

from each_of import each_of
from fake_distributions import POLICY
from pluggent_cli.config.example import example
from pluggent_cli.config.keys import KEYS
from pluggent_cli.config.plugin_sections import check_plugins
from pluggent_cli.config.sources import load_settings
from pluggent_cli.host_access import Setup, gather
from pluggent_plugin_loader.discovery import discover

ALL = sorted(item.name for item in discover().distributions)
EXTRAS = {
    "mcp": {"pluggent-mcp"},
    "policy": {"pluggent-audit", "pluggent-budget", "pluggent-permissions", "pluggent-redact"},
    "web": {"pluggent-web"},
}
BASE = {name for name in ALL if not any(name in extra for extra in EXTRAS.values())}
INSTALLED = {
    "all": set(ALL),
    "none": set[str](),
    **{f"only {name}": {name} for name in ALL},
    **{
        f"pluggent[{','.join(extras)}]": BASE.union(*(EXTRAS[name] for name in extras))
        for extras in ([], ["mcp"], ["policy"], ["web"], ["mcp", "policy"], ["mcp", "web"], ["policy", "web"])
    },
}


@cache
def whole() -> Setup:
    setup, errors = gather(argparse.Namespace(config=None, without=[], safe=False))
    assert errors == ()
    return setup


def installed(names: Iterable[str]) -> Setup:
    """Return what a command works with where only these of the plugins are installed."""
    setup = whole()
    kept = tuple(item for item in setup.discovery.distributions if item.name in names)
    return setup._replace(discovery=setup.discovery._replace(distributions=kept))


def problems(setup: Setup, text: str, folder: Path) -> list[object]:
    """Return what is wrong with *text* as the settings of *setup*."""
    file = folder / "example.toml"
    file.write_text(text)
    loaded = load_settings(config=file, environ={"HOME": str(folder)}, cwd=folder)
    found = check_plugins(setup._replace(settings=loaded.settings, origins=loaded.origins))
    return [error for _, errors in found for error in errors]


def set_all(text: str) -> str:
    """Return *text* with every option set."""
    return re.sub(r"^#(?=\S)", "", text, flags=re.MULTILINE)


@each_of("names", INSTALLED.values(), ids=INSTALLED)
def test_it_loads_as_it_is_and_with_every_option_set(names, tmp_path):
    setup = installed(names)
    text = example(setup)

    assert tomllib.loads(text) == {}
    for each in (text, set_all(text)):
        assert problems(setup, each, tmp_path) == []
    assert {line for line in text.splitlines() if line.startswith("#[plugins.")} <= {
        f"#[plugins.{name}]" for name in names
    }  # fmt: skip


def test_every_setting_of_the_host_is_in_it():
    document = tomllib.loads(set_all(example(installed(ALL))))

    for path in KEYS:
        found = document
        for name in path.split("."):
            assert name in found, path
            found = found[name]


def test_every_option_of_our_plugins_says_what_it_is_for():
    lines = example(installed(ALL)).splitlines()

    bare = [line for before, line in pairwise(lines)
            if re.match(r"#[a-z_]+ = ", line) and not before.startswith("# ")]  # fmt: skip

    assert bare == []


THIRD_PARTY = """
import attrs
from pluggent_hookspecs import Secret, hookimpl

@attrs.frozen
class Inner:
    size: int = 3
    name: str | None = None

@attrs.frozen
class Settings:
    token: Secret
    \"\"\"From the page of your account.\x1b[2J\"\"\"
    inner: Inner = Inner()
    modes: tuple[str, ...] = ("a", "b")
    odd: object = attrs.field(factory=object)
    path: str | None = None

class Plugin:
    Settings = Settings
    def __init__(self, settings): pass
    @hookimpl
    def provide_tools(self, event):
        return []
"""


def test_a_plugin_of_others_is_in_it_with_what_its_class_says(cli):
    cli.plugin("acme-tool", THIRD_PARTY)
    cli.plugin("acme-gone", "import nowhere")
    cli.plugin("acme-hook", POLICY, "hooks")

    code, out, err = cli("config", "example")

    assert (code, err) == (0, "")
    section = out[out.index("#[plugins.acme-tool]") :].partition("# pluggent")[0].splitlines()
    assert [line for line in section if line] == [
        "#[plugins.acme-tool]",
        "# token: required. From the page of your account.\\x1b[2J",
        "#inner = { size = 3 }",
        '#modes = ["a", "b"]',
        "# odd: its default has no form in TOML.",
        "# path: not set.",
    ]
    assert "# acme-hook: not shown, because its hooks were not accepted yet: pluggent trust --plugin acme-hook\n" in out
    assert "# acme-gone: " in out


def test_the_document_holds_the_text(cli):
    assert cli.document("config", "example")["text"] == cli("config", "example").out


def test_a_file_made_from_it_runs(cli):
    (cli.work / "mine.toml").write_text(set_all(cli("config", "example").out))

    done = cli("config", "check", "--config", "mine.toml")

    assert (done.code, done.out.startswith("✗")) == (0, False), done.out
