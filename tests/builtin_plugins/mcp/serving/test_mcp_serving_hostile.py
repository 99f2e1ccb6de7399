"""Tools and clients that do ``pluggent mcp serve`` no good take nothing from the others, over either wire."""

import json
import os
import pwd
import select
import signal
from contextlib import ExitStack

import attrs
import pytest
from mcp_serving import WAIT_S, Spoken, over_http
from mcp_serving_sites import asked, call, connected, heard, hostile_site, posted, raw_server, text_of
from pluggent_hookspecs import Approval
from pluggent_mcp.serving.http_server import CONNECTIONS
from pluggent_mcp.serving.stdio_server import MOST_UNDER_WAY
from saved import FileStanding as Approvals, answer_stored

INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}  # fmt: skip
STRANGER = """
[[plugins.pluggent-permissions.rules]]
id = "stranger"
decision = "deny"
when.origin = "mcp"
when.principal = "claimed:stranger"
tell_model = "not for strangers"
"""
SURE = """
[[plugins.pluggent-permissions.rules]]
id = "sure"
decision = "ask"
when.tool = "acme:tool/ok"
tell_user = "sure?"
"""
FEW = "[plugins.pluggent-mcp.serve]\nmax_calls = 2\n"
SHORT = "[plugins.pluggent-mcp.serve]\nrequest_timeout_s = 0.5\n"


@pytest.fixture
def cli(tmp_path):
    return hostile_site(tmp_path)


# ---- what no wire can carry --------------------------------------------------------------


@pytest.mark.parametrize("tool", ["fails", "breaks"])
def test_the_name_of_a_file_that_is_no_text_in_an_error_ends_nothing(cli, tool):
    with Spoken(cli, "--tools", "acme") as spoken:
        spoken.say(call(1, tool))
        _, failed = heard(spoken, 1)
        spoken.say(call(2, "ok"))
        _, fine = heard(spoken, 2)

    assert failed["result"]["isError"]
    assert "caf\ufffd.txt" in text_of(failed)
    assert text_of(fine) == "ok"


def test_progress_and_logs_that_no_wire_can_carry_are_cleaned_or_left_out(cli):
    with Spoken(cli, "--tools", "acme") as spoken:
        spoken.say(call(1, "tells"))
        told, answer = heard(spoken, 1)

    progress, log, other = (message["params"] for message in told)
    assert progress == {"progressToken": 1, "progress": 1, "message": "caf\ufffd.txt"}
    name = "caf\ufffd.txt"
    assert (log["logger"], log["data"]) == (name, {"message": name, "data": {name: [name]}})
    assert (other["data"], text_of(answer)) == ("no JSON", "told")


def spoken_to(process, message):
    """Send *message*, and return the next one."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{json.dumps(message)}\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def test_an_answer_that_cannot_be_written_is_an_error_of_that_request_alone(tmp_path):
    with raw_server(tmp_path) as process:
        odd = spoken_to(process, call(1, "odd"))
        even = spoken_to(process, call(2, "even"))
        process.communicate(timeout=WAIT_S)

    assert (odd["id"], odd["error"]["code"]) == (1, -32_603)
    assert (even["id"], text_of(even)) == (2, "fine")
    assert process.returncode == 0


@pytest.mark.parametrize("wire", ["stdio", "http"])
def test_a_log_that_cannot_be_sent_costs_no_outcome_and_delays_no_call(cli, wire):
    if wire == "http":
        with over_http(cli, "--tools", "acme") as served:
            said = asked(served, call(1, "strange"))
        assert '"text":"done"' in said
        return
    with Spoken(cli, "--tools", "acme") as spoken:
        spoken.say(call(1, "strange"))
        _, answer = heard(spoken, 1)
    assert text_of(answer) == "done"


# ---- clients that do not read ------------------------------------------------------------


def test_clients_that_read_nothing_hold_no_place_of_a_call(tmp_path):
    with over_http(hostile_site(tmp_path, FEW), "--tools", "acme") as served, ExitStack() as stack:
        for number in range(4):
            slow = stack.enter_context(connected(served, buffer=2_048))
            posted(slow, served, call(number, "chatty"))
        said = asked(served, call(9, "ok"))

    assert '"text":"ok"' in said


def test_what_is_sent_over_a_pipe_by_a_client_that_reads_nothing_is_not_read_for_ever(cli):
    with Spoken(cli, "--tools", "acme") as spoken:
        spoken.say(call(1, "ok"))
        heard(spoken, 1)
        assert spoken.process.stdin is not None
        pipe = spoken.process.stdin.fileno()
        os.set_blocking(pipe, False)
        taken = until_full(pipe, ("x" * 50_000).join(('{"jsonrpc":"2.0","id":2,"method":"', '"}\n')).encode())

    assert 0 < taken < 4 * MOST_UNDER_WAY


def until_full(pipe: int, line: bytes) -> int:
    """Write *line* until no byte of it has been read for some time; return how often."""
    times, rest = 0, b""
    waiting = select.poll()
    waiting.register(pipe, select.POLLOUT)
    while waiting.poll(1_000) and times < 100_000:
        rest = rest or line
        rest = rest[os.write(pipe, rest) :]
        times += not rest
    return times


def test_many_requests_at_once_are_all_answered_to_a_client_that_reads(cli):
    count = 3 * MOST_UNDER_WAY
    with Spoken(cli, "--tools", "acme") as spoken:
        spoken.say(INITIALIZE, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        heard(spoken, 1)
        spoken.say(*({"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(2, count)))
        answers = spoken.hear(count - 2)

    assert {answer["id"] for answer in answers} == {*range(2, count)}
    assert not any("error" in answer for answer in answers)


# ---- clients that say nothing ------------------------------------------------------------


@pytest.mark.parametrize("said", [b"", b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
def test_connections_without_a_request_shut_no_client_out(cli, said):
    with over_http(cli, "--tools", "acme") as served, ExitStack() as stack:
        for _ in range(CONNECTIONS + 10):
            stack.enter_context(connected(served)).sendall(said)
        first = asked(served, call(1, "ok"))

    assert '"text":"ok"' in first


@pytest.mark.parametrize("said", [b"", b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
def test_a_connection_without_a_request_is_closed(said, tmp_path):
    with over_http(hostile_site(tmp_path, SHORT), "--tools", "acme") as served, connected(served) as silent:
        silent.sendall(said)
        assert silent.recv(100) == b""


def test_a_connection_that_falls_silent_behind_an_answer_is_closed(tmp_path):
    with over_http(hostile_site(tmp_path, SHORT), "--tools", "acme") as served, connected(served) as silent:
        posted(silent, served, call(1, "ok"), keep=True)
        said = b""
        while not said.endswith(b"0\r\n\r\n") and b'"text":"ok"' not in said:
            said += silent.recv(65_536)
        silent.sendall(b"POST /mcp HTTP/1.1\r\nX: ")
        with silent.makefile("rb") as file:
            rest = file.read()

    assert b'"text":"ok"' in said
    assert b"HTTP/1.1" not in rest


# ---- names -------------------------------------------------------------------------------


def test_a_rule_about_a_name_holds_however_many_others_there_are(tmp_path):
    with Spoken(hostile_site(tmp_path, STRANGER), "--tools", "acme") as spoken:
        for number in range(40):
            spoken.say(call(number, "ok", client=f"client {number}"))
            assert text_of(heard(spoken, number)[1]) == "ok"
        spoken.say(call(100, "ok", client="stranger"))
        _, denied = heard(spoken, 100)

    assert text_of(denied) == "Denied: not for strangers"


@pytest.mark.parametrize("client", ["ann", ""])
def test_an_approval_that_stands_is_for_no_client_whatever_it_calls_itself(tmp_path, client):
    """Policy 36: neither one of the user at the terminal, nor one that was kept for a name that clients claim."""
    cli = hostile_site(tmp_path, SURE)
    sessions = cli.state / "sessions"
    cli("--config", "mine.toml", "run", "--session", "s", "--model", "offline/demo", "ok")
    (waits,) = json.loads(cli("approvals", "--json").out)["waiting"]
    answer_stored(sessions, "s", [waits["calls"][0]["digest"]], Approval(agreed=True, reach="always"), "key:ann")
    again = cli("--config", "mine.toml", "run", "--model", "offline/demo", "ok")
    (kept,) = Approvals(sessions).all()
    for name in ("ann", "claimed:ann", "claimed:"):
        Approvals(sessions).keep(attrs.evolve(kept, principal=name))

    with Spoken(cli, "--tools", "acme") as spoken:
        spoken.say(call(1, "ok", client=client))
        _, denied = heard(spoken, 1)

    assert (again.code, kept.workspace, kept.principal) == (0, str(cli.work), pwd.getpwuid(os.getuid()).pw_name)
    assert denied["result"]["isError"]
    assert "needs a person's approval" in text_of(denied)


# ---- the end -----------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["signal", "stdin"])
def test_a_tool_that_swallows_its_cancellation_does_not_keep_it_alive(tmp_path, how):
    with Spoken(hostile_site(tmp_path, "[timeouts]\nclose_s = 0.1\n"), "--tools", "acme") as spoken:
        spoken.say(call(1, "stubborn"))
        spoken.hear(1)
        if how == "signal":
            spoken.process.send_signal(signal.SIGTERM)
            spoken.process.wait(WAIT_S)
        _, err = spoken.process.communicate(timeout=WAIT_S)  # closes stdin

    assert spoken.process.returncode == (128 + signal.SIGTERM if how == "signal" else 0)
    assert "Traceback" not in err
    assert "destroyed" not in err


def test_a_client_that_stopped_reading_for_good_ends_it_although_it_keeps_its_other_end(cli):
    with Spoken(cli, "--tools", "acme") as spoken:
        spoken.say(call(1, "ok"))
        heard(spoken, 1)
        assert spoken.process.stdout is not None
        spoken.process.stdout.close()
        spoken.say(call(2, "ok"))
        code = spoken.process.wait(WAIT_S)
        _, err = spoken.process.communicate(timeout=WAIT_S)

    assert (code, "Traceback" in err) == (0, False)
