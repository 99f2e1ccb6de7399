"""Where settings come from: every key with its line, and what may be shown of it."""

import tomllib

from each_of import each_of
from hypothesis import given, strategies as st
from pluggent_cli.config.origins import Origin, lines_of
from pluggent_cli.config.report import WITHHELD, effective, is_reference
from pluggent_cli.config.sources import load_settings, read_settings, sources, system_config
from pluggent_host.settings import HostSettings
from pluggent_transcript.limits import ToolLimits

DOCUMENT = '''# settings
model = """
[limits]
asks = 1
"""

[limits]
asks = 2 # and no more
per_tool.search.calls = 1
[ plugins.acme ]
rules = [
  {a = 1},

  {b = 2},
]
[[plugins.acme.more]]
x = 1
[[plugins.acme.more]]
x = 2
[effects]
"acme:tool/a.b" = [
"spend"]
'''
LINES = {
    "model": 2, "limits": 7, "limits.asks": 8, "limits.per_tool.search.calls": 9, "plugins.acme": 10,
    "plugins.acme.rules": 11, "plugins.acme.more": 16, "plugins.acme.more.x": 17, "effects": 20,
    "effects.acme:tool/a.b": 21,
}  # fmt: skip


def test_every_key_and_table_has_the_line_where_it_begins():
    lines = lines_of(DOCUMENT)

    assert {key: lines[key] for key in LINES} == LINES
    assert lines_of(DOCUMENT.replace("\n", "\r\n")) == lines, "a file from another system"


def test_a_file_made_to_be_slow_is_not_read_to_its_end():
    assert lines_of("asks = 1\nx = [\n" + "'a',\n" * 100_000 + "]\nlate = 1\n") == {"asks": 1}


keys = st.text("abc", min_size=1, max_size=3)
values = st.sampled_from(["1", '"x"', "[\n1,\n]", "'''\ny\n'''", "{ z = 1 }"])


@given(st.lists(st.tuples(keys, values), unique_by=lambda pair: pair[0]), st.integers(0, 3))
def test_lines_are_right_whatever_stands_between(pairs, blank):
    text = "".join("# no\n" * blank + f"{key} = {value}\n" for key, value in pairs)
    tomllib.loads(text)
    lines, found = text.split("\n"), lines_of(text)

    assert [lines[found[key] - 1].partition(" =")[0] for key, _ in pairs] == [key for key, _ in pairs]


# ---- origins ----------------------------------------------------------------------------


def test_an_origin_reads_like_a_place():
    file = Origin("file", "a.toml", 3)

    assert str(file) == "a.toml, line 3"
    assert str(Origin("flag", "the command line", also=(file,))) == "a.toml, line 3 and the command line"


def test_settings_know_file_line_variable_and_flag(tmp_path):
    config = tmp_path / "mine.toml"
    config.write_text('model = "a/b"\n[limits]\nasks = 2\n[plugins.acme]\nregion = "eu"\n[selection]\nblock = ["x"]\n')

    environ = {"HOME": "/nonexistent", "PLUGGENT_LIMITS_ASKS": "3", "PLUGGENT_BLOCK": "y"}
    loaded = load_settings(config=config, environ=environ, flags={"selection.block": ["z"]}, cwd=tmp_path)

    blocked = (Origin("file", str(config), 7), Origin("variable", "PLUGGENT_BLOCK"))
    assert dict(loaded.origins) == {
        "model": Origin("file", str(config), 1),
        "limits.asks": Origin("variable", "PLUGGENT_LIMITS_ASKS"),
        "plugins.acme.region": Origin("file", str(config), 5),
        "selection.block": Origin("flag", "the command line", also=blocked),
    }


def test_what_is_right_counts_and_what_is_wrong_is_reported_for_every_source(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('model = "a/b"\nstrict = 1\nodd = 1\n')

    environ = {"HOME": "/nonexistent", "PLUGGENT_FSYNC": "x"}
    loaded, errors = read_settings(config=file, environ=environ, cwd=tmp_path)

    assert loaded.settings == HostSettings(model="a/b")
    assert [(error.path, len(error.problems)) for error in errors] == [(str(file), 2), ("PLUGGENT_FSYNC", 1)]


def test_the_files_that_count_are_named_without_reading_them(tmp_path):
    environ = {"HOME": str(tmp_path)}
    first = ((system_config(), "system"), (tmp_path / ".config" / "pluggent" / "pluggent.toml", "user"))

    assert sources(environ=environ, cwd=tmp_path) == (*first, (tmp_path / "pluggent.toml", "project"))
    assert sources(config=tmp_path / "x", environ=environ, cwd=tmp_path) == (*first, (tmp_path / "x", "named"))


# ---- what is shown ----------------------------------------------------------------------


def test_every_setting_is_shown_with_its_value_and_its_origin():
    region = Origin("file", "a.toml", 2)
    settings = HostSettings(
        plugins={"acme": {"region": "eu", "key": "env:ACME_KEY", "retries": 3, "deep": {"a": ["x", 1, True]}}, "b": {}},
        effects={"acme:tool/x": ("spend",)},
    )
    settings = settings._replace(limits=settings.limits._replace(wall_s=None, per_tool={"x": ToolLimits(calls=1)}))

    shown = {one.key: one for one in effective(settings, {"plugins.acme.region": region})}

    texts = {
        "plugins.acme.region": WITHHELD, "plugins.acme.key": '"env:ACME_KEY"', "plugins.acme.retries": "3",
        "plugins.acme.deep": f"{{a = [{WITHHELD}, 1, true]}}", "plugins.b": "{}",
        'effects."acme:tool/x"': '["spend"]', "limits.wall_s": '"none"', "limits.per_tool.x": "{calls = 1}",
    }  # fmt: skip
    assert {key: shown[key].text for key in texts} == texts
    assert (shown["plugins.acme.region"].origin, shown["limits.wall_s"].origin) == (region, None)
    assert [shown[f"plugins.acme.{name}"].withheld for name in ("region", "key", "deep")] == [True, False, True]


@each_of("text", ["s3cret", "sk-live-1", "https://u:p@host/x", "env:", "env:a b", "env:x-y", "", "file: x"])
def test_what_is_no_reference_is_a_secret(text):
    assert not is_reference(text)


secrets = st.text(max_size=9).map("s3cret".__add__)
json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | secrets,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(json)
def test_no_text_of_a_plugin_is_ever_shown(value):
    settings = HostSettings(plugins={"acme": {"x": value}})

    (shown,) = [one for one in effective(settings, {}) if one.key == "plugins.acme.x"]

    assert "s3cret" not in shown.text
    assert "s3cret" not in repr(shown.value)
