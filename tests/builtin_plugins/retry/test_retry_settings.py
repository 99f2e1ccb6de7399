"""What can be set, from code and from a file."""

import math
import re
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pluggent_retry
import pytest
from pluggent_cli.config.sources import load_settings
from pluggent_hookspecs import ConfigError, ProviderErrorKind as Kind
from pluggent_plugin_loader.options import settings_for
from pluggent_retry.plugin import Retry
from pluggent_retry.settings import BreakerSettings, RetrySettings

README = (Path(str(pluggent_retry.__file__)).parents[1] / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": -1},
        {"attempts": True},
        {"attempts": 2.0},
        {"base_s": -0.1},
        {"cap_s": math.nan},
        {"cap_s": math.inf},
        {"budget_s": 86_401},
        {"retry_after_cap_s": True},
        {"repeat_shown": "yes"},
        {"fallback": "openai/gpt-5"},
        {"fallback": ("gpt-5",)},
        {"fallback": ("/gpt-5",)},
        {"fallback": ("openai/",)},
        {"fallback": ("openai/gpt 5",)},
        {"fallback": ("openai/gpt\x1b[2J",)},
        {"fallback": ("a/b", "a/b")},
        {"fallback": ("a/1", "a/2", "a/3", "a/4")},
        {"fallback_on": ("rate-limited",)},
        {"fallback_on": "timeout"},
    ],
    ids=str,
)
def test_a_setting_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(
        (ValueError, TypeError), match=re.escape(repr(next(iter(wrong.values())))) + "|models|twice|is not a "
    ):
        RetrySettings(**wrong)


def test_a_name_that_could_move_the_cursor_is_shown_escaped() -> None:
    with pytest.raises(ValueError, match=r"\\x1b") as caught:
        RetrySettings(fallback=("openai/\x1b[2J",))

    assert "\x1b" not in str(caught.value)


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'slow' is not a kind of failure; there are: authentication, rate_limited, "):
        BreakerSettings(kinds=("slow",))


def test_kinds_may_be_words_or_values() -> None:
    assert RetrySettings(fallback_on=("timeout",)) == RetrySettings(fallback_on=(Kind.TIMEOUT,))


def structured(section: dict[str, Any]) -> RetrySettings:
    """Return *section* of a file as the host reads it."""
    (settings,) = settings_for("pluggent-retry", Retry.Settings, section)
    assert isinstance(settings, RetrySettings)
    return settings


def test_a_file_can_set_everything() -> None:
    breaker = {"failures": 2, "window_s": 1, "open_s": 0.5, "kinds": ["timeout"]}
    section = {
        "attempts": 2,
        "base_s": 0.1,
        "cap_s": 2,
        "retry_after_cap_s": 5,
        "budget_s": 30,
        "repeat_shown": True,
        "fallback": ["local/qwen3"],
        "fallback_on": ["context_length"],
        "breaker": breaker,
    }

    settings = structured(section)

    assert settings == RetrySettings(
        attempts=2,
        base_s=0.1,
        cap_s=2,
        retry_after_cap_s=5,
        budget_s=30,
        repeat_shown=True,
        fallback=("local/qwen3",),
        fallback_on=(Kind.CONTEXT_LENGTH,),
        breaker=BreakerSettings(failures=2, window_s=1, open_s=0.5, kinds=(Kind.TIMEOUT,)),
    )


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"attempts": 0}, "plugins.pluggent-retry: attempts: expected a whole number from 1 on, got 0"),
        ({"attemps": 2}, "plugins.pluggent-retry.attemps: unknown; did you mean 'attempts'?"),
        ({"fallback": "openai/x"}, "plugins.pluggent-retry.fallback: expected a list, got text"),
        ({"breaker": {"open_s": -1}}, "open_s: expected seconds from 0 to 86,400, got -1"),
        ({"fallback_on": ["slow"]}, "'slow' is not a kind of failure; there are: "),
    ],
    ids=str,
)
def test_a_mistake_in_a_file_is_told_with_its_place(section: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        structured(section)

    assert told in str(caught.value)


def test_the_settings_in_the_readme_are_settings(tmp_path: Path) -> None:
    shown = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    file = tmp_path / "shown.toml"
    file.write_text("\n".join(shown), "utf-8")

    settings = load_settings(config=file, environ={}, cwd=tmp_path).settings

    assert structured(dict(settings.plugins["pluggent-retry"])).fallback[1] == "local/qwen3"


def test_the_readme_has_the_defaults_of_all_settings() -> None:
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.*?) \|", README, re.MULTILINE))
    settings, breaker = RetrySettings(), BreakerSettings()
    fields = {name: getattr(settings, name) for name in RetrySettings.__annotations__ if name != "breaker"}
    fields |= {f"breaker.{name}": getattr(breaker, name) for name in BreakerSettings.__annotations__}

    def written(value: Any) -> str:
        if isinstance(value, tuple):
            return ", ".join(f"`{one}`" for one in value) or "none"
        return str(value).lower() if isinstance(value, bool) else f"{value:g}"

    assert rows == {name: written(value) for name, value in fields.items()}


def test_the_entry_point_leads_to_the_plugin() -> None:
    (found,) = entry_points(group="pluggent.hooks", name="retry")

    assert found.load() is Retry
