"""How a section of the configuration becomes the settings of a plugin."""

import subprocess
import sys
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_distributions import CASE_HEADER, POLICY, importable, record_of
from pluggent_cli.config.sources import load_settings
from pluggent_hookspecs import ConfigError, Secret
from pluggent_plugin_loader.loader import load, new_manager


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    with importable(tmp_path):
        yield tmp_path


PLUGIN = """
class Plugin:
    Settings = Settings
    def __init__(self, settings):
        self.settings = settings
    @hookimpl
    def observe(self, event): ...
"""
SETTINGS = f"""{CASE_HEADER}
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Literal

class Action(StrEnum):
    DENY = "deny"

@attrs.frozen
class Rule:
    tool: str
    action: Action = Action.DENY
    times: int = 1

@attrs.frozen
class Settings:
    rules: tuple[Rule, ...] = ()
    mode: Literal["strict", "lax"] = "strict"
    enabled: bool = True
    timeout_s: float = 1.0
    limit: int | str | None = None
    words: list[str] = attrs.Factory(list)
    servers: Mapping[str, Rule] = attrs.Factory(dict)
    key: Secret | None = None
    name: str = attrs.field(default="x", validator=attrs.validators.min_len(1))
    file: Path | None = None
    folder: Path = Path("default")
{PLUGIN}"""
DATACLASS = f"""{CASE_HEADER}
import dataclasses

@dataclasses.dataclass(frozen=True)
class Settings:
    city: str = "Rome"
{PLUGIN}"""


def settings_of(site: Path, section: object = None, source: str = SETTINGS) -> Any:
    plugin: Any = load(record_of(site, source), new_manager(), section).plugin
    return plugin.settings


def test_a_section_is_structured_into_the_plugins_settings(site: Path) -> None:
    section = {
        "rules": [{"tool": "a", "action": "deny"}, {"tool": "b", "times": 2}],
        "mode": "lax",
        "enabled": False,
        "timeout_s": 2,
        "limit": "many",
        "words": ["x"],
        "servers": {"one": {"tool": "c"}},
        "key": "env:ACME_KEY",
        "file": "mine.json",
    }

    made = settings_of(site, types.MappingProxyType(section))

    assert [(rule.tool, rule.times) for rule in made.rules] == [("a", 1), ("b", 2)]
    assert (made.mode, made.enabled, made.timeout_s, made.limit) == ("lax", False, 2.0, "many")
    assert (made.words, made.servers["one"].tool, made.key) == (["x"], "c", Secret("env:ACME_KEY"))
    assert (made.file, made.folder) == (Path("mine.json"), Path("default")), "a path from code is left as it is"


@pytest.mark.parametrize("section", [None, {}])
def test_without_a_section_the_defaults_stand(site: Path, section: object) -> None:
    assert settings_of(site, section).mode == "strict"


def test_an_instance_or_a_dataclass_serves_as_settings(site: Path) -> None:
    record_of(site, SETTINGS)
    module: Any = __import__("acme_guard")
    mine = module.Settings(mode="lax")

    assert settings_of(site, mine) is mine
    del sys.modules["acme_guard"]
    assert settings_of(site, {"city": "Oslo"}, DATACLASS).city == "Oslo"


def test_every_problem_of_a_section_is_named_with_its_path(site: Path) -> None:
    section = {
        "rules": [{"tool": "a"}, {"tol": "b"}, {"tool": 3}, "text", {"tool": "c", "action": "dny"}],
        "mode": "loose",
        "enabled": "false",
        "timeout_s": "2",
        "limit": 2.5,
        "words": "abc",
        "servers": {"one": {"tool": "c", "times": True}},
        "key": "sk-very-secret",
        "name": "",
        "moode": 1,
    }

    with pytest.raises(ConfigError) as caught:
        settings_of(site, section)

    assert set(caught.value.problems) == {
        "plugins.acme-guard.rules[1].tool: is required",
        "plugins.acme-guard.rules[1].tol: unknown; did you mean 'tool'?",
        "plugins.acme-guard.rules[2].tool: expected text, got a whole number",
        "plugins.acme-guard.rules[3]: expected a table, got text",
        "plugins.acme-guard.rules[4].action: 'dny' is not a valid Action",
        "plugins.acme-guard.mode: expected one of 'strict', 'lax'",
        "plugins.acme-guard.enabled: expected true or false, got text",
        "plugins.acme-guard.timeout_s: expected a number, got text",
        "plugins.acme-guard.limit: expected int | str | None",
        "plugins.acme-guard.words: expected a list, got text",
        "plugins.acme-guard.servers.one.times: expected a whole number, got true or false",
        "plugins.acme-guard.key: a secret is given as env:NAME, file:PATH or keyring:SERVICE/USER, never as itself",
        "plugins.acme-guard.moode: unknown; did you mean 'mode'?",
    }
    assert "sk-very-secret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("source", "section", "says"),
    [
        (SETTINGS, {"name": ""}, r"plugins\.acme-guard: Length of 'name' must be >= 1"),
        (SETTINGS, "lax", "expected a table or Settings, got text"),
        (
            SETTINGS.replace("rules: tuple[Rule, ...] = ()", "city: str"),
            None,
            r"plugins\.acme-guard\.city: is required",
        ),
        (POLICY, {"mode": "lax"}, r"plugins\.acme-guard: this plugin takes no settings"),
    ],
    ids=["refused by the class", "of another type", "required without a section", "for a plugin without settings"],
)
def test_settings_that_the_plugin_cannot_take_are_an_error(site: Path, source: str, section: object, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load(record_of(site, source), new_manager(), section)


def test_cattrs_is_imported_only_for_settings(site: Path) -> None:
    record_of(site, SETTINGS)
    code = (
        "import sys\n"
        "from pluggent_plugin_loader.catalog import catalog\n"
        "from pluggent_plugin_loader.discovery import discover\n"
        "from pluggent_plugin_loader.loader import load, new_manager\n"
        "from pluggent_plugin_loader.settings import Selection\n"
        f"sys.path.insert(0, {str(site)!r})\n"
        "(record,) = catalog(discover(sys.path[:1]), Selection(), '0.1.0').records\n"
        "load(record, new_manager())\n"
        "print('cattrs' in sys.modules, 'asyncio' in sys.modules)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603

    assert done.stdout.split() == ["False", "False"]


def placed(site: Path, text: str) -> Any:
    """Return what the plugin gets of the settings *text*, which stand in the folder ``there``."""
    there = site / "there"
    there.mkdir(exist_ok=True)
    (there / "mine.toml").write_text(f"[plugins.acme-guard]\n{text}", encoding="utf-8")
    loaded = load_settings(config=there / "mine.toml", environ={"HOME": str(site / "home")}, cwd=site)
    return settings_of(site, loaded.settings.plugins["acme-guard"])


def test_a_relative_path_is_relative_to_the_file_that_it_stands_in(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(site / "home"))
    (site / "elsewhere").mkdir()
    monkeypatch.chdir(site / "elsewhere")

    relative = placed(site, 'file = "mine.json"\nfolder = "../logs"\nname = "mine.json"')
    whole = placed(site, f'file = "~/mine.json"\nfolder = "{site.as_posix()}/logs"')

    there = site / "there"
    assert (relative.file, relative.folder, relative.name) == (there / "mine.json", there / ".." / "logs", "mine.json")
    assert (whole.file, whole.folder) == (site / "home" / "mine.json", site / "logs")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("file = 5", "plugins.acme-guard.file: expected a path, got a whole number"),
        ('file = ""', "plugins.acme-guard.file: expected a path, got an empty text"),
        ('folder = "a\\u0000b"', "plugins.acme-guard.folder: a path has no null character"),
        ('key = "file:my.key"', "plugins.acme-guard.key: expected the whole path behind file:, or one from ~/ on"),
        ('folder = "~no-user-of-that-name/x"', "plugins.acme-guard.folder: whose home is '~no-user-of-that-name'?"),
    ],
)
def test_what_is_not_a_path_is_named(text: str, problem: str, site: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        placed(site, text)

    assert problem in str(caught.value)
