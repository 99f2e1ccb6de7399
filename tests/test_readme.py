"""What the README shows that no doctest runs: settings, and files that it names."""

import re
from pathlib import Path

from pluggent_cli.config.sources import load_settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def test_the_settings_shown_are_settings(tmp_path: Path) -> None:
    shown = next(block for block in re.findall(r"```toml\n(.*?)```", README, re.DOTALL) if block.startswith("model ="))
    file = tmp_path / "shown.toml"
    file.write_text(shown, "utf-8")

    settings = load_settings(config=file, environ={}, cwd=tmp_path).settings

    assert settings.model == "openai/gpt-5-mini"
    assert settings.selection.mode == "allow"
    assert settings.required == {"pluggent-guard": ("decide_tool_call",)}
    assert settings.plugins["pluggent-openai"] == {"api_key": "env:OPENAI_API_KEY"}


def test_the_files_named_are_there() -> None:
    linked = re.findall(r"\]\(([^)#:]+)\)", README)
    named = re.findall(r"`(test_[\w*]+\.py)`", README)  # of the table

    assert linked
    assert named
    assert [path for path in linked if not (ROOT / path).exists()] == []
    assert [path for path in named if not list((ROOT / "tests").rglob(path))] == []
