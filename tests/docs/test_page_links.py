"""Links in Markdown files lead to files and headings of this checkout."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from pages import anchors, links, pages, text_of
from workspace import ROOT, files

SVG = "{http://www.w3.org/2000/svg}"
ELSEWHERE = re.compile(r"[a-z]+:")


@pytest.mark.parametrize("page", pages(), ids=str)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = [target for target in links(page) if not ELSEWHERE.match(target) and not leads_somewhere(page, target)]

    assert broken == []


def leads_somewhere(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = ((ROOT / page).parent / path).resolve() if path else ROOT / page
    if not file.exists() or not file.is_relative_to(ROOT):
        return False
    return not anchor or anchor in anchors(file.relative_to(ROOT))


@pytest.mark.parametrize("picture", [file for file in files() if file.suffix == ".svg"], ids=str)
def test_a_picture_says_what_it_shows_and_brings_no_background(picture: Path) -> None:
    """So that it can be read aloud, and on light and dark pages."""
    root = ET.parse(ROOT / picture).getroot()  # noqa: S314 (our own file)

    assert all(len(root.findtext(f"{SVG}{name}", "")) > len(name) for name in ("title", "desc"))
    assert [box.get("width") for box in root.iter(f"{SVG}rect") if box.get("width") == root.get("width")] == []


def test_the_readme_leads_to_every_page() -> None:
    led = {target.partition("#")[0] for target in links(Path("README.md"))}

    assert {str(page) for page in pages() if page.parent == Path("host/docs")} <= led


def test_the_readme_is_short() -> None:
    assert len(text_of(Path("README.md")).splitlines()) <= 150


def test_the_tests_that_the_security_page_names_are_there() -> None:
    named = re.findall(r"`(test_[\w*]+\.py)`", text_of(Path("host/docs/security.md")))

    assert named
    assert [name for name in named if not list((ROOT / "tests").rglob(name))] == []
