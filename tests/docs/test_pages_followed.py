"""A new user who follows a page from its first line to its last: each command does what the page shows."""

from pathlib import Path

import pytest
from newcomer import Newcomer
from pages import blocks, pages

FOLLOWED = [
    page
    for page in pages()
    if (page.parts[0] in ("README.md", "host", "sample_plugins")) and any(b.language == "console" for b in blocks(page))
]


@pytest.mark.parametrize("page", FOLLOWED, ids=str)
def test_every_command_of_a_page_does_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    shown = Newcomer(tmp_path).follow(page)

    wrong = [f"$ {one.command}\n{one.output}exit code {one.code}\n" for one in shown if not one.is_as_shown]

    assert shown
    assert not wrong, "\n".join(wrong)
