"""A new user who follows a page from its first line to its last: each command does what the page shows."""

from pathlib import Path

import pytest
from newcomer import Newcomer
from pages import blocks, commands, pages
from vendor_server import GOOD, HELLO, vendor

README = Path("README.md")
FOLLOWED = [
    page
    for page in pages()
    if page.parts[0] in ("README.md", "host", "sample_plugins") and any(b.language == "console" for b in blocks(page))
]
SETTINGS = """
model = "openai/chat-large"

[plugins.pluggent-openai]
base_url = "{url}"
api_key = "file:~/key"
"""
"""What setup writes; its own tests type into it."""


@pytest.mark.parametrize("page", FOLLOWED, ids=str)
def test_every_command_of_a_page_does_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    shown = Newcomer(tmp_path).follow(page)

    wrong = [f"$ {one.command}\n{one.output}exit code {one.code}\n" for one in shown if not one.is_as_shown]

    assert shown
    assert not wrong, "\n".join(wrong)


def test_the_first_minute_with_a_model_is_as_the_readme_says(tmp_path: Path) -> None:
    first = next(block for block in blocks(README) if block.text.startswith("pluggent setup"))
    newcomer = Newcomer(tmp_path)
    (newcomer.folder / "notes.txt").write_text("Buy milk\n", "utf-8")
    key, settings = newcomer.home / "key", newcomer.home / ".config" / "pluggent" / "pluggent.toml"
    key.write_text(GOOD, "utf-8")
    key.chmod(0o600)
    settings.parent.mkdir(parents=True)

    with vendor() as server:
        settings.write_text(SETTINGS.format(url=server.url), "utf-8")
        answers = [newcomer.output(command) for command in commands(first) if " run " in command]
        asked = len(server.requests)

    assert asked == len(answers) == 3
    assert all(HELLO.split("\x1b")[0] in answer for answer in answers), answers
