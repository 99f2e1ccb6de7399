"""``pluggent trust``: a file or a plugin is accepted, listed, revoked."""

import os

import pytest
from cli_support import Cli
from each_of import each_of
from fake_distributions import POLICY

MODEL = 'model = "offline/mine"\n'


@pytest.fixture
def cli(cli):
    (cli.work / "pluggent.toml").write_text(MODEL)
    cli.plugin("acme-policy", POLICY, "hooks")
    cli.plugin("acme-tool")
    return cli


def model(cli: Cli) -> str:
    """Return which model a turn is run with."""
    return str(cli.document("run", "--without", "acme-policy,acme-tool", "hello")["model"])


def test_a_file_counts_once_it_was_accepted_and_until_it_changes(cli):
    before = model(cli)
    accepted = cli("trust")
    after = model(cli)
    (cli.work / "pluggent.toml").write_text(MODEL + 'system = "be brief"\n')

    assert (before, after, model(cli)) == ("offline/demo", "offline/mine", "offline/demo")
    assert accepted[:2] == (0, f"accepted {cli.work / 'pluggent.toml'} as it is now\n")
    assert "changed" in cli("trust", "--list").out


def test_what_was_accepted_can_be_listed_and_revoked(cli):
    assert cli("trust", "--list").out == "nothing was accepted yet\n"
    cli("trust")
    cli("trust", "--plugin", "acme-policy==1.0")

    listed = cli.document("trust", "--list")["accepted"]
    assert [(one["kind"], one["state"]) for one in listed] == [("file", "accepted"), ("plugin", "accepted")]
    assert cli("trust", "--revoke").out == f"no longer accepted: {cli.work / 'pluggent.toml'}\n"
    assert cli("trust", "--revoke").out == f"{cli.work / 'pluggent.toml'} was not accepted anyway\n"
    assert cli("trust", "--revoke", "--plugin", "acme-policy").out == "no longer accepted: plugin 'acme-policy'\n"
    assert cli("trust", "--list").out == "nothing was accepted yet\n"


def test_a_file_that_is_broken_can_be_judged_all_the_same(cli):
    (cli.work / "pluggent.toml").write_text("= broken")

    assert cli("trust", "--list").code == cli("trust").code == 0


def test_another_version_of_a_package_is_asked_about_anew(cli):
    cli("trust", "--plugin", "acme-policy==1.0")
    accepted = cli("plugins").out
    metadata = cli.site / "acme_policy-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 2.0"))

    assert ("not accepted" in accepted, "not accepted" in cli("plugins").out) == (False, True)


@each_of(
    ("words", "code", "says"),
    [
        ("absent.toml", 2, "absent.toml: there is no such file"),
        ("--plugin acme-polcy", 2, "no plugin 'acme-polcy' is installed; did you mean 'acme-policy'?"),
        ("--plugin acme-tool", 2, "'acme-tool' has no hooks, so there is nothing to accept"),
        ("--plugin acme-policy pluggent.toml", 2, "accept a FILE or a --plugin, one at a time"),
        ("--list --revoke", 2, "--list goes with nothing else"),
        ("--plugin pluggent-guard", 0, "pluggent-guard is part of pluggent and needs no acceptance\n"),
    ],
)
def test_what_cannot_be_accepted_is_said(cli, words, code, says):
    done = cli("trust", *words.split())

    assert done.code == code
    assert says in (done.err if code else done.out)
    assert cli("trust", "--list").out == "nothing was accepted yet\n"


# ---- what a person sees before accepting ------------------------------------------------


def test_without_a_terminal_a_version_has_to_be_named_and_the_hooks_are_shown(cli):
    done = cli("trust", "--plugin", "acme-policy")

    assert (done.code, done.out) == (2, "")
    assert f"acme-policy 1.0, from {cli.site}" in done.err
    assert "pluggent.hooks: policy = acme_policy:Plugin\n  hooks in its source: decide_input\n" in done.err
    assert "there is no terminal to ask at; to accept exactly this version: acme-policy==1.0" in done.err
    assert cli("trust", "--list").out == "nothing was accepted yet\n"


def test_another_version_than_the_installed_one_is_not_accepted(cli):
    done = cli("trust", "--plugin", "acme-policy==2.0")

    assert (done.code, "acme-policy 1.0 is installed, not 2.0" in done.err) == (2, True)
    assert cli("trust", "--list").out == "nothing was accepted yet\n"


@each_of(("answer", "code"), [("y\n", 0), ("n\n", 2), ("\n", 2), ("\x04", 2), ("\x03", 130)])
def test_at_a_terminal_a_person_sees_the_hooks_and_accepts_or_not(cli, answer, code):
    done = cli.talk("trust", "--plugin", "acme-policy", keys=["Accept it? It sees what its hooks see. [y/N] ", answer])

    assert (done.code, "hooks in its source: decide_input" in done.out) == (code, True)
    assert ("nothing was accepted yet" in cli("trust", "--list").out) is bool(code)
    cli("trust", "--revoke", "--plugin", "acme-policy")


def test_the_hooks_are_those_of_what_python_imports(cli):
    """A package comes before the file of the same name; hooks may be assigned."""
    package = cli.site / "acme_policy"
    package.mkdir()
    (package / "__init__.py").write_text("class Plugin:\n    transform_input = lambda self, event: None\n")
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "more.cpython-311.pyc").touch()
    (package / "more.py").write_text("def add(plugin):\n    setattr(plugin, 'decide_tool_call', print)\n")

    said = cli("trust", "--plugin", "acme-policy").err

    assert "hooks in its source: decide_input, decide_tool_call, transform_input\n" in said


@each_of("name", ["pipe.py", "endless.py", "compiled.so"])
def test_no_pipe_device_or_binary_in_a_package_hangs_or_hides_hooks(cli, name):
    package = cli.site / "acme_policy"
    package.mkdir(exist_ok=True)
    for file in package.iterdir():
        file.unlink()  # of the attempt before
    if name == "pipe.py":
        os.mkfifo(package / name)
    elif name == "endless.py":
        (package / name).symlink_to("/dev/zero")
    else:
        (package / name).touch()

    assert "hooks in its source: not known" in cli("trust", "--plugin", "acme-policy").err


def test_source_that_cannot_be_read_is_said_and_not_imported(cli):
    (cli.site / "acme_policy.py").write_text("def decide_input(\n")

    assert (
        "hooks in its source: not known, because its modules cannot be read"
        in cli("trust", "--plugin", "acme-policy").err
    )
