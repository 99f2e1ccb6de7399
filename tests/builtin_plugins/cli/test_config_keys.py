import pytest
from pluggent_cli.config.keys import KEYS, sifted
from pluggent_host.settings import HostSettings


def test_every_setting_has_a_key_and_every_key_a_setting():
    settings = HostSettings()
    paths = set()
    for name, value in settings._asdict().items():
        paths |= {f"{name}.{inner}" for inner in value._asdict()} if hasattr(value, "_asdict") else {name}

    assert set(KEYS) == paths


def test_what_fits_is_made_what_settings_hold():
    values = [("order", ["a", "b", "a"]), ("limits.wall_s", "none"), ("timeouts.hook_s", 2)]

    assert sifted(values) == ({"order": ("a", "b"), "limits.wall_s": None, "timeouts.hook_s": 2.0}, [])


@pytest.mark.parametrize(
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
    assert sifted([(path, value), ("order", ["a"])]) == ({"order": ("a",)}, [f"{path}: {problem}"])


def test_what_stands_where_a_plugins_settings_belong_is_not_repeated():  # it may be a secret
    assert sifted([("plugins", {"acme": "s3cret"})]) == ({}, ["plugins.acme: expected a table, got text"])
