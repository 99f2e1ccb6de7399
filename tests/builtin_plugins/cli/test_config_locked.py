"""Settings of the whole system (policy 29): everybody after them may tighten, nobody may loosen."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pluggent_cli.config.keys import KEYS
from pluggent_cli.config.sources import Loaded, read_settings, sources, system_config
from pluggent_host.settings import Grants, HostSettings, Limits

DIGEST = f"sha256:{'a' * 64}"
OTHER = f"sha256:{'b' * 64}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def load(
    folder: Path, system: str, *, user: str = "", named: str = "", flags: Any = None, **environ: str
) -> tuple[Loaded, list[str]]:
    """Return what is in force with these files, and every problem."""
    for name, text in (("system.toml", system), ("config/pluggent/pluggent.toml", user), ("named.toml", named)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    loaded, errors = read_settings(
        config=folder / "named.toml", environ={"XDG_CONFIG_HOME": str(folder / "config"), **environ}, cwd=folder,
        flags=flags or {}, system=folder / "system.toml",
    )  # fmt: skip
    return loaded, [problem for error in errors for problem in error.problems]


def test_what_the_system_does_not_set_is_everybodys(folder: Path):
    loaded, problems = load(folder, "strict = true", user='model = "a/b"', flags={"limits.asks": 99})

    assert problems == []
    assert loaded.settings == HostSettings(model="a/b", strict=True, limits=Limits(asks=99))
    assert loaded.notes == ()


LOCKED = """
model = "acme/safe"
strict = true
on_ask = "pause"
order = ["x"]
stops_batch = ["deploy"]
[selection]
mode = "allow"
allow = ["pluggent-openai", "pluggent-audit", "pluggent-permissions"]
[grants]
may_allow = ["a", "b"]
optional = []
[limits]
tool_rounds = 5
[limits.per_tool]
send = { calls = 2 }
[timeouts]
hook_s = 3
[approvers]
ann = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
[required]
pluggent-audit = ["write_record"]
[effects]
"acme:tool/send" = ["messaging"]
[plugins.pluggent-permissions]
default = "deny"
"""


@pytest.mark.parametrize(
    ("key", "looser", "left"),
    [
        ("model", "b/c", "acme/safe"),
        ("strict", False, True),
        ("on_ask", "console", "pause"),
        ("order", ["y"], ("x",)),
        ("selection.mode", "all", "allow"),
        ("selection.allow", ["evil", "pluggent-audit"], ("pluggent-audit", "pluggent-permissions")),
        ("grants.may_allow", ["c", "b"], ("b",)),
        ("grants.optional", ["pluggent-audit"], ()),
        ("limits.tool_rounds", 9, 5),
        ("timeouts.hook_s", 60.0, 3.0),
        ("approvers", {"eve": OTHER}, {"ann": DIGEST}),
        ("approvers", {"ann": OTHER}, {"ann": DIGEST}),
        ("effects", {"acme:tool/send": []}, {"acme:tool/send": ("messaging",)}),
        ("plugins", {"pluggent-permissions": {"default": "allow"}}, {"pluggent-permissions": {"default": "deny"}}),
        ("selection.block", ["pluggent-permissions"], ()),
        ("selection.block", ["pluggent-audit==1.0"], ()),
    ],
)
def test_nothing_after_it_loosens_what_it_sets(folder: Path, key: str, looser: Any, left: Any):
    loaded, problems = load(folder, LOCKED, flags={key: looser})

    value: Any = loaded.settings
    for name in key.split("."):
        value = getattr(value, name)
    assert problems == []
    assert value == left
    (note,) = loaded.notes
    assert note.startswith(f"the command line: ignored, because {folder / 'system.toml'} fixes it: {key}")


@pytest.mark.parametrize(
    ("key", "tighter", "left"),
    [
        ("on_ask", "deny", "deny"),
        ("selection.mode", "safe", "safe"),
        ("selection.allow", ["pluggent-audit", "pluggent-permissions"], ("pluggent-audit", "pluggent-permissions")),
        ("selection.block", ["acme"], ("acme",)),
        ("grants.may_allow", [], ()),
        ("limits.tool_rounds", 2, 2),
        ("stops_batch", ["send"], ("deploy", "send")),
        ("effects", {"other": ["shell"]}, {"acme:tool/send": ("messaging",), "other": ("shell",)}),
        ("required", {"x": []}, {"pluggent-audit": ("write_record",), "pluggent-permissions": (), "x": ()}),
    ],
)
def test_everything_after_it_may_tighten_it(folder: Path, key: str, tighter: Any, left: Any):
    loaded, problems = load(folder, LOCKED, flags={key: tighter})

    value: Any = loaded.settings
    for name in key.split("."):
        value = getattr(value, name)
    assert (problems, value, loaded.notes) == ([], left, ())


def test_required_hooks_can_be_added_and_never_taken_out(folder: Path):
    loaded, _ = load(folder, LOCKED, flags={"required": {"pluggent-audit": ["observe"]}})

    assert loaded.settings.required["pluggent-audit"] == ("write_record", "observe")


def test_files_variables_and_flags_are_all_held(folder: Path):
    loaded, _ = load(
        folder, "strict = true", user="strict = false", named="strict = false", flags={"strict": "false"},
        PLUGGENT_STRICT="false",
    )  # fmt: skip

    assert loaded.settings.strict is True
    assert [note.partition(":")[0] for note in loaded.notes] == [
        str(folder / "config/pluggent/pluggent.toml"), str(folder / "named.toml"), "PLUGGENT_STRICT",
        "the command line",
    ]  # fmt: skip


def test_settings_can_be_kept_for_the_system_alone(folder: Path):
    system = 'lock = ["effects", "grants", "approvers"]'
    flags = {"effects": {"x": []}, "grants.may_allow": ["x"], "approvers": {"eve": OTHER}, "model": "a/b"}
    loaded, problems = load(folder, system, flags=flags)

    assert problems == []
    assert loaded.settings == HostSettings(model="a/b")
    assert loaded.settings.grants == Grants()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('lock = ["effect"]', "lock: 'effect' is not a setting; did you mean 'effects'?"),
        ('lock = "effects"', "lock: expected a list of names, got 'effects'"),
        ("stritc = true", "stritc: is not a known setting; did you mean 'strict'?"),
    ],
)
def test_what_is_wrong_in_it_is_said(folder: Path, text: str, said: str):
    assert load(folder, text)[1] == [said]


def test_nobody_else_may_lock(folder: Path):
    _, problems = load(folder, "", user='lock = ["effects"]')

    assert problems == ["lock: is not a known setting"]


def test_a_file_that_others_can_write_is_no_file_of_the_system(folder: Path):
    load(folder, "strict = true")
    (folder / "system.toml").chmod(0o666)
    _, errors = read_settings(environ={}, cwd=folder, system=folder / "system.toml")

    assert "can be written by others (mode 0666); have it looked at: chmod go-w" in str(errors[0])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_that_belongs_to_somebody_else_is_no_file_of_the_system(folder: Path):
    load(folder, "strict = true")
    os.chown(folder / "system.toml", 4711, -1)
    _, errors = read_settings(environ={}, cwd=folder, system=folder / "system.toml")

    assert "belongs to user 4711, not to root" in str(errors[0])


def test_its_place_is_fixed(folder: Path):
    environ = {"PLUGGENT_CONFIG": "/x", "XDG_CONFIG_HOME": "/y", "HOME": "/z", "PLUGGENT_SYSTEM": "/w"}

    assert sources(environ=environ, cwd=folder)[0].path == system_config()
    assert system_config().is_absolute()


ALIKE = {
    "strict": st.booleans(), "on_ask": st.sampled_from(["console", "pause", "deny"]),
    "limits.asks": st.integers(0, 9), "grants.may_allow": st.lists(st.sampled_from("abc"), unique=True),
    "stops_batch": st.lists(st.sampled_from("abc"), unique=True),
}  # fmt: skip
TIGHTNESS: dict[str, Any] = {
    "strict": int, "on_ask": ["console", "pause", "deny"].index, "limits.asks": lambda asks: -asks,
    "grants.may_allow": lambda names: -len(names), "stops_batch": len,
}  # fmt: skip


@given(st.sampled_from(sorted(ALIKE)), st.data())
def test_whatever_comes_after_it_is_at_least_as_tight(key: str, data: st.DataObject):
    first, *rest = data.draw(st.lists(ALIKE[key], min_size=2, max_size=4))
    made = KEYS[key].kind.make
    value = made(first)
    for each in rest:
        after = KEYS[key].held(value, made(each))
        assert TIGHTNESS[key](after) >= TIGHTNESS[key](value)
        value = after
