"""The command asks the store of sessions that the settings name for everything, as it asks files."""

import json
from pathlib import Path

import pytest
import sqlite_sessions
from cli_support import Cli, mailing, pause, requests
from fake_distributions import install


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Return a command whose sessions are in the database of an installed plugin, which lists one on a page."""
    made = mailing(tmp_path)
    source = Path(sqlite_sessions.__file__).read_text("utf-8")
    install(
        made.site, "acme-database", {"sessions/database": "acme_database:Plugin"}, modules={"acme_database": source}
    )
    settings = Path.home() / ".config" / "pluggent" / "pluggent.toml"
    settings.parent.mkdir(parents=True)
    database = json.dumps(str(tmp_path / "sessions.db"))
    settings.write_text(f'sessions = "database"\n[plugins.acme-database]\nfile = {database}\nmost = 1\n')
    return made


def test_sessions_in_a_database_are_listed_shown_searched_exported_explained_and_deleted(cli):
    cli("run", "--session", "trip", "weather city=Paris")
    cli("run", "--session", "tour", "hello")

    assert not (cli.state / "sessions").exists()
    document = json.loads(cli("sessions", "--json").out)
    assert (document["store"], document["folder"], document["total"]) == ("database", "", 2)
    assert [(one["id"], one["turns"], one["first_words"]) for one in document["sessions"]] == [
        ("tour", 1, "hello"), ("trip", 1, "weather city=Paris"),
    ]  # fmt: skip
    assert cli("sessions", "--limit", "1", "--color", "never").err == (
        "older ones are not shown; all: pluggent sessions --limit 0\n"
    )
    assert "there is no session 'trop'; did you mean 'trip'?" in cli("sessions", "show", "trop").err
    assert '→ weather(city="Paris"' in cli("sessions", "show", "tri").out
    assert cli("sessions", "search", "city=paris").out == "trip t1 user: weather city=Paris\n"
    assert json.loads(cli("sessions", "export", "trip").out)["turns"][0]["messages"][0]["text"] == "weather city=Paris"
    assert "allow by host" in cli("explain", "trip").out
    assert cli("sessions", "delete", "trip", "--yes") == (0, "deleted trip\n", "")
    assert cli("sessions", "show", "trip").code == 2


def test_a_turn_that_waits_in_a_database_is_answered_and_resumed(cli):
    key = cli.work / "ann.key"
    made = cli("approvals", "new-key", "ann", str(key)).out.split("in the settings:\n")[1].replace("  ", "")
    settings = Path.home() / ".config" / "pluggent" / "pluggent.toml"
    settings.write_text(settings.read_text() + made)
    digest = pause(cli)

    assert requests(cli) == {"s offline-1-0": digest}
    assert "call send_mail  (acme-mail:tool/send_mail)" in cli("approvals", "show", "s").out
    approved = cli("approvals", "approve", "s", digest, "--key", f"file:{key}", "--always", "--where", "to=b*")
    assert approved.code == 0, approved
    assert requests(cli) == {}
    resumed = cli("resume", "s")
    assert (resumed.code, "sent to bob" in resumed.out) == (0, True)
    assert "approved for always by key:ann" in cli("explain", "s").out
    assert "sent to bill" in cli("run", "--session", "t", "send_mail to=bill").out
    (standing,) = json.loads(cli("approvals", "standing", "--json").out)["standing"]
    assert cli("approvals", "forget", standing["id"]).code == 0
    assert cli("approvals", "standing").out == "nothing is approved beyond its session\n"


def test_what_waits_in_a_database_is_denied_and_expires(cli):
    pause(cli)
    pause(cli, session="t")

    assert cli("approvals", "deny", "s", "--all", "--reason", "no").code == 0
    assert "denied t  offline-1-0" in cli("approvals", "expire", "--older-than", "0s").out
    assert requests(cli) == {}
    assert "sent to" not in cli("resume", "s").out


def test_what_was_said_in_a_database_is_taken_back(cli):
    cli("run", "--session", "trip", "hello")

    assert "taken back: hello" in cli("chat", "--session", "trip", stdin="/undo\n").out
    assert [turn["undone"] for turn in json.loads(cli("sessions", "export", "trip").out)["turns"]] == [True]


@pytest.mark.parametrize("words", [("sessions",), ("explain", "s"), ("approvals",), ("resume", "s")])
def test_a_store_that_is_not_installed_is_named_and_no_other_is_asked(cli, words):
    (cli.work / "named.toml").write_text('sessions = "databse"\n')

    done = cli(*words, "--config", "named.toml")

    assert (done.code, done.out) == (2, "")
    assert "'databse'" in done.err
    assert "did you mean 'database'?" in done.err
