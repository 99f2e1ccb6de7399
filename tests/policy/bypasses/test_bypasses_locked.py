"""Attempts to loosen what the system's file of settings fixes, by other names and other ways (rules 28, 29 and 37)."""

import os
from pathlib import Path
from typing import Any

import pytest
from each_of import each_of
from hypothesis import given, strategies as st
from pluggent_cli.config.sources import Loaded, load_settings, read_settings
from pluggent_hookspecs import tool
from pluggent_hookspecs.errors import ConfigError
from pluggent_host.settings import HostSettings
from pluggent_testing.fakes import call
from pluggent_transcript.limits import Limits, ToolLimits
from policy_stage import said

SEND = "app:tools:tool/send"
GUARDED = """
[plugins.acme-guard]
rules = ["deny all"]
[required]
Acme_Audit = []
"""


def load(
    folder: Path, system: str | bytes, *, project: str = "", own: str = "", flags: Any = None, **environ: str
) -> Loaded:
    """Return what is in force after the system's file, the user's own, and a project's that is not trusted."""
    (folder / "system.toml").write_bytes(system if isinstance(system, bytes) else system.encode())
    (folder / "pluggent.toml").write_text(project)
    (folder / "none" / "pluggent").mkdir(parents=True, exist_ok=True)
    (folder / "none" / "pluggent" / "pluggent.toml").write_text(own)
    given = {"XDG_CONFIG_HOME": str(folder / "none"), **environ}
    return load_settings(environ=given, cwd=folder, flags=flags or {}, system=folder / "system.toml")


@each_of(
    "name", ["Acme_Guard", "acme.guard", "ACME-GUARD", "acme--guard", "acme-guard == 1.0", "acme- guard", "acme-audit",
             "Acme.Audit==2"],
)  # fmt: skip
def test_a_plugin_that_the_system_configures_is_not_left_out_however_it_is_written(tmp_path: Path, name: str):
    by_flag = load(tmp_path, GUARDED, flags={"selection.block": [name]})
    by_variable = load(tmp_path, GUARDED, PLUGGENT_BLOCK=name)

    assert (by_flag.settings.selection.block, by_variable.settings.selection.block) == ((), ())
    assert f"selection.block = {name}" in by_flag.notes[0]


def test_a_plugin_that_the_system_configures_stays_in_its_list_of_those_that_run(tmp_path: Path):
    system = '[selection]\nmode = "allow"\nallow = ["acme-guard", "acme-audit", "acme-tools"]\n' + GUARDED
    loaded = load(tmp_path, system, PLUGGENT_ALLOW="acme-tools,evil")

    assert loaded.settings.selection.allow == ("acme-guard", "acme-audit", "acme-tools")
    assert "selection.allow" in loaded.notes[0]


KEYS = ['"limits.asks" = 9', "limits.asks = 9", '[limits]\n"asks" = 9', '"limits" = {asks = 9}']


@each_of(
    ("system", "given"),
    [
        *(("[limits]\nasks = 1", {"own": key}) for key in KEYS),
        (b"\xef\xbb\xbf[limits]\r\nasks = 1\r\n", {"PLUGGENT_LIMITS_ASKS": "9"}),
        (b"[limits]\nasks = 1\n# \xc3\xa9", {"PLUGGENT_LIMITS_ASKS": "9"}),
    ],
)
def test_a_limit_is_held_however_its_key_and_the_file_are_written(tmp_path: Path, system: str | bytes, given: Any):
    assert load(tmp_path, system, **given).settings.limits.asks == 1


@each_of("text", [b"[limits]\rasks = 1\r", b"\xff\xfe[\x00", b"strict = maybe", b"\0", b"strict = 1", b"x" * 2_000_000])
def test_a_file_of_the_system_that_cannot_be_read_lets_nothing_begin(tmp_path: Path, text: bytes):
    with pytest.raises(ConfigError, match=r"system\.toml"):
        load(tmp_path, text)


@pytest.mark.parametrize("kind", ["link", "folder", "below a file", "pipe"])
def test_something_else_in_its_place_lets_nothing_begin(tmp_path: Path, kind: str):
    path = tmp_path / "etc" / "pluggent.toml"
    if kind == "below a file":
        path.parent.write_text("")
    else:
        path.parent.mkdir()
        makes = {"link": lambda: path.symlink_to(tmp_path / "not there"), "folder": path.mkdir}
        makes.get(kind, lambda: os.mkfifo(path))()

    with pytest.raises(ConfigError, match=r"etc/pluggent\.toml"):
        load_settings(environ={"HOME": str(tmp_path)}, cwd=tmp_path, system=path)


def test_a_link_of_the_system_that_leads_to_a_file_counts(tmp_path: Path):
    (tmp_path / "real.toml").write_text("strict = true")
    (tmp_path / "system.toml").symlink_to(tmp_path / "real.toml")

    assert load_settings(environ={"HOME": str(tmp_path)}, cwd=tmp_path, system=tmp_path / "system.toml").settings.strict


LOOSENING = """
model = "evil/x"
on_ask = "console"
strict = false
[selection]
block = ["acme-guard"]
mode = "safe"
any_version = true
[grants]
may_allow = ["evil"]
approvers = ["evil"]
optional = ["acme-guard"]
[limits]
asks = 1000
wall_s = "none"
[limits.per_tool]
send = { calls = 1000 }
[approvers]
eve = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
[required]
acme-guard = []
[effects]
"acme:tool/send" = []
[aliases]
send = "acme-evil"
[plugins.acme-guard]
rules = []
"""


def test_a_file_that_came_with_the_folder_loosens_nothing_even_where_the_system_says_nothing(tmp_path: Path):
    """Rule 28."""
    loaded = load(tmp_path, "[limits]\nwall_s = 9", project=LOOSENING)

    limits = Limits(wall_s=9.0, per_tool={"send": ToolLimits(calls=1000)})  # that tool had no limit before
    assert loaded.settings == HostSettings(limits=limits)


@pytest.mark.parametrize(("systems", "ours"), [("send", SEND), (SEND, "send")])
async def test_the_limit_of_a_tool_holds_under_both_of_its_names(tmp_path: Path, systems: str, ours: str):
    done: list[str] = []

    @tool(effects=())
    def send(to: str) -> None:
        """Send."""
        done.append(to)

    system, own = (f'[limits.per_tool]\n"{name}" = {{ calls = {n} }}' for name, n in ((systems, 1), (ours, 99)))
    settings = load(tmp_path, system, own=own).settings
    await said(call("send", to="ann"), call("send", to="bob"), "x", tools=[send], config=settings)

    assert done == ["ann"]


GIVEN: dict[str, Any] = {
    "limits.asks": st.integers(0, 9).map(str),
    "limits.wall_s": st.sampled_from(["none", "1", "5", "nan", "-1", "1e99"]),
    "selection.mode": st.sampled_from(["all", "allow", "safe", "ALL"]),
    "selection.any_version": st.sampled_from(["true", "1", "on"]),
    "on_ask": st.sampled_from(["console", "pause", "deny", ""]),
    "strict": st.sampled_from(["false", "0", "no", "off", ""]),
    "fsync": st.sampled_from(["off", "effects"]),
    "stream": st.sampled_from(["provisional", "held"]),
}  # fmt: skip
FIXED = """
on_ask = "pause"
strict = true
fsync = "effects"
stream = "held"
[selection]
mode = "allow"
any_version = false
[limits]
asks = 4
wall_s = 3
"""


@given(st.data(), st.lists(st.sampled_from(sorted(GIVEN))))
def test_no_text_of_a_variable_or_an_option_loosens(tmp_path_factory: Any, data: st.DataObject, keys: list[str]):
    folder: Path = tmp_path_factory.mktemp("any")
    (folder / "system.toml").write_text(FIXED)
    flags = {key: data.draw(GIVEN[key]) for key in keys}
    environ = {f"PLUGGENT_{key.removeprefix('selection.').replace('.', '_').upper()}": flags[key] for key in keys}
    given = {"HOME": str(folder), **environ}
    loaded, _ = read_settings(environ=given, flags=flags, cwd=folder, system=folder / "system.toml")
    got = loaded.settings

    assert (got.strict, got.fsync, got.stream, got.selection.any_version) == (True, "effects", "held", False)
    assert got.on_ask in ("pause", "deny")
    assert got.selection.mode in ("allow", "safe")
    assert got.limits.asks <= 4
    assert got.limits.wall_s in (1.0, 3.0)
