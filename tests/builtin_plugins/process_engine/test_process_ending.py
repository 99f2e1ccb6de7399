"""The end of a whole tree: processes that hide, ignore signals or hold pipes; cancellation; the death of the host."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pluggent_process_engine.process_tree import kill_marked, kill_orphans
from pluggent_process_engine.program import Confinement, Limits, Program, StartError
from pluggent_process_engine.running import run, start
from programs import WAIT_S, Marked, linux, only, ran

pytestmark = linux

LEAVES_BEHIND = {
    "a child": "sleep 60 &",
    "a child that holds the pipe and writes": "(while :; do echo late; sleep 0.05; done) &",
    "a child that left the session": "setsid sleep 60 &",
    "a grandchild that left the session": "(setsid sh -c 'sleep 60 & sleep 60' &)",
    "one that ignores SIGTERM": "(trap '' TERM HUP; while :; do sleep 0.1; done) &",
    "one that ignores it, in its own session": "setsid sh -c \"trap '' TERM HUP; while :; do sleep 0.1; done\" &",
    "one that is stopped": "sleep 60 & kill -STOP $!",
    "many": "for n in 1 2 3 4 5 6 7 8 9; do setsid sleep 60 & done",
}
PYTHON_DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.environ.clear()
        os.closerange(0, 100)
        time.sleep(60)
    os._exit(0)
"""


@pytest.mark.parametrize("script", LEAVES_BEHIND.values(), ids=LEAVES_BEHIND)
@pytest.mark.parametrize("how", ["none", "landlock", "bubblewrap"])
async def test_what_a_program_leaves_behind_ends_with_it(script, how, tmp_path):
    marked = Marked()
    confinement = None if how == "none" else Confinement(writable=(tmp_path,))

    outcome, _ = await ran(
        "sh", "-c", f"{script}\necho done", cwd=tmp_path, env=marked.env, confinement=confinement, grace_s=0.5,
        found=only(how),
    )  # fmt: skip

    assert (outcome.exit_code, outcome.why, outcome.confined.how) == (0, "exited", how)
    assert marked.pids() == []


async def test_a_daemon_without_environment_and_pipes_ends_too(tmp_path):
    outcome, _ = await ran(sys.executable, "-c", PYTHON_DAEMON, cwd=tmp_path, grace_s=0.2)

    assert outcome.left_behind == 1


async def test_what_runs_on_is_counted(tmp_path):
    outcome, _ = await ran("sh", "-c", "sleep 60 & sleep 60 & :", cwd=tmp_path)

    assert outcome.left_behind == 2


async def test_what_ends_by_itself_at_once_may_finish(tmp_path):
    _, said = await ran("sh", "-c", "(sleep 0.05; echo late) & echo early", cwd=tmp_path, linger_s=10)

    assert said == "early\nlate\n"


async def test_the_time_limit_gives_a_program_time_to_tidy_up(tmp_path):
    script = "trap 'echo tidy; exit 5' TERM; echo ready; while :; do sleep 0.05; done"

    outcome, said = await ran("sh", "-c", script, cwd=tmp_path, limits=Limits(wall_s=0.5), grace_s=10)

    assert (outcome.exit_code, outcome.why) == (5, "time limit")
    assert said.endswith("tidy\n")


@pytest.mark.parametrize("how", ["none", "landlock", "bubblewrap"])
async def test_a_program_that_ignores_sigterm_is_killed(how, tmp_path):
    marked = Marked()
    script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"

    outcome, said = await ran(
        "sh", "-c", script, cwd=tmp_path, limits=Limits(wall_s=0.5), grace_s=0.2, env=marked.env, found=only(how),
        confinement=Confinement() if how != "none" else None,
    )  # fmt: skip

    assert (outcome.signal, outcome.why, said) == (9, "time limit", "ready\n")
    assert marked.pids() == []


# Cancellation


@pytest.mark.parametrize(
    "script", ["sleep 60", "yes", "setsid sleep 60 & sleep 60", "trap '' TERM; while :; do :; done"]
)
async def test_cancelling_ends_the_tree_before_it_returns(script, tmp_path):
    marked = Marked()
    program = Program(["sh", "-c", script], cwd=tmp_path, env=marked.env, grace_s=0.2)
    running = asyncio.create_task(run(program, lambda *_: None))
    await marked.until(lambda count: count > 0)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert marked.pids() == []


@pytest.mark.parametrize("turns", range(0, 60, 3))
async def test_cancelling_at_any_moment_leaves_nothing(turns, tmp_path):
    marked = Marked()
    running = asyncio.create_task(run(Program(["sh", "-c", "sleep 60"], cwd=tmp_path, env=marked.env)))

    for _ in range(turns):
        await asyncio.sleep(0.001 * (turns % 7))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert marked.pids() == []
    assert len(asyncio.all_tasks()) == 1


BOMB = """
n=$1
[ "$n" -gt 0 ] || exec sleep 60
setsid sh "$0" $((n - 1)) & sh "$0" $((n - 1)) & wait
"""


@pytest.mark.parametrize("how", ["none", "landlock", "bubblewrap"])
async def test_processes_that_multiply_are_ended(how, tmp_path):
    marked = Marked()
    (tmp_path / "bomb").write_text(BOMB)

    outcome, _ = await ran(
        "sh", str(tmp_path / "bomb"), "8", cwd=tmp_path, env=marked.env, limits=Limits(processes=100), found=only(how),
        confinement=Confinement() if how != "none" else None,
    )  # fmt: skip

    assert outcome.why == "process limit"
    assert marked.pids() == []


async def test_cancelling_twice_does_not_wait_for_the_grace(tmp_path):
    marked = Marked()
    script = "trap '' TERM; while :; do sleep 0.05; done"
    running = asyncio.create_task(run(Program(["sh", "-c", script], cwd=tmp_path, env=marked.env, grace_s=3_600)))
    await marked.until(lambda count: count > 1)

    running.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(asyncio.CancelledError):
            await running

    assert marked.pids() == []


# The death of others

HOST = """
import asyncio, sys
from pathlib import Path
from pluggent_process_engine.program import Program
from pluggent_process_engine.running import run
script = "setsid sleep 60 & sleep 60"
asyncio.run(run(Program(["sh", "-c", script], cwd="/", env={"TEST_MARK": sys.argv[1]}, grace_s=0.5)))
"""


def started(file: Path, marked: Marked) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(file), marked.env["TEST_MARK"]]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)  # noqa: S603 (this interpreter)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_nothing_survives_the_host(number, tmp_path):
    marked = Marked()
    file = tmp_path / "host.py"
    file.write_text(HOST)
    host = started(file, marked)
    try:
        await marked.until(lambda count: count >= 3)

        host.send_signal(number)
        await asyncio.to_thread(host.wait, WAIT_S)

        await marked.until(lambda count: count == 0)
    finally:
        host.kill()
        host.wait()


def launcher_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def test_nothing_survives_the_launcher(tmp_path):
    marked = Marked()
    program = Program(["sh", "-c", "setsid sleep 60 & sleep 60"], cwd=tmp_path, env=marked.env)
    process = await start(program)
    running = asyncio.create_task(process.finished())
    await marked.until(lambda count: count >= 3)
    launchers = {launcher_of(pid) for pid in marked.pids()} - set(marked.pids())

    for pid in launchers - {os.getpid(), 1}:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(StartError, match="was killed"):
        await running
    await process.aclose()

    assert marked.pids() == []


async def test_processes_of_a_host_that_died_with_its_launcher_are_found_later(tmp_path):
    marked = Marked()
    file = tmp_path / "host.py"
    file.write_text(HOST)
    host = started(file, marked)
    try:
        await marked.until(lambda count: count >= 3)
        launchers = {launcher_of(pid) for pid in marked.pids()} - set(marked.pids())
        for pid in launchers - {1}:
            os.kill(pid, signal.SIGSTOP)  # it cannot see to the end
        host.kill()
        host.wait()

        for pid in launchers - {1}:
            os.kill(pid, signal.SIGKILL)
        killed = await asyncio.to_thread(kill_orphans, "")

        await marked.until(lambda count: count == 0)
        assert killed >= 1
    finally:
        host.kill()
        host.wait()


async def test_a_mark_that_nothing_has_finds_nothing():
    assert await asyncio.to_thread(kill_marked, "0" * 32) == 0
