"""The processes of servers: a start or end that is given up is not lost, and what a server has started ends with it."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import cli_support
import pytest
from fork_server import children
from mcp_using import PEER, WAIT_S, peer, runs, using
from pluggent_hookspecs import ToolError
from pluggent_mcp.client.process import Guard, start_process, stop
from pluggent_mcp.client.process_tree import MARKS, ProcessTree, end_orphans
from pluggent_mcp.settings import Server
from pluggent_process_engine.process_table import ProcessId, new_mark, process_info, send_signal

LASTING = "import signal; signal.pause()"


@pytest.mark.parametrize("rounds", range(1, 9))
async def test_a_start_that_is_given_up_leaves_no_process_and_no_warning(rounds, caplog):
    caplog.set_level(logging.WARNING)
    server = Server(command=sys.executable, args=("-c", LASTING))
    starting = asyncio.create_task(start_process(server, os.environ, f"mark{rounds}", Guard()))
    for _ in range(rounds):
        await asyncio.sleep(0)
    starting.cancel()
    async with asyncio.timeout(WAIT_S):
        await asyncio.wait((starting,))

    assert starting.cancelled()
    assert caplog.messages == []
    assert children() == set()


async def test_a_stop_that_is_given_up_kills_at_once_and_warns_of_nothing(caplog):
    caplog.set_level(logging.WARNING)
    server = Server(command=sys.executable, args=("-c", LASTING))
    for _ in range(5):
        child = await start_process(server, os.environ, "mark", Guard())
        stopping = asyncio.create_task(stop(child, WAIT_S, "mark"))
        await asyncio.sleep(0)
        stopping.cancel()
        async with asyncio.timeout(WAIT_S):
            await asyncio.wait((stopping,))
            await child.exited.wait()
        assert child.returncode == -9

    assert caplog.messages == []


linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a server's process group is all that is found")
HOST = f"""
import asyncio, json, sys
sys.path[:0] = {[str(Path(PEER).parent), str(Path(cli_support.__file__).parent)]!r}
from mcp_using import Context, peer, using

async def main():
    async with using(one=peer("stubborn", stop_timeout_s=0.1)) as used:
        server = json.loads(str((await used.call("one__environ")).for_model))["pid"]
        left = [int(str((await used.call("one__leave", how=how)).for_model)) for how in ("forked twice", "wiped")]
        context = Context()
        calling = asyncio.create_task(used.call("one__wait", context))
        await context.moved.wait()
        print(json.dumps([server, *left]), flush=True)
        await calling

asyncio.run(main())
"""
LIVES = [sys.executable, "-c", "import signal; print(1, flush=True); signal.pause()"]


@linux
@pytest.mark.parametrize("how", ["forked twice", "wiped"])
async def test_a_grandchild_in_a_session_of_its_own_is_stopped(how):
    async with using(one=peer(stop_timeout_s=0.1)) as used:
        pid = await left(used, how)

    assert not runs(pid)


@linux
async def test_a_grandchild_that_left_is_stopped_when_its_server_dies_and_the_server_comes_back():
    async with using(one=peer(stop_timeout_s=0.1)) as used:
        pid = await left(used, "forked twice")
        with pytest.raises(ToolError, match=r"exit code 9\. .* The call may have taken effect"):
            await asyncio.wait_for(used.call("one__die"), WAIT_S)
        async with asyncio.timeout(WAIT_S):
            while runs(pid):  # noqa: ASYNC110 (no event says when it ends)
                await asyncio.sleep(0)

        assert (await used.call("one__echo", text="back")).for_model == "back"


@linux
async def test_a_grandchild_that_left_is_stopped_when_the_stop_is_cancelled():
    async with using(one=peer("stubborn")) as used:
        server = json.loads(str((await used.call("one__environ")).for_model))["pid"]
        pid = await left(used, "forked twice")
        closing = asyncio.create_task(used.sources["one"].aclose())
        while not closing.done():
            for task in asyncio.all_tasks():
                if task.get_name() == "pluggent-mcp-one":
                    task.cancel()
            await asyncio.sleep(0)
        async with asyncio.timeout(WAIT_S):
            while listed(server):  # noqa: ASYNC110 (the loop reaps it without an event)
                await asyncio.sleep(0)

    assert not runs(pid)


@linux
async def test_the_grandchildren_of_another_server_go_on():
    async with using(one=peer(stop_timeout_s=0.1), two=peer(stop_timeout_s=0.1)) as used:
        first, second = await left(used, "forked twice"), await left(used, "forked twice", "two")
        await used.sources["one"].aclose()

        assert (runs(first), runs(second)) == (False, True)
    assert not runs(second)


@pytest.fixture
def host():
    """Return a process with a stubborn server in a call, and the pids of this server and its grandchildren."""
    process = subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE, text=True)  # noqa: S603 (ours)
    assert process.stdout is not None
    pids = json.loads(process.stdout.readline())
    yield process, pids
    process.kill()
    process.communicate(timeout=WAIT_S)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@linux
async def test_a_host_that_is_killed_in_a_call_leaves_no_process_of_its_server(host):
    process, pids = host
    assert all(map(runs, pids))

    process.kill()

    async with asyncio.timeout(WAIT_S):
        while any(map(runs, pids)):  # noqa: ASYNC110 (nobody tells when they end)
            await asyncio.sleep(0)


GUARDED = """
import json, os, signal, subprocess, sys, time
from pluggent_mcp.client.process import Guard
from pluggent_mcp.client.process_tree import MARKS

def server(guard, mark):
    guard.watch(mark, 0, 0.1)
    command = [sys.executable, "-c", "import signal; signal.signal(15, signal.SIG_IGN); signal.pause()"]
    child = subprocess.Popen(command, env={**os.environ, MARKS: mark}, start_new_session=True)
    guard.watch(mark, child.pid, 0.1)
    return child.pid

guard = Guard()
pids = [server(guard, "first"), server(guard, "second")]
os.kill(guard._process.pid, signal.SIGKILL)
guard._process.wait()
pids += [server(guard, "third"), guard._process.pid]
print(json.dumps(pids), flush=True)
signal.pause()
"""


@linux
async def test_one_guard_ends_all_servers_of_a_killed_host_and_is_replaced_if_it_was_killed():
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", GUARDED, stdout=subprocess.PIPE)
    assert process.stdout is not None
    pids = json.loads(await process.stdout.readline())
    assert all(map(runs, pids))

    process.kill()
    await process.communicate()

    async with asyncio.timeout(WAIT_S):
        while any(map(runs, pids)):  # noqa: ASYNC110 (nothing tells when they end)
            await asyncio.sleep(0)


@linux
async def test_the_next_start_ends_what_a_host_has_left_that_was_killed_with_its_guard(host):
    process, pids = host
    (guard,) = set(children_of(process.pid)) - set(pids)
    os.kill(guard, signal.SIGKILL)
    process.kill()
    process.wait(WAIT_S)

    async with using(one=peer()) as used:
        assert (await used.call("one__echo", text="x")).for_model == "x"
        assert [pid for pid in pids if runs(pid)] == []


@linux
async def test_the_next_start_leaves_the_servers_of_a_host_that_lives(host):
    process, pids = host

    async with using(one=peer()):
        assert [pid for pid in pids if not runs(pid)] == []

    assert process.poll() is None


@linux
def test_processes_below_the_server_of_a_killed_host_do_not_end_each_other(living):
    code = "from pluggent_process_engine.process_table import new_mark; print(new_mark())"
    mark = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=WAIT_S).strip()  # noqa: S603 (ours)

    def survives():
        kin = living(mark)
        end_orphans(f"other,{mark}", 0)
        return kin.poll() is None

    # A test in another process may start a server at this moment, and ends it rightly.
    assert any(survives() for _ in range(10))
    kin = living(mark)
    end_orphans("other", 0)
    assert kin.wait(WAIT_S) in (-signal.SIGTERM, -signal.SIGKILL)


def children_of(pid):
    """Return the pids of the children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]


def listed(pid):
    """Say whether *pid* is there, be it as a zombie."""
    return Path(f"/proc/{pid}").exists()


async def left(used, how, server="one"):
    """Have *server* start a process that leaves it; return its pid."""
    pid = int(str((await used.call(f"{server}__leave", how=how)).for_model))
    assert runs(pid)
    return pid


@pytest.fixture
def living():
    """Return a function that starts a process with some marks, until the end of the test."""
    children = []

    def start(marks):
        child = subprocess.Popen(LIVES, env={MARKS: marks}, stdout=subprocess.PIPE, start_new_session=True)  # noqa: S603 (ours)
        children.append(child)
        assert child.stdout is not None
        child.stdout.readline()
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate(timeout=WAIT_S)


@linux
def test_a_mark_is_found_among_others_and_whole(living):
    mark = new_mark()
    ours, theirs = living(f"outer,{mark}"), living(f"{mark}x")
    kin = ProcessTree(mark, 0)

    kin.scan()

    assert kin.signal_all(signal.SIGKILL)
    assert ours.wait(WAIT_S) == -signal.SIGKILL
    assert theirs.poll() is None
    kin.scan()
    assert not kin.signal_all(signal.SIGKILL)


@linux
def test_a_pid_that_was_given_to_another_process_is_sent_nothing(living):
    child = living("x")
    now = process_info(child.pid)
    assert now is not None

    assert not send_signal(ProcessId(child.pid, now.process.began - 1), signal.SIGKILL)
    assert send_signal(now.process, 0)
    assert child.poll() is None


@linux
def test_a_group_whose_number_was_given_to_another_process_is_sent_nothing(living):
    stranger = living("x")
    now = process_info(stranger.pid)
    assert now is not None
    kin = ProcessTree(new_mark(), stranger.pid, leader=ProcessId(stranger.pid, now.process.began - 1))

    kin.scan()

    assert not kin.signal_all(signal.SIGKILL)
    kin.end(0)
    assert stranger.poll() is None
    ours = ProcessTree(new_mark(), stranger.pid, leader=now.process)
    ours.end(0)
    assert stranger.wait(WAIT_S) in (-signal.SIGTERM, -signal.SIGKILL)


@linux
@pytest.mark.skipif(os.geteuid() != 0, reason="needs to be root to start a process of another user")
def test_a_process_of_another_user_is_none_of_ours():
    mark = new_mark()
    theirs = subprocess.Popen(["/bin/sleep", "60"], env={MARKS: mark}, user=65_534)
    try:
        kin = ProcessTree(mark, 0)
        kin.scan()
        assert not kin.signal_all(signal.SIGKILL)
        assert theirs.poll() is None
    finally:
        theirs.kill()
        theirs.wait(WAIT_S)
