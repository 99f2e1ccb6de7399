"""What a registry shows of each distribution: licence, classifiers, keywords, URLs."""

from pathlib import Path
from typing import Any

import pytest
from trove_classifiers import classifiers
from workspace import members, pyproject

FOLDERS = [Path(), *(member.folder for member in members())]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
ALWAYS = {
    "Development Status :: 3 - Alpha",
    "Intended Audience :: Developers",
    "Operating System :: MacOS",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: Python :: 3 :: Only",
    *(f"Programming Language :: Python :: {version}" for version in PYTHONS),
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
    "Typing :: Typed",
}
MAX_DESCRIPTION = 120


def project(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = pyproject(folder)["project"]
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_a_distribution_says_what_a_registry_shows(folder: Path) -> None:
    shown = project(folder)

    assert shown["license"] == "Apache-2.0"
    assert shown["license-files"] == ["LICENSE"]
    assert shown["readme"] == "README.md"
    assert shown["description"].endswith(".")
    assert len(shown["description"]) <= MAX_DESCRIPTION
    assert shown["keywords"] == sorted({*shown["keywords"], "pluggent"})
    assert len(shown["keywords"]) > 1


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_the_classifiers_are_known_and_those_of_all(folder: Path) -> None:
    shown = project(folder)["classifiers"]

    assert shown == sorted(set(shown))
    assert set(shown) - classifiers == set()
    assert ALWAYS - set(shown) == set()


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_the_urls_lead_to_its_folder(folder: Path) -> None:
    home = project(Path())["urls"]["Source"]
    shown = project(folder)["urls"]

    assert shown == {
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
        "Documentation": f"{home}/tree/main/host/docs",
        "Issues": f"{home}/issues",
        "Source": f"{home}/tree/main/{folder.as_posix()}" if folder.parts else home,
    }
