"""Settings are read from files, variables and options: which wins, what is refused, and how it is named."""

import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from each_of import each_of
from hypothesis import given, strategies as st
from pluggent_cli.config.command_settings import CommandSettings
from pluggent_cli.config.keys import KEYS, sifted
from pluggent_cli.config.origins import Origin
from pluggent_cli.config.sources import Loaded, load_settings, state_dir, user_config
from pluggent_hookspecs import ConfigError
from pluggent_host.settings import Grants, HostSettings, Timeouts
from pluggent_plugin_loader.settings import Selection
from pluggent_transcript.limits import Limits


class Everything:
    """A store that accepts every file as it is."""

    def is_trusted(self, path: Path, content: bytes | None = None) -> bool:
        return content == path.read_bytes()


class Place:
    """A home and a working directory with real files."""

    def __init__(self, folder: Path) -> None:
        self.cwd = folder / "project"
        self.environ = {"HOME": str(folder / "home")}
        self.user = folder / "home" / ".config" / "pluggent" / "pluggent.toml"
        self.project = self.cwd / "pluggent.toml"
        self.cwd.mkdir()
        self.user.parent.mkdir(parents=True)

    def load(self, *, trusted: bool = False, config: Path | None = None, **flags: object) -> Loaded:
        dotted = {name.replace("__", "."): value for name, value in flags.items()}
        trust = Everything() if trusted else None
        return load_settings(config=config, environ=self.environ, flags=dotted, cwd=self.cwd, trust=trust)

    def refused(self, **flags: Any) -> tuple[str, tuple[str, ...]]:
        """Return which source is wrong, and all that is."""
        with pytest.raises(ConfigError) as caught:
            self.load(**flags)
        return caught.value.path, caught.value.problems


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def wheres(loaded: Loaded) -> dict[str, str]:
    return {path: origin.where for path, origin in loaded.origins.items()}


# ---- what counts ------------------------------------------------------------------------


def test_without_any_source_everything_has_its_default(place):
    assert place.load() == (HostSettings(), {}, (), CommandSettings())


@each_of(
    ("user", "named", "found"),
    [
        ('security = ["acme"]', "", ("pluggent-redact", "acme")),
        ('security = ["pluggent-redact", "acme"]', "", ("pluggent-redact", "acme")),
        ('security = ["!pluggent-redact", "acme"]', "", ("acme",)),
        ("security = []", "", ()),
        ("security = []", 'security = ["acme"]', ("acme",)),
        ('security = ["acme"]', 'security = ["other"]', ("pluggent-redact", "acme", "other")),
        ('security = ["acme"]', 'security = ["!acme"]', ("pluggent-redact",)),
        ('security = ["!pluggent-redact"]', 'security = ["pluggent-redact"]', ("pluggent-redact",)),
        ('security = ["!pluggent-redcat"]', "", ("pluggent-redact", "!pluggent-redcat")),
    ],
)
def test_a_list_of_grants_adds_to_the_first_party_plugins_and_to_earlier_lists(place, user, named, found):
    place.user.write_text(f"[grants]\n{user}\n")
    config = place.user.parent / "named.toml"
    config.write_text(f"[grants]\n{named}\n")
    settings, _, _ = place.load(config=config)[:3]

    grants = settings.grants.filled_in({"pluggent-redact": "security", "pluggent-retry": "retriers"})

    assert (grants.security, grants.retriers) == (found, ("pluggent-retry",))


def test_the_grants_of_two_files_add_up(place):
    place.user.write_text('[grants]\nmay_allow = ["a", "b"]\n')
    config = place.user.parent / "named.toml"
    config.write_text('[grants]\nmay_allow = ["!a", "c"]\n')
    settings, origins, _ = place.load(config=config)[:3]

    assert settings.grants.may_allow == ("b", "c")
    assert str(origins["grants.may_allow"]) == f"{place.user}, line 2 and {config}, line 2"


def test_a_file_can_say_everything(place):
    place.user.write_text("""
        model = "openai/gpt-5"
        system = "Be brief."
        strict = true
        on_ask = "console"
        stream = "provisional"
        fsync = "off"
        order = ["acme-audit"]
        [selection]
        mode = "allow"
        allow = ["acme-tools==1.2", "acme-tools==1.2"]
        block = ["evil"]
        any_version = true
        [grants]
        may_allow = ["acme-policy"]
        [limits]
        tool_rounds = 3
        wall_s = 60
        cost_usd = 0.5
        tokens = "none"
        [timeouts]
        hook_s = 1
        [required]
        acme-policy = ["decide_tool_call"]
        [aliases]
        search = "acme-tools:tool/search"
        [effects]
        "acme-tools:tool/search" = ["network_read"]
        [plugins.acme-tools]
        region = "eu"
        nested = { a = [1] }
    """)
    settings, origins, notes = place.load()[:3]

    assert settings == HostSettings(
        model="openai/gpt-5", system="Be brief.", strict=True, on_ask="console", stream="provisional", fsync="off",
        order=("acme-audit",), selection=Selection("allow", ("acme-tools==1.2",), ("evil",), True),
        grants=Grants(may_allow=("acme-policy",)), limits=Limits(tool_rounds=3, wall_s=60.0, cost_usd=0.5),
        timeouts=Timeouts(hook_s=1.0), required={"acme-policy": ("decide_tool_call",)},
        aliases={"search": "acme-tools:tool/search"}, effects={"acme-tools:tool/search": ("network_read",)},
        plugins={"acme-tools": {"region": "eu", "nested": {"a": [1]}}},
    )  # fmt: skip
    assert origins["limits.tool_rounds"].where == origins["plugins.acme-tools.region"].where == str(place.user)
    assert ("limits.asks" in origins, notes) == (False, ())


def test_what_is_the_commands_own_is_read_like_the_rest(place):
    place.user.write_text("""
        [models.aliases]
        fast = "openai/gpt-5-mini"
        "own model" = "ollama/llama/3"
        [templates]
        short = "In one sentence: $input"
        [templates.review]
        prompt = "Review for $who: $input costs $$5"
        system = "Be kind."
        defaults = { who = "me" }
    """)

    loaded = place.load()

    assert loaded.settings == HostSettings()
    assert loaded.command.models.aliases == {"fast": "openai/gpt-5-mini", "own model": "ollama/llama/3"}
    assert loaded.command.templates["short"] == {"prompt": "In one sentence: $input"}
    assert loaded.command.templates["review"]["defaults"] == {"who": "me"}
    assert loaded.origins["models.aliases.fast"].line == 3


def test_a_project_that_is_not_trusted_names_no_model_and_no_template(place):
    place.user.write_text('[models.aliases]\nfast = "openai/gpt-5-mini"\n')
    place.project.write_text(
        '[models.aliases]\nfast = "evil/x"\nnew = "evil/x"\n[templates]\nreview = "Obey: $input"\n'
    )

    before, trusted = place.load(), place.load(trusted=True)

    assert (before.command.models.aliases, before.command.templates) == ({"fast": "openai/gpt-5-mini"}, {})
    assert "ignored: models.aliases.fast, models.aliases.new, templates.review" in before.notes[0]
    assert trusted.command.models.aliases == {"fast": "evil/x", "new": "evil/x"}


@each_of(
    ("text", "problem"),
    [
        ('[models.aliases]\nfast = "gpt"', "models.aliases.fast: expected a model as provider/model, such as"),
        ('[models.aliases]\n"a/b" = "a/c"', "models.aliases: expected a table of models by a name without a slash"),
        ("[models]\nalias = {}", "models.alias: is not a known setting; did you mean 'aliases'?"),
        ('[templates]\nx = "costs $5"', "templates.x: expected a prompt, or a table of prompt, system"),
        ('[templates.x]\nsystem = "Be kind."', "templates.x: expected a prompt"),
        ('[templates.x]\nprompt = "hi"\nmodle = "a/b"', "templates.x: expected a prompt"),
        ('[templates.x]\nprompt = "hi"\ndefaults = { a = 1 }', "templates.x: expected a prompt"),
    ],
)
def test_a_wrong_alias_or_template_is_named(place, text, problem):
    place.user.write_text(text)

    where, problems = place.refused()

    assert (where, [each for each in problems if problem in each] != []) == (str(place.user), True), problems


def test_later_sources_win_and_say_where_they_are(place):
    place.user.write_text('model = "user"\nsystem = "user"\nstrict = true\n[limits]\nasks = 1\n')
    place.project.write_text('model = "project"\nsystem = "project"\n[limits]\nasks = 2\n')
    place.environ |= {"PLUGGENT_MODEL": "environment", "PLUGGENT_LIMITS_ASKS": "3"}
    loaded = place.load(trusted=True, model="flag")

    assert loaded.settings == HostSettings(model="flag", system="project", strict=True, limits=Limits(asks=3))
    assert wheres(loaded) == {
        "model": "the command line", "system": str(place.project), "strict": str(place.user),
        "limits.asks": "PLUGGENT_LIMITS_ASKS",
    }  # fmt: skip


def test_blocked_plugins_add_up_and_tables_are_merged_by_entry(place):
    place.user.write_text('[selection]\nblock = ["a"]\n[aliases]\nx = "1"\ny = "1"\n[plugins.p]\nu = 1\nv = 1\n')
    place.project.write_text('[selection]\nblock = ["b"]\n[aliases]\ny = "2"\n[plugins.p]\nv = 2\n[plugins.q]\n')
    place.environ["PLUGGENT_BLOCK"] = "c, a"
    loaded = place.load(trusted=True, selection__block=("d",))

    assert loaded.settings.selection.block == ("a", "b", "c", "d")
    assert loaded.settings.aliases == {"x": "1", "y": "2"}
    assert loaded.settings.plugins == {"p": {"u": 1, "v": 2}, "q": {}}
    assert [wheres(loaded)[f"plugins.p.{key}"] for key in "uv"] == [str(place.user), str(place.project)]


def test_an_untrusted_file_can_tighten(place):
    place.user.write_text('on_ask = "console"\n[selection]\nblock = ["a"]\n[limits]\ntokens = 10\n')
    place.project.write_text('strict = true\non_ask = "deny"\n[limits]\nasks = 1\ntokens = 5\nwall_s = 60\n')
    loaded = place.load()

    assert (loaded.settings.strict, loaded.settings.on_ask) == (True, "deny")
    assert loaded.settings.limits == Limits(asks=1, tokens=5, wall_s=60.0)
    assert (wheres(loaded)["limits.asks"], loaded.notes) == (str(place.project), ())


def test_an_untrusted_file_has_no_say_in_which_plugins_run(place):  # fewer plugins may be fewer policies
    place.project.write_text('[selection]\nmode = "safe"\nblock = ["a-policy"]\n')
    settings, _, notes = place.load()[:3]

    assert (settings, "selection.mode, selection.block" in notes[0]) == (HostSettings(), True)


def test_an_untrusted_file_can_loosen_nothing_and_what_was_ignored_is_named(place):
    place.user.write_text('strict = true\n[selection]\nmode = "safe"\nblock = ["a"]\n[limits]\nasks = 1\nwall_s = 60\n')
    before = place.load()
    place.project.write_text("""
        model = "evil/model"
        strict = false
        stream = "provisional"
        order = ["evil"]
        [selection]
        mode = "allow"
        allow = ["evil"]
        any_version = true
        [grants]
        may_allow = ["evil"]
        [limits]
        asks = 100
        wall_s = "none"
        [timeouts]
        hook_s = 1000
        [aliases]
        search = "evil:tool/search"
        [plugins.evil]
        command = ["sh"]
    """)
    loaded = place.load()

    assert loaded[:2] == before[:2]
    (note,) = loaded.notes
    assert note == (
        f"{place.project} is not trusted, so it may only tighten; ignored: model, strict, stream, order,"
        " selection.mode, selection.allow, selection.any_version, grants.may_allow, limits.asks, limits.wall_s,"
        " timeouts.hook_s, aliases.search, plugins.evil.command."
        f" Read it, then accept it: pluggent trust {place.project}"
    )


def test_naming_a_file_is_consent_and_replaces_the_one_in_the_working_directory(place, tmp_path):
    place.project.write_text('system = "project"\n')
    named = tmp_path / "named.toml"
    named.write_text('model = "named"\n')
    loaded = place.load(config=named)

    assert (loaded.settings, wheres(loaded), loaded.notes) == (HostSettings(model="named"), {"model": str(named)}, ())
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read: No such file"):
        place.load(config=tmp_path / "nowhere.toml")


@each_of(
    ("variable", "text", "path", "value"),
    [
        ("PLUGGENT_MODEL", "a/b", "model", "a/b"),
        ("PLUGGENT_SYSTEM", "Hi.", "system", "Hi."),
        ("PLUGGENT_STRICT", "Yes", "strict", True),
        ("PLUGGENT_STRICT", "0", "strict", False),
        ("PLUGGENT_ON_ASK", "console", "on_ask", "console"),
        ("PLUGGENT_MODE", "safe", "selection.mode", "safe"),
        ("PLUGGENT_ALLOW", "a==1, b", "selection.allow", ("a==1", "b")),
        ("PLUGGENT_BLOCK", "a", "selection.block", ("a",)),
        ("PLUGGENT_LIMITS_TOOL_ROUNDS", "7", "limits.tool_rounds", 7),
        ("PLUGGENT_LIMITS_WALL_S", "1.5", "limits.wall_s", 1.5),
        ("PLUGGENT_LIMITS_WALL_S", "none", "limits.wall_s", None),
        ("PLUGGENT_TIMEOUTS_HOOK_S", "2", "timeouts.hook_s", 2.0),
    ],
)
def test_variables_set_what_can_be_said_in_a_word(place, variable, text, path, value):
    place.environ = {"HOME": "/nonexistent", variable: text}
    settings, origins, _ = place.load()[:3]
    for name in path.split("."):
        settings = getattr(settings, name)

    assert (settings, origins) == (value, {path: Origin("variable", variable)})


def test_grants_and_plugins_have_no_variables_and_what_was_probably_misspelt_is_mentioned(place):
    place.environ |= {"PLUGGENT_GRANTS_MAY_ALLOW": "evil", "PLUGGENT_PLUGINS": "x", "PLUGGENT_STRICT": ""}
    place.environ |= {"PLUGGENT_LIMITS_ASK": "x", "PLUGGENT_ZZ": "x", "PLUGGENT_STATE_DIR": "/x"}
    settings, _, notes = place.load()[:3]

    assert settings == HostSettings()
    misspelt = "PLUGGENT_LIMITS_ASK is set, but no such variable is known; did you mean 'PLUGGENT_LIMITS_ASKS'?"
    assert notes == (misspelt,)


def test_flags_are_read_as_text_or_as_values(place):
    settings = place.load(limits__asks="3", limits__wall_s=9, selection__allow=("a",), strict=True).settings

    assert settings.limits == Limits(asks=3, wall_s=9.0)
    assert (settings.selection.allow, settings.strict) == (("a",), True)


# ---- what is refused --------------------------------------------------------------------


@each_of(
    ("variable", "text", "problem"),
    [
        ("PLUGGENT_STRICT", "maybe", "strict: expected true or false, got 'maybe'"),
        ("PLUGGENT_LIMITS_ASKS", "-1", "limits.asks: expected a whole number of at least 0, got -1"),
        ("PLUGGENT_LIMITS_ASKS", "many", "limits.asks: expected a whole number of at least 0, got 'many'"),
        ("PLUGGENT_TIMEOUTS_HOOK_S", "inf", "timeouts.hook_s: expected a number of seconds above 0, got inf"),
        ("PLUGGENT_MODE", "some", "selection.mode: expected one of all, allow, safe, got 'some'"),
    ],
)
def test_a_wrong_variable_is_named(place, variable, text, problem):
    place.environ = {variable: text}

    assert place.refused() == (variable, (problem,))


def test_all_problems_of_a_source_are_reported_at_once(place):
    assert place.refused(modle="x", limits__asks="x") == (
        "the command line",
        (
            "modle: is not a known setting; did you mean 'model'?",
            "limits.asks: expected a whole number of at least 0, got 'x'",
        ),
    )
    place.user.write_text("""
        modell = "x"
        strict = "yes"
        order = "acme"
        limits = 5
        grants = { may_alow = ["x"], may_allow = [1] }
        [timeouts]
        hook_s = true
        open_s = 0
        close_s = nan
        [required]
        acme = "decide_tool_call"
        [aliases]
        x = 1
        [plugins]
        acme = 5
        [selections]
    """)
    assert place.refused() == (
        str(place.user),
        (
            "line 2: modell: is not a known setting; did you mean 'model'?",
            "line 3: strict: expected true or false, got 'yes'",
            "line 4: order: expected a list of names, got 'acme'",
            "line 5: limits: expected a table, [limits]",
            "line 6: grants.may_alow: is not a known setting; did you mean 'may_allow'?",
            "line 6: grants.may_allow: expected a list of names, got a list",
            "line 8: timeouts.hook_s: expected a number of seconds above 0, got true",
            "line 9: timeouts.open_s: expected a number of seconds above 0, got 0",
            "line 10: timeouts.close_s: expected a number of seconds above 0, got nan",
            "line 12: required.acme: expected a list of names, got 'decide_tool_call'",
            "line 14: aliases.x: expected text, got 1",
            "line 16: plugins.acme: expected a table, got 5",
            "line 17: selections: is not a known setting; did you mean 'selection'?",
        ),
    )


@each_of(
    ("content", "problem"),
    [
        (b'model = "x"\nstrict = yes\n', "line 2, column 10: Invalid value"),
        (b"\xff\xfe", r"is not UTF-8 text \(byte 0\)"),
        (b"x" * 1_048_577, "is longer than 1048576 bytes"),
        (b"a=" + b"[" * 100_000, "is not usable TOML|line|somewhere"),
        (b"a=" + b"9" * 5000, "is not usable TOML|known setting"),
    ],
    ids=["invalid", "bytes", "long", "deep", "big"],
)
def test_what_is_no_settings_file_is_refused(place, content, problem):
    place.user.write_bytes(content)

    with pytest.raises(ConfigError, match=problem):
        place.load()


def test_a_folder_or_a_pipe_in_place_of_a_file_is_refused(place):
    place.project.mkdir()
    with pytest.raises(ConfigError, match=r"is not a regular file|Is a directory"):
        place.load()
    place.project.rmdir()
    os.mkfifo(place.project)
    with pytest.raises(ConfigError, match="is not a regular file"):
        place.load()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_refused(place):
    place.user.write_text("")
    place.user.chmod(0)

    with pytest.raises(ConfigError, match="cannot be read: Permission denied"):
        place.load()


@given(st.binary(max_size=200) | st.text(alphabet='[]{}"=.\n abc123#', max_size=100).map(str.encode))
def test_any_file_is_settings_or_a_config_error(tmp_path_factory, content):
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_bytes(content)
    try:
        loaded = load_settings(config=file, environ={"HOME": "/nonexistent"}, cwd=file.parent)
    except ConfigError as error:
        loaded = error.problems

    assert loaded


# ---- keys and folders -------------------------------------------------------------------


def test_every_setting_has_a_key_and_every_key_a_setting():
    paths = set()
    for name, value in {**HostSettings()._asdict(), **CommandSettings()._asdict()}.items():
        paths |= {f"{name}.{inner}" for inner in value._asdict()} if hasattr(value, "_asdict") else {name}

    assert set(KEYS) == paths


def test_what_fits_is_made_what_settings_hold():
    values = [("order", ["a", "b", "a"]), ("limits.wall_s", "none"), ("timeouts.hook_s", 2)]

    assert sifted(values) == ({"order": ("a", "b"), "limits.wall_s": None, "timeouts.hook_s": 2.0}, [])


@each_of(
    ("path", "value", "problem"),
    [
        ("limits.asks", 10**30, "expected a whole number of at least 0, got a huge number"),
        ("limits.asks", True, "expected a whole number of at least 0, got true"),
        ("strict", "x" * 100, f"expected true or false, got '{'x' * 60}…'"),
        ("order", ["a", ""], "expected a list of names, got a list"),
        ("limits", 5, "expected a table, [limits]"),
        ("limits.ask", 5, "is not a known setting; did you mean 'asks'?"),
    ],
)
def test_what_does_not_fit_is_named_with_what_was_expected(path, value, problem):
    assert sifted([(path, value), ("aliases", {"a": "b"})]) == ({"aliases": {"a": "b"}}, [f"{path}: {problem}"])


def test_what_stands_where_a_plugins_settings_belong_is_not_repeated():  # it may be a secret
    assert sifted([("plugins", {"acme": "s3cret"})]) == ({}, ["plugins.acme: expected a table, got text"])


def test_folders_follow_the_environment(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    home = {"HOME": "/h"}

    assert user_config(home) == Path("/h/.config/pluggent/pluggent.toml")
    assert user_config(home | {"XDG_CONFIG_HOME": "/c"}) == Path("/c/pluggent/pluggent.toml")
    assert user_config(home | {"XDG_CONFIG_HOME": "relative"}) == Path("/h/.config/pluggent/pluggent.toml")
    assert state_dir(home) == Path("/h/.local/state/pluggent")
    assert state_dir(home | {"XDG_STATE_HOME": "/s"}) == Path("/s/pluggent")
    assert state_dir(home | {"PLUGGENT_STATE_DIR": "/p"}) == Path("/p")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert state_dir(home) == Path("/h/Library/Application Support/pluggent")


@pytest.mark.parametrize("home", ["", ".", "home", "~"])
def test_a_home_that_is_no_absolute_path_is_the_one_that_the_system_knows(home, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    known = Path(pwd.getpwuid(os.getuid()).pw_dir)

    assert user_config({"HOME": home}) == known / ".config/pluggent/pluggent.toml"
    assert state_dir({"HOME": home}) == known / ".local/state/pluggent"


def test_without_any_home_the_variable_is_named(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999)

    with pytest.raises(ConfigError, match="HOME: expected an absolute path, got '', and the system knows no home"):
        user_config({})


@pytest.mark.parametrize("folder", [".", "state", "~/state", "./state/../x"])
def test_what_is_trusted_is_not_kept_relative_to_a_working_directory(folder):
    with pytest.raises(ConfigError, match="PLUGGENT_STATE_DIR: expected an absolute path"):
        state_dir({"HOME": "/h", "PLUGGENT_STATE_DIR": folder})


def test_reading_settings_imports_no_third_party_package():
    program = """
import sys
from pathlib import Path
from typing import Any
from pluggent_cli.config.sources import load_settings
load_settings(environ={"HOME": "/nonexistent"}, cwd=Path("/nonexistent"))
print(sorted({"attrs", "attr", "pluggy", "msgspec", "cattrs", "difflib", "asyncio"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)  # noqa: S603

    assert done.stdout == "[]\n"
