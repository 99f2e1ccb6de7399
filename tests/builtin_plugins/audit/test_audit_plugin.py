"""The audit in a host: what is kept, what is not, and that nothing continues without it."""

import json
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from auditing import decision, logs, problems, written
from pluggent_audit.chain import read_head, read_line
from pluggent_audit.plugin import Audit
from pluggent_audit.settings import AuditSettings
from pluggent_hookspecs import ConfigError, DecisionMade, ToolContext, tool
from pluggent_hookspecs.observations import Change, Vote
from pluggent_hookspecs.secrets import Secret
from pluggent_host import Why
from pluggent_testing.fakes import call
from talking import talking
from workspace import names_in, tables


def records(folder: Path, event: str = "") -> list[dict[str, Any]]:
    lines = [json.loads(line) for path in logs(folder) for line in path.read_text("utf-8").splitlines()]
    return [line["record"] for line in lines if event in ("", line["event"])]


@tool(effects=())
def send(to: str, password: str = "", headers: dict[str, str] | None = None) -> str:
    """Send."""
    return f"sent to {to}"


async def test_a_turn_is_kept_as_a_chain_without_what_was_said(tmp_path):
    folder = tmp_path / "audit"
    async with talking(
        call("send", to="bob"), "It is sent.", tools=[send], plugins=[Audit(AuditSettings(folder=str(folder)))]
    ) as session:
        await session.say("tell bob the news")

    text = "".join(path.read_text() for path in logs(folder))
    assert problems(folder) == []
    assert not [said for said in ("tell bob", "sent to", "It is sent", '"bob"') if said in text]
    assert [made["verdict"] for made in records(folder, "DecisionMade")] == ["allow"] * 4
    assert set(records(folder, "TurnStarted")[0]["message"]) == {"role", "bytes", "sha256"}
    assert [record["why"] for record in records(folder, "TurnEnded")] == ["completed"]


async def test_a_call_by_hand_is_told_from_one_of_a_model(tmp_path):
    audit = Audit(AuditSettings(folder=str(tmp_path / "audit")))
    async with talking(call("send", to="bob"), "done", tools=[send], plugins=[audit]) as session:
        await session.say("go")
        await session.call_tool("send", {"to": "bob"})

    scopes = [made["scope"] for made in records(tmp_path / "audit", "DecisionMade") if made["operation"] == "tool_call"]
    assert [(scope["origin"], scope["caller"]) for scope in scopes] == [("api", "model"), ("api", "application")]


async def test_arguments_are_kept_if_wanted_but_not_the_hidden_ones_and_no_secret(tmp_path):
    settings = AuditSettings(
        folder=str(tmp_path / "audit"), fields="all", redact_arguments=("password", "headers.*"),
        secrets=(Secret.of("hush-hush"),),
    )  # fmt: skip
    asked = call("send", to="bob hush-hush", password="pw", headers={"Cookie": "c", "X": "y"})
    async with talking(asked, "done hush-hush", tools=[send], plugins=[Audit(settings)]) as session:
        await session.say("go hush-hush")

    (started,) = records(tmp_path / "audit", "ToolStarted")
    assert started["arguments_json"] == {
        "to": "bob [redacted]", "password": "[redacted]", "headers": {"Cookie": "[redacted]", "X": "[redacted]"},
    }  # fmt: skip
    assert "hush-hush" not in logs(tmp_path / "audit")[0].read_text()


async def test_what_cannot_be_kept_is_not_done(tmp_path):
    folder = tmp_path / "audit"
    audit = Audit(AuditSettings(folder=str(folder)))
    async with talking(plugins=[audit]) as session:
        logs(folder)[0].unlink()
        result = await session.say("go")

    assert result.why is Why.DENIED
    assert "was moved away, replaced or removed" in result.detail


@pytest.mark.parametrize("fsync", ["off", "decisions", "all"])
def test_the_head_is_that_of_the_last_line(fsync, tmp_path):
    audit = written(tmp_path / "audit", 3, fsync=fsync)

    assert read_head((tmp_path / "audit" / "audit.head").read_bytes()) == audit.head
    assert audit.head.n == 6  # with the beginning of the file, and the log opened and closed
    assert problems(tmp_path / "audit") == []


def test_everything_is_the_users_alone(tmp_path):
    written(tmp_path / "audit", 1)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "audit").iterdir()}
    assert modes == {"audit.000001.jsonl": 0o600, "audit.head": 0o600}
    assert stat.S_IMODE((tmp_path / "audit").stat().st_mode) == 0o700


def test_a_folder_or_file_that_others_may_enter_is_refused(tmp_path):
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "open")
    written(tmp_path / "audit", 1)
    logs(tmp_path / "audit")[0].chmod(0o644)

    for name, what in (("open", "chmod 700"), ("link", "is a link"), ("audit", "mode 0600")):
        with pytest.raises(ConfigError, match=what):
            written(tmp_path / name, 1)


def test_a_second_writer_gets_a_log_of_its_own_or_an_error(tmp_path):
    first = Audit(AuditSettings(folder=str(tmp_path / "audit")))
    first.write_record(decision())
    try:
        written(tmp_path / "audit", 2)
        with pytest.raises(ConfigError, match="another host in this process writes the log 'audit'"):
            written(tmp_path / "audit", 1, shared=False)
    finally:
        first.close()

    assert [path.name for path in logs(tmp_path / "audit")] == ["audit-2.000001.jsonl", "audit.000001.jsonl"]
    assert problems(tmp_path / "audit") == []


def test_files_are_rotated_by_size_and_day_and_hang_together(tmp_path):
    now = [1_000_000.0]
    audit = Audit(AuditSettings(folder=str(tmp_path / "audit"), rotate_bytes=4_096), clock=lambda: now[0])
    for n in range(12):
        audit.write_record(decision(n))
    before = len(logs(tmp_path / "audit"))
    now[0] += 86_400
    audit.write_record(decision())
    audit.close()

    assert before > 1
    assert len(logs(tmp_path / "audit")) == before + 1
    assert all(path.stat().st_size <= 4_096 for path in logs(tmp_path / "audit"))
    assert problems(tmp_path / "audit") == []


def test_no_line_is_longer_than_it_may_be(tmp_path):
    huge = DecisionMade(
        decision().scope, "tool_call", "op", "d" * 64, "deny", "x", reason="é\ud800" * 99_999,
        votes=(Vote("p", "deny", "y" * 9_999),) * 999, changes=(Change("q", ("z" * 9_999,) * 999),),
        arguments_json=b'{"a":' * 5_000,
    )  # fmt: skip
    audit = Audit(AuditSettings(folder=str(tmp_path / "audit"), fields="all"))
    audit.write_record(huge)
    audit.close()

    lines = logs(tmp_path / "audit")[0].read_bytes().splitlines()
    (record,) = records(tmp_path / "audit", "DecisionMade")
    assert max(map(len, lines)) <= 65_536
    assert record["cut"]["bytes"] > 65_536
    assert (record["verdict"], record["scope"]["session_id"]) == ("deny", "s")
    assert problems(tmp_path / "audit") == []


WRITER = """
import sys
from auditing import decision
from pluggent_audit.plugin import Audit
from pluggent_audit.settings import AuditSettings
audit = Audit(AuditSettings(folder=sys.argv[1], rotate_bytes=20_000))
n = 0
while True:
    audit.write_record(decision(n))
    n += 1
    if n % 10 == 0:
        print(audit.head, flush=True)
"""


def test_a_killed_writer_loses_nothing_and_the_next_one_goes_on(tmp_path):
    support = str(Path(sys.modules["auditing"].__file__ or "").parent)
    for _ in range(3):
        writer = subprocess.Popen(  # noqa: S603 (this Python)
            [sys.executable, "-c", WRITER, str(tmp_path / "audit")],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": support},
        )  # fmt: skip
        assert writer.stdout is not None
        heads = [writer.stdout.readline() for _ in range(20)]
        writer.send_signal(signal.SIGKILL)
        heads += writer.stdout.readlines()
        writer.wait(10)
        writer.stdout.close()
        kept = {read.n for path in logs(tmp_path / "audit") for line in path.read_bytes().splitlines()
                if (read := read_line(line))}  # fmt: skip
        told = [int(head.partition(":")[0]) for head in heads if head.endswith("\n")]

        assert set(told) <= kept
        assert problems(tmp_path / "audit") == []


def test_a_torn_last_line_is_kept_aside_and_told(tmp_path):
    written(tmp_path / "audit", 2)
    path = logs(tmp_path / "audit")[0]
    with path.open("ab") as file:
        file.write(b'{"n":6,"prev":"ab')
    assert problems(tmp_path / "audit") == [
        ("audit.000001.jsonl:6: is not complete: its writer was killed, or it was cut; opening the log moves it aside")
    ]

    written(tmp_path / "audit", 1)

    assert path.with_name(f"{path.name}.torn").read_bytes() == b'{"n":6,"prev":"ab\n'
    assert records(tmp_path / "audit", "LogOpened")[1]["torn"]["bytes"] == 17
    assert problems(tmp_path / "audit") == []


def test_lines_that_are_gone_when_the_log_is_opened_are_told_for_ever(tmp_path):
    written(tmp_path / "audit", 3)
    path = logs(tmp_path / "audit")[0]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    written(tmp_path / "audit", 1)

    (problem,) = problems(tmp_path / "audit")
    assert "audit.000001.jsonl:5: reports that lines were missing or changed when the log was opened" in problem


def test_a_log_whose_end_is_no_record_is_not_gone_on_with(tmp_path):
    written(tmp_path / "audit", 1)
    with logs(tmp_path / "audit")[0].open("ab") as file:
        file.write(b"nonsense\n")

    with pytest.raises(ConfigError, match="its last line is not a record"):
        written(tmp_path / "audit", 1)


def test_a_full_disk_denies_leaves_no_partial_line_and_is_over_when_there_is_space(tmp_path):
    audit = Audit(AuditSettings(folder=str(tmp_path / "audit")))
    audit.write_record(decision(0))
    size = logs(tmp_path / "audit")[0].stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
    try:
        for n in (1, 2):
            with pytest.raises(OSError, match=r"bytes could be written|File too large"):
                audit.write_record(decision(n))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert logs(tmp_path / "audit")[0].stat().st_size == size
    audit.write_record(decision(3))
    audit.close()

    assert [record["operation_id"] for record in records(tmp_path / "audit", "DecisionMade")] == ["op0", "op3"]
    assert problems(tmp_path / "audit") == []


async def test_a_tool_does_not_run_while_the_disk_is_full(tmp_path):
    ran: list[str] = []

    @tool(effects=())
    def work(context: ToolContext) -> str:
        """Work."""
        ran.append(context.call_id)
        return "done"

    _, hard = limit = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fills_up(request: Any) -> Any:
        size = logs(tmp_path / "audit")[0].stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        return call("work")

    plugins = [Audit(AuditSettings(folder=str(tmp_path / "audit")))]
    try:
        async with talking(fills_up, tools=[work], plugins=plugins) as session:
            result = await session.say("go")
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)

    assert ran == []
    assert result.why is Why.DENIED
    assert problems(tmp_path / "audit") == []


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"name": "a/b"}, "is not a name of a log"),
        ({"fsync": "often"}, "often"),
        ({"rotate_bytes": 1}, "expected a number of bytes"),
        ({"redact_arguments": "x"}, "expected a list"),
        ({"redact_arguments": ["*" * 9]}, "is not a path"),
    ],
)
def test_settings_say_what_is_wrong_with_them(settings, problem):
    with pytest.raises((TypeError, ValueError), match=problem):
        AuditSettings(**settings)


def test_the_readme_tells_every_setting():
    said = tables(Path(__file__).parents[3] / "builtin_plugins" / "audit" / "README.md")["setting default"]

    assert {name.strip("`") for name in said} == names_in(AuditSettings)


def test_a_writer_killed_while_it_began_a_file_leaves_nothing_in_the_way(tmp_path):
    written(tmp_path / "audit", 1)
    (tmp_path / "audit" / "audit.000002.jsonl").touch(mode=0o600)
    assert problems(tmp_path / "audit") == ["audit.000002.jsonl: is empty"]

    written(tmp_path / "audit", 1)

    assert [path.name for path in logs(tmp_path / "audit")] == ["audit.000001.jsonl"]
    assert problems(tmp_path / "audit") == []


def moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replaced(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.rename(path)


@pytest.mark.parametrize("change", [moved, replaced, Path.unlink])
@pytest.mark.parametrize("name", ["audit.000001.jsonl", "audit.head"])
def test_nothing_is_written_into_a_log_that_was_moved_away_or_replaced_while_open(change, name, tmp_path):
    audit = Audit(AuditSettings(folder=str(tmp_path / "audit")))
    audit.write_record(decision(0))
    change(tmp_path / "audit" / name)

    with pytest.raises(OSError, match=f"{name} was moved away, replaced or removed"):
        audit.write_record(decision(1))
    with pytest.raises(OSError, match=name):
        audit.close()


def test_nothing_is_written_into_a_log_whose_folder_was_moved_away_while_open(tmp_path):
    audit = Audit(AuditSettings(folder=str(tmp_path / "audit")))
    audit.write_record(decision(0))
    (tmp_path / "audit").rename(tmp_path / "gone")

    with pytest.raises(OSError, match="was moved away, replaced or removed"):
        audit.write_record(decision(1))
    with pytest.raises(OSError, match="was moved away, replaced or removed"):
        audit.close()


def test_a_pipe_in_the_place_of_a_torn_line_stops_no_start(tmp_path):
    written(tmp_path / "audit", 1)
    log = logs(tmp_path / "audit")[0]
    log.write_bytes(log.read_bytes() + b"{torn")
    os.mkfifo(log.with_name(f"{log.name}.torn"), 0o600)

    with pytest.raises(ConfigError, match=r"\.torn"):
        written(tmp_path / "audit", 1)


def test_the_head_knows_a_new_file_before_its_second_line_is_written(tmp_path):
    now = [0.0]
    audit = Audit(AuditSettings(folder=str(tmp_path / "audit")), clock=lambda: now[0])
    audit.write_record(decision(0))
    now[0] += 86_400
    _, hard = limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))
    try:
        with pytest.raises(
            OSError, match=r"disk full|too large"
        ):  # the first line of the new file fits, the second not
            audit.write_record(decision(1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)

    last = read_line(logs(tmp_path / "audit")[1].read_bytes().splitlines()[-1])
    head = read_head((tmp_path / "audit" / "audit.head").read_bytes())
    assert last is not None
    assert head is not None
    assert (last.event, last.n) == ("FileBegun", head.n)
    audit.close()
    assert problems(tmp_path / "audit") == []


def test_a_clock_that_goes_to_and_fro_begins_one_file_a_day_and_no_more(tmp_path):
    now = [86_400.0 * 20_000]
    audit = Audit(AuditSettings(folder=str(tmp_path / "audit")), clock=lambda: now[0])
    for _ in range(5):
        now[0] += 86_400
        audit.write_record(decision(0))
        now[0] -= 86_400
        audit.write_record(decision(1))
    audit.close()

    assert len(logs(tmp_path / "audit")) == 1
    assert problems(tmp_path / "audit") == []
