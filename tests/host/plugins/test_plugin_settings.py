"""How a section of the configuration becomes the settings of a plugin."""

import subprocess
import sys
import traceback
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pluggy
import pytest
from fake_distributions import CASE_HEADER, POLICY, importable, record_of
from pluggent_cli.config.sources import load_settings
from pluggent_hookspecs import ConfigError, Secret
from pluggent_host.plugins.loader import load, new_manager


@pytest.fixture
def manager() -> pluggy.PluginManager:
    return new_manager()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    with importable(tmp_path):
        yield tmp_path


SETTINGS = (
    CASE_HEADER
    + """
from collections.abc import Mapping
from enum import StrEnum
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

class Plugin:
    Settings = Settings
    def __init__(self, settings):
        self.settings = settings
    @hookimpl
    def observe(self, event): ...
"""
)


def settings_of(site: Path, section: Mapping[str, Any] | object | None) -> Any:
    plugin: Any = load(record_of(site, SETTINGS), new_manager(), section).plugin
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
    }

    made = settings_of(site, types.MappingProxyType(section))

    assert [(rule.tool, rule.times) for rule in made.rules] == [("a", 1), ("b", 2)]
    assert (made.mode, made.enabled, made.timeout_s, made.limit) == ("lax", False, 2.0, "many")
    assert (made.words, made.servers["one"].tool, made.key) == (["x"], "c", Secret("env:ACME_KEY"))


@pytest.mark.parametrize("section", [None, {}])
def test_without_a_section_the_defaults_stand(site: Path, section: object) -> None:
    assert settings_of(site, section).mode == "strict"


def test_an_instance_of_the_settings_is_taken_as_it_is(site: Path) -> None:
    record = record_of(site, SETTINGS)
    module: Any = __import__("acme_guard")
    mine = module.Settings(mode="lax")

    plugin: Any = load(record, new_manager(), mine).plugin

    assert plugin.settings is mine


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
    assert "sk-very-secret" not in str(caught.value)


def test_what_the_settings_class_itself_refuses_is_named_too(site: Path) -> None:
    with pytest.raises(ConfigError, match=r"plugins\.acme-guard: Length of 'name' must be >= 1"):
        settings_of(site, {"name": ""})


def test_a_required_setting_is_missed_even_without_a_section(site: Path) -> None:
    source = SETTINGS.replace("rules: tuple[Rule, ...] = ()", "city: str")

    with pytest.raises(ConfigError, match=r"plugins\.acme-guard\.city: is required"):
        load(record_of(site, source), new_manager())


def test_settings_for_a_plugin_that_takes_none_are_an_error(site: Path) -> None:
    with pytest.raises(ConfigError, match=r"plugins\.acme-guard: this plugin takes no settings"):
        load(record_of(site, POLICY), new_manager(), {"mode": "lax"})


def test_settings_of_the_wrong_type_are_an_error(site: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a table or Settings, got text"):
        settings_of(site, "lax")


def test_dataclasses_serve_as_settings(site: Path, manager: pluggy.PluginManager) -> None:
    source = (
        CASE_HEADER
        + """
import dataclasses
class Plugin:
    @dataclasses.dataclass(frozen=True)
    class Settings:
        city: str = "Rome"
    def __init__(self, settings): self.settings = settings
    @hookimpl
    def observe(self, event): ...
"""
    )

    plugin: Any = load(record_of(site, source), manager, {"city": "Oslo"}).plugin

    assert plugin.settings.city == "Oslo"


def test_cattrs_is_imported_only_for_settings(site: Path) -> None:
    record_of(site, SETTINGS)
    code = (
        "import sys\n"
        "from pluggent_host.plugins.catalog import catalog\n"
        "from pluggent_host.plugins.discovery import discover\n"
        "from pluggent_host.plugins.loader import load, new_manager\n"
        "from pluggent_host.settings import Selection\n"
        f"sys.path.insert(0, {str(site)!r})\n"
        "(record,) = catalog(discover(sys.path[:1]), Selection(), '0.1.0').records\n"
        "load(record, new_manager())\n"
        "print('cattrs' in sys.modules, 'asyncio' in sys.modules)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603

    assert done.stdout.split() == ["False", "False"]


def test_no_traceback_of_wrong_settings_repeats_their_values(site: Path, manager: pluggy.PluginManager) -> None:
    literal = "sk-secret-0123456789"

    with pytest.raises(ConfigError) as caught:
        load(record_of(site, SETTINGS), manager, {"mode": literal})

    assert literal not in "".join(traceback.format_exception(caught.value))


PLACED = (
    CASE_HEADER
    + """
from pathlib import Path

@attrs.frozen
class Settings:
    file: Path | None = None
    folder: Path = Path("default")
    text: str = ""
    key: Secret | None = None

class Plugin:
    Settings = Settings
    def __init__(self, settings):
        self.settings = settings
    @hookimpl
    def observe(self, event): ...
"""
)


def placed(site: Path, text: str) -> Any:
    """Return what the plugin gets of the settings *text*, which stand in the folder ``there``."""
    there = site / "there"
    there.mkdir(exist_ok=True)
    (there / "mine.toml").write_text(f"[plugins.acme-guard]\n{text}", encoding="utf-8")
    loaded = load_settings(config=there / "mine.toml", environ={"HOME": str(site / "home")}, cwd=site)
    record = record_of(site, PLACED)
    plugin: Any = load(record, new_manager(), loaded.settings.plugins["acme-guard"]).plugin
    return plugin.settings


def test_a_relative_path_is_relative_to_the_file_that_it_stands_in(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(site / "home"))
    (site / "elsewhere").mkdir()
    monkeypatch.chdir(site / "elsewhere")
    settings = placed(site, 'file = "mine.json"\nfolder = "../logs"\ntext = "mine.json"')

    assert settings.file == site / "there" / "mine.json"
    assert settings.folder == site / "there" / ".." / "logs"
    assert settings.text == "mine.json"


def test_whole_paths_and_paths_of_a_home_stay_what_they_are(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(site / "home"))
    settings = placed(site, f'file = "~/mine.json"\nfolder = "{site.as_posix()}/logs"')

    assert (settings.file, settings.folder) == (site / "home" / "mine.json", site / "logs")


def test_a_path_from_code_is_left_as_it_is(site: Path) -> None:
    record = record_of(site, PLACED)

    made: Any = load(record, new_manager(), {"file": "mine.json"}).plugin
    assert (made.settings.file, made.settings.folder) == (Path("mine.json"), Path("default"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("file = 5", "plugins.acme-guard.file: expected a path, got a whole number"),
        ('file = ""', "plugins.acme-guard.file: expected a path, got an empty text"),
        ('folder = "a\\u0000b"', "plugins.acme-guard.folder: a path has no null character"),
        ('key = "file:my.key"', "plugins.acme-guard.key: expected the whole path behind file:, or one from ~/ on"),
        ('folder = "~nobody-of-that-name/x"', "plugins.acme-guard.folder: whose home is '~nobody-of-that-name'?"),
    ],
)
def test_what_is_no_path_is_named(text: str, problem: str, site: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        placed(site, text)

    assert problem in str(caught.value)
