"""Settings of the whole system (policy 29): every later source may tighten them, none may loosen them."""

import os
from pathlib import Path
from typing import Any

import pytest
from each_of import each_of
from hypothesis import given, strategies as st
from pluggent_cli.config.keys import KEYS
from pluggent_cli.config.sources import Loaded, read_settings, sources, system_config
from pluggent_host.settings import Grants, HostSettings
from pluggent_transcript.limits import Limits

DIGEST = f"sha256:{'a' * 64}"
OTHER = f"sha256:{'b' * 64}"
USER = "config/pluggent/pluggent.toml"


def load(
    folder: Path, system: str, *, user: str = "", named: str = "", flags: Any = None, **environ: str
) -> tuple[Loaded, list[str]]:
    """Return what is in force with these files, and every problem."""
    for name, text in (("system.toml", system), (USER, user), ("named.toml", named)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    loaded, errors = read_settings(
        config=folder / "named.toml", environ={"XDG_CONFIG_HOME": str(folder / "config"), **environ}, cwd=folder,
        flags=flags or {}, system=folder / "system.toml",
    )  # fmt: skip
    return loaded, [problem for error in errors for problem in error.problems]


def value_of(loaded: Loaded, key: str) -> Any:
    value: Any = loaded.settings
    for name in key.split("."):
        value = getattr(value, name)
    return value


def test_what_the_system_does_not_set_is_free(tmp_path):
    loaded, problems = load(tmp_path, "strict = true", user='model = "a/b"', flags={"limits.asks": 99})

    assert (problems, loaded.notes) == ([], ())
    assert loaded.settings == HostSettings(model="a/b", strict=True, limits=Limits(asks=99))


LOCKED = f"""
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
send = {{ calls = 2 }}
[timeouts]
hook_s = 3
[approvers]
ann = "{DIGEST}"
[required]
pluggent-audit = ["write_record"]
[effects]
"acme:tool/send" = ["messaging"]
[plugins.pluggent-permissions]
default = "deny"
"""


@each_of(
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
def test_nothing_after_it_loosens_what_it_sets(tmp_path, key, looser, left):
    loaded, problems = load(tmp_path, LOCKED, flags={key: looser})

    assert (problems, value_of(loaded, key)) == ([], left)
    (note,) = loaded.notes
    assert note.startswith(f"the command line: ignored, because {tmp_path / 'system.toml'} fixes it: {key}")


@each_of(
    ("key", "tighter", "left"),
    [
        ("on_ask", "deny", "deny"),
        ("selection.mode", "safe", "safe"),
        ("selection.allow", ["pluggent-audit", "pluggent-permissions"], ("pluggent-audit", "pluggent-permissions")),
        ("selection.block", ["acme"], ("acme",)),
        ("grants.may_allow", [], ()),
        ("grants.may_allow", ["!b"], ("a",)),
        ("grants.may_allow", ["a", "b"], ("a", "b")),
        ("limits.tool_rounds", 2, 2),
        ("stops_batch", ["send"], ("deploy", "send")),
        ("effects", {"other": ["shell"]}, {"acme:tool/send": ("messaging",), "other": ("shell",)}),
        ("required", {"x": []}, {"pluggent-audit": ("write_record",), "pluggent-permissions": (), "x": ()}),
        ("required", {"pluggent-audit": ["observe"]},
         {"pluggent-audit": ("write_record", "observe"), "pluggent-permissions": ()}),
    ],
)  # fmt: skip
def test_everything_after_it_may_tighten_it(tmp_path, key, tighter, left):
    loaded, problems = load(tmp_path, LOCKED, flags={key: tighter})

    assert (problems, value_of(loaded, key), loaded.notes) == ([], left, ())


def test_files_variables_and_flags_are_all_held(tmp_path):
    loose = "strict = false"
    loaded, _ = load(
        tmp_path, "strict = true", user=loose, named=loose, flags={"strict": "false"}, PLUGGENT_STRICT="false"
    )  # fmt: skip

    assert loaded.settings.strict is True
    held = [str(tmp_path / USER), str(tmp_path / "named.toml"), "PLUGGENT_STRICT", "the command line"]
    assert [note.partition(":")[0] for note in loaded.notes] == held


def test_settings_can_be_kept_for_the_system_alone(tmp_path):
    flags = {"effects": {"x": []}, "grants.may_allow": ["x"], "approvers": {"eve": OTHER}, "model": "a/b"}
    loaded, problems = load(tmp_path, 'lock = ["effects", "grants", "approvers"]', flags=flags)

    assert (problems, loaded.settings) == ([], HostSettings(model="a/b"))
    assert loaded.settings.grants == Grants()


@each_of(
    ("system", "user", "said"),
    [
        ('lock = ["effect"]', "", "line 1: lock: 'effect' is not a setting; did you mean 'effects'?"),
        ('lock = "effects"', "", "line 1: lock: expected a list of names, got 'effects'"),
        ("stritc = true", "", "line 1: stritc: is not a known setting; did you mean 'strict'?"),
        ("", 'lock = ["effects"]', "line 1: lock: is not a known setting"),
    ],
)
def test_what_is_wrong_in_it_is_said_and_no_other_file_may_lock(tmp_path, system, user, said):
    assert load(tmp_path, system, user=user)[1] == [said]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda path: path.chmod(0o664), "can be written by others (mode 0664); have it looked at: chmod go-w"),
        (lambda path: path.chmod(0o646), "can be written by others (mode 0646); have it looked at: chmod go-w"),
        pytest.param(
            lambda path: os.chown(path, 4711, -1), "belongs to user 4711, not to root",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away"),
        ),
    ],
    ids=["group", "others", "owner"],
)  # fmt: skip
def test_a_file_that_others_can_change_is_no_file_of_the_system(tmp_path, change, says):
    path = tmp_path / "system.toml"
    path.write_text("strict = true")
    change(path)
    _, errors = read_settings(environ={}, cwd=tmp_path, system=path)

    assert says in str(errors[0])


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_folder_in_which_others_can_remove_the_file_holds_no_settings_of_the_system(tmp_path, mode, there):
    folder = tmp_path / "etc"
    folder.mkdir()
    if there:
        (folder / "system.toml").write_text("strict = true")
    folder.chmod(mode)

    _, errors = read_settings(environ={}, cwd=tmp_path, system=folder / "system.toml")

    assert f"{folder}: others can put files there (mode {mode:04o})" in str(errors[0])


def test_its_place_is_fixed(tmp_path):
    environ = {"PLUGGENT_CONFIG": "/x", "XDG_CONFIG_HOME": "/y", "HOME": "/z", "PLUGGENT_SYSTEM": "/w"}

    assert sources(environ=environ, cwd=tmp_path)[0].path == system_config()
    assert system_config().is_absolute()


NAMES = st.lists(st.sampled_from("abc"), unique=True)
ALIKE: dict[str, tuple[st.SearchStrategy[Any], Any]] = {
    "strict": (st.booleans(), int),
    "on_ask": (st.sampled_from(["console", "pause", "deny"]), ["console", "pause", "deny"].index),
    "limits.asks": (st.integers(0, 9), lambda asks: -asks),
    "grants.may_allow": (NAMES, lambda names: -len(names)),
    "stops_batch": (NAMES, len),
}
"""Values of a setting, and how tight each is."""


@given(st.sampled_from(sorted(ALIKE)), st.data())
def test_whatever_comes_after_it_is_at_least_as_tight(key: str, data: st.DataObject):
    values, tightness = ALIKE[key]
    first, *rest = data.draw(st.lists(values, min_size=2, max_size=4))
    made = KEYS[key].kind.make
    value = made(first)
    for each in rest:
        after = KEYS[key].held(value, made(each))
        assert tightness(after) >= tightness(value)
        value = after
