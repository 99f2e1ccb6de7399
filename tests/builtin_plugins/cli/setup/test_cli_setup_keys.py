"""Where ``pluggent setup`` keeps a key: the keyring or a private file, and nowhere else."""

import json
from pathlib import Path

from each_of import each_of
from setup_dialog import KEY, MODEL, PROVIDER, WRITE, Setup
from vendor_server import GOOD


@each_of("words", [(GOOD,), ("openai", GOOD), ("--key", GOOD)], ids=["as provider", "behind it", "as option"])
def test_a_key_on_the_command_line_is_refused_and_not_repeated(setup, words):
    done = setup.run("setup", *words)

    assert done.code == 2
    assert GOOD not in done.err + done.out


def test_a_state_folder_in_the_project_gets_no_key(setup):
    inside = setup.cli.work / ".state"

    done = setup(
        PROVIDER, "openai\n", KEY, f"{GOOD}\n", MODEL, "chat-small\n", PLUGGENT_STATE_DIR=str(inside)
    )  # fmt: skip

    assert done.code == 2
    assert "lies in the folder that you work in, where a key would be copied and committed" in done.out
    assert not (inside / "keys").exists()


KEYRING = """
import json, pathlib
from types import SimpleNamespace
FILE = pathlib.Path({file!r})
def get_keyring():
    return SimpleNamespace(name="Test Keyring", priority={priority})
def get_password(service, user):
    return json.loads(FILE.read_text()).get(service + "/" + user) if FILE.exists() else None
def set_password(service, user, text):
    {fails}
    FILE.write_text(json.dumps({{service + "/" + user: text}}))
def delete_password(service, user):
    FILE.unlink()
"""


def keyring(setup: Setup, priority: int = 5, fails: str = "pass") -> Path:
    """Install a keyring library, and return what it keeps."""
    kept = setup.home / "keyring.json"
    (setup.cli.site / "keyring.py").write_text(KEYRING.format(file=str(kept), priority=priority, fails=fails))
    return kept


def test_a_keyring_keeps_the_key_where_there_is_one(setup):
    kept = keyring(setup)
    question = (
        "Keep it in the keyring of this computer (Test Keyring)? If not, in a file that only you can read. [Y/n] "
    )

    done = setup(PROVIDER, "openai\n", KEY, f"{GOOD}\n", MODEL, "chat-small\n", question, "\n", WRITE, "\n")

    assert done.code == 0, done.out
    assert 'api_key = "keyring:pluggent/openai"\n' in setup.settings.read_text()
    assert json.loads(kept.read_text()) == {"pluggent/openai": GOOD}
    assert not setup.key.exists()
    assert setup.run("run", "hi").code == 0


def test_a_keyring_that_is_not_fit_for_use_is_not_offered(setup):
    keyring(setup, priority=0)

    done = setup(PROVIDER, "openai\n", KEY, f"{GOOD}\n", MODEL, "chat-small\n", WRITE, "\n")

    assert (done.code, setup.key.exists()) == (0, True)


def test_a_keyring_that_is_locked_is_replaced_by_a_file(setup):
    keyring(setup, fails="raise RuntimeError('locked: ' + text)")

    done = setup(PROVIDER, "openai\n", KEY, f"{GOOD}\n", MODEL, "chat-small\n", "[Y/n] ", "\n", WRITE, "\n")

    assert (done.code, setup.key.exists(), GOOD in done.out) == (0, True, False)
    assert "the key could not be stored: RuntimeError; it goes into a file" in done.out


def test_ctrl_c_while_the_keyring_asks_for_its_own_password_leaves_nothing_behind(setup):
    stored = "FILE.write_text(json.dumps({'pluggent/openai': text}))"
    kept = keyring(setup, fails=f"import os; {stored}; os.kill(os.getpid(), 2)")  # Ctrl-C, at the worst moment

    done = setup(PROVIDER, "openai\n", KEY, f"{GOOD}\n", MODEL, "chat-small\n", "[Y/n] ", "\n", WRITE, "\n")

    assert (done.code, setup.left, kept.exists()) == (130, [], False)


def test_a_keyring_that_cannot_be_read_later_is_an_error_that_says_so(setup):
    keyring(setup)
    setup.settings.parent.mkdir(parents=True)
    setup.settings.write_text('model = "openai/x"\n[plugins.pluggent-openai]\napi_key = "keyring:pluggent/openai"\n')
    (setup.home / "keyring.json").mkdir()

    done = setup.run("run", "hi")

    assert (done.code, "Traceback" in done.err) == (1, False)
    assert "keyring:pluggent/openai: the keyring cannot be read: IsADirectoryError" in done.err


def test_no_tool_and_no_started_program_gets_the_key(setup):
    assert setup(PROVIDER, "openai\n", KEY, f"{GOOD}\n", MODEL, "chat-small\n", WRITE, "y\n").code == 0

    done = setup.run(
        "run", "--model", "offline/demo", "--workspace", str(setup.key.parent.parent), f"read_file path={setup.key}"
    )

    assert GOOD not in done.out + done.err
    assert GOOD not in setup.run("config").out
    assert GOOD not in setup.run("doctor").out
