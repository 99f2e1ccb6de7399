"""Blocks of code in Markdown files: Python runs, settings load, projects install, JSON parses."""

import json
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from newcomer import Newcomer
from packaging.requirements import Requirement
from pages import Block, blocks, pages
from pluggent_budget.prices import read_price_file
from pluggent_cli.config.sources import load_settings
from pluggent_hookspecs.errors import PluggentError
from pluggent_host import HostSettings
from pluggent_host.inspection import look_around
from pluggent_models.sources import read_models
from pluggent_plugin_loader.entry_points import GROUPS, MODEL_NAMES
from pluggent_plugin_loader.loader import check_settings

ALL = [block for page in pages() for block in blocks(page)]
LANGUAGES = {"python", "toml", "json", "sh", "console", "text", "md"}
PRICES = "prices.toml"
"""What pages call a price list of pluggent-budget."""
MODELS = "own.toml"
"""What pages call a list of models of pluggent-models."""


def of(*languages: str) -> list[Block]:
    return [block for block in ALL if block.language in languages]


def place(block: Block) -> str:
    return block.place


def is_project(block: Block) -> bool:
    return block.language == "toml" and "[project]" in block.text


def is_part_of_project(block: Block) -> bool:
    return block.language == "toml" and "[project." in block.text and not is_project(block)


def is_settings(block: Block) -> bool:
    return block.language == "toml" and "[project" not in block.text and block.path not in (PRICES, MODELS)


def test_every_block_says_what_it_is() -> None:
    assert [block.place for block in ALL if block.language not in LANGUAGES] == []


@pytest.mark.parametrize("page", sorted({block.file for block in of("python")}), ids=str)
def test_the_python_of_a_page_runs_from_top_to_bottom(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples with a prompt are doctests; a file that the page shows is run with the page."""
    names: dict[str, Any] = {"__name__": "page"}

    for block in blocks(page):
        if block.language == "python" and ">>>" not in block.text and not block.path:
            exec(compile(block.text, block.place, "exec", dont_inherit=True), names)  # noqa: S102 (our own pages)


@pytest.mark.parametrize("block", [block for block in of("python") if block.path], ids=place)
def test_a_python_file_that_a_page_shows_parses(block: Block) -> None:
    compile(block.text, block.place, "exec", dont_inherit=True)


MADE_UP = {tomllib.loads(block.text)["project"]["name"] for block in of("toml") if is_project(block)}


@pytest.mark.parametrize("block", [b for b in of("toml") if is_settings(b)], ids=place)
def test_settings_are_settings(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "shown.toml"
    file.write_text(block.text, "utf-8")

    settings = load_settings(config=file, environ={"HOME": str(tmp_path)}, cwd=tmp_path).settings

    assert [*wrong_sections(settings)] == []


def wrong_sections(settings: HostSettings) -> Iterator[str]:
    """Yield what the plugins say of their sections."""
    catalog = look_around(HostSettings(), installed=True, acknowledged=None)
    for plugin, section in settings.plugins.items():
        records = [record for record in catalog.records if record.id == plugin]
        if not records and plugin not in MADE_UP and not plugin.startswith("acme-"):
            yield f"{plugin} is not installed"
        for record in records:
            try:
                check_settings(record, section)
            except PluggentError as error:
                yield str(error)


@pytest.mark.parametrize("block", [b for b in of("toml") if is_project(b)], ids=place)
def test_a_project_is_a_whole_one_that_its_page_installs(block: Block) -> None:
    """Its files stand on the page below it, and a command of the page installs it."""
    project = tomllib.loads(block.text)
    folder = Path(block.path).parent
    typed = "".join(other.text for other in blocks(block.file) if other.language == "console")

    assert block.path.endswith("pyproject.toml")
    assert project["build-system"]["build-backend"] == "hatchling.build"
    assert [
        line for line in project["project"]["dependencies"] if Requirement(line).name.startswith("pluggent-host")
    ] == []
    assert f"pip install ./{folder}\n" in typed or f"pip install -e ./{folder}\n" in typed


@pytest.mark.parametrize("block", [b for b in of("toml") if is_part_of_project(b)], ids=place)
def test_a_part_of_a_project_announces_in_groups_that_there_are(block: Block) -> None:
    part = tomllib.loads(block.text)["project"]

    assert part.keys() == {"entry-points"}
    assert part["entry-points"].keys() <= {*GROUPS, MODEL_NAMES}


@pytest.mark.parametrize("block", [b for b in of("toml") if b.path == PRICES], ids=place)
def test_a_list_of_prices_is_one(block: Block, tmp_path: Path) -> None:
    file = tmp_path / PRICES
    file.write_text(block.text, "utf-8")

    assert read_price_file(file)


@pytest.mark.parametrize("block", [b for b in of("toml") if b.path == MODELS], ids=place)
def test_a_list_of_models_is_one(block: Block) -> None:
    assert read_models(block.text.encode(), block.place, "2026-11-20")


@pytest.mark.parametrize("block", of("json"), ids=place)
def test_json_parses(block: Block) -> None:
    json.loads(block.text)


def test_the_environment_of_a_page_finds_the_plugins_of_the_tests(tmp_path: Path) -> None:
    """So that what a page shows is what a user sees who has installed all of them."""
    newcomer = Newcomer(tmp_path)

    assert newcomer.output("pluggent plugins --json").count('"pluggent-weather"')
    assert entry_points(group="pluggent.tools", name="weather")
