"""Whatever the umask, the command's files are for its user alone, and a state open to others is refused."""

from pathlib import Path

import pytest
from cli_support import NOT_BY_DEFAULT, umask
from each_of import each_of

UMASKS = [0o002, 0, 0o077, 0o027]
WITH_POLICY = ",".join(set(NOT_BY_DEFAULT.split(",")) - {"pluggent-audit", "pluggent-budget"})
SETTINGS = """
[plugins.pluggent-budget]
path = "{state}/ledgers/ledger.db"
limits = [{{ per = ["session"], tool_calls = 100 }}]
[plugins.pluggent-audit]
folder = "{state}/logs/audit"
"""


@pytest.fixture
def cli(cli, tmp_path):
    cli.state = tmp_path / "home" / ".local" / "state" / "pluggent"
    return cli


def open_to_others(folder: Path) -> dict[str, str]:
    """Return the mode of everything in *folder*, and of itself, that others may use."""
    found = (folder, *folder.rglob("*"))
    return {str(path): oct(mode) for path in found if (mode := path.stat().st_mode & 0o777) & 0o077}


@pytest.mark.parametrize("value", UMASKS)
def test_every_run_finds_the_folders_of_the_first_as_it_needs_them(cli, tmp_path, value):
    """Policy 32."""
    with umask(value):
        runs = [cli("run", "--session", "s", "hello") for _ in range(2)]
        others = [
            cli("tools"),
            cli("chat", stdin="hello\n"),
            cli("approvals", "new-key", "ann", str(cli.state / "ann.key")),
            cli("trust", "mine.toml"),
            cli("sessions", "export", "s", "--output", str(cli.state / "s.json")),
        ]

    assert [(done.code, done.err) for done in runs] == [(0, ""), (0, "")]
    assert [done.code for done in others if done.code not in (0, 2)] == []
    assert open_to_others(tmp_path / "home") == {}
    assert (cli.state / "sessions" / "s.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("value", UMASKS)
def test_ledgers_and_logs_of_plugins_are_their_users_alone(cli, value):
    """Policy 32."""
    (cli.work / "mine.toml").write_text(SETTINGS.format(state=cli.state))

    with umask(value):
        words = ("run", "--config", "mine.toml", "weather city=Oslo")
        runs = [cli(*words, PLUGGENT_BLOCK=WITH_POLICY) for _ in range(2)]

    assert [done.code for done in runs] == [0, 0], runs
    assert (cli.state / "ledgers" / "ledger.db").is_file()
    assert (cli.state / "logs" / "audit").is_dir()
    assert open_to_others(cli.state.parents[2]) == {}


@each_of("words", ["run hello", "run --session s more", "approvals standing", "chat"])
def test_a_folder_of_the_state_that_others_can_write_is_refused_with_what_mends_it(cli, words):
    """Policy 32: who can write there can put his own sessions, and approvals, in the place of the user's."""
    if not cli.state.exists():
        assert cli("run", "--session", "s", "hello").code == 0

    for mode in (0o777, 0o775, 0o1777):
        cli.state.chmod(mode)
        done = cli(*words.split(), stdin="hello\n")

        assert done.code != 0
        assert f"{cli.state}: is open to others (mode {mode:04o}), who can replace what is in it" in done.err
        assert f"chmod go-w {cli.state}" in done.err
