"""What the command keeps is for its user alone, whatever the umask."""

from pathlib import Path

import pytest
from cli_support import NOT_BY_DEFAULT, Cli

UMASKS = ["0002", "0000", "0077", "0027"]
WITH_POLICY = ",".join(set(NOT_BY_DEFAULT.split(",")) - {"pluggent-audit", "pluggent-budget"})
SETTINGS = """
[plugins.pluggent-budget]
path = "{state}/ledgers/ledger.db"
limits = [{{ per = ["session"], tool_calls = 100 }}]
[plugins.pluggent-audit]
folder = "{state}/logs/audit"
"""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    made = Cli(tmp_path)
    made.state = tmp_path / "home" / ".local" / "state" / "pluggent"
    return made


def open_to_others(folder: Path) -> dict[str, str]:
    """Return the mode of everything in *folder*, and of itself, that others may use."""
    found = (folder, *folder.rglob("*"))
    return {str(path): oct(mode) for path in found if (mode := path.stat().st_mode & 0o777) & 0o077}


@pytest.mark.parametrize("umask", UMASKS)
def test_every_run_finds_the_folders_of_the_first_as_it_needs_them(cli: Cli, tmp_path: Path, umask: str):
    """Policy 32."""
    script = f'umask {umask}; exec "$@"'

    runs = [cli("run", "--session", "s", "hello", script=script) for _ in range(2)]
    others = [
        cli("tools", script=script),
        cli("chat", stdin="hello\n", script=script),
        cli("approvals", "new-key", "ann", str(cli.state / "ann.key"), script=script),
        cli("trust", "mine.toml", script=script),
        cli("sessions", "export", "s", "--output", str(cli.state / "s.json"), script=script),
    ]

    assert [(done.code, done.err) for done in runs] == [(0, ""), (0, "")]
    assert [done.code for done in others if done.code not in (0, 2)] == []
    assert open_to_others(tmp_path / "home") == {}
    assert (cli.state / "sessions" / "s.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("umask", UMASKS)
def test_ledgers_and_logs_of_plugins_are_their_users_alone(cli: Cli, umask: str):
    """Policy 32."""
    (cli.work / "mine.toml").write_text(SETTINGS.format(state=cli.state))
    script = f'umask {umask}; exec "$@"'

    runs = [
        cli("run", "--config", "mine.toml", "weather city=Oslo", script=script, PLUGGENT_BLOCK=WITH_POLICY)
        for _ in range(2)
    ]

    assert [done.code for done in runs] == [0, 0], runs
    assert (cli.state / "ledgers" / "ledger.db").is_file()
    assert (cli.state / "logs" / "audit").is_dir()
    assert open_to_others(cli.state.parents[2]) == {}


def test_folders_that_were_there_keep_their_modes(cli: Cli):
    above = cli.state.parent
    above.mkdir(parents=True)
    above.chmod(0o755)

    done = cli("run", "hello", script='umask 0; exec "$@"')

    assert (done.code, above.stat().st_mode & 0o777) == (0, 0o755)


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
@pytest.mark.parametrize(
    "words", [("run", "hello"), ("run", "--session", "s", "more"), ("approvals", "standing"), ("chat",)]
)
def test_a_folder_of_the_state_that_others_can_write_is_refused_with_what_mends_it(
    cli: Cli, mode: int, words: tuple[str, ...]
):
    """Policy 32: who can write there can put his own sessions, and approvals, in the place of the user's."""
    assert cli("run", "--session", "s", "hello").code == 0
    cli.state.chmod(mode)

    done = cli(*words, stdin="hello\n")

    assert done.code != 0
    assert f"{cli.state}: is open to others (mode {mode:04o}), who can replace what is in it" in done.err
    assert f"chmod go-w {cli.state}" in done.err
