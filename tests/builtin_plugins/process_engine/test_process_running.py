"""Programs that run to their end: status, output, environment, limits, and what cannot be started."""

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from pluggent_process_engine.program import OPEN, Limits, Outcome, Program, StartError
from pluggent_process_engine.running import run, start
from programs import WAIT_S, Marked, descriptors, linux, ran


@pytest.mark.parametrize(
    ("script", "exit_code", "number", "words"),
    [
        ("exit 0", 0, None, "exit status 0"),
        ("exit 3", 3, None, "exit status 3"),
        ("kill -KILL $$", None, 9, "killed by SIGKILL"),
        ("kill -TERM $$", None, 15, "killed by SIGTERM"),
    ],
)
async def test_the_end_of_a_program_is_data(script, exit_code, number, words, tmp_path):
    outcome, _ = await ran("sh", "-c", script, cwd=tmp_path)

    assert (outcome.exit_code, outcome.signal, outcome.why, outcome.words) == (exit_code, number, "exited", words)


async def test_stdout_and_stderr_come_in_the_order_of_writing(tmp_path):
    _, said = await ran("sh", "-c", "for n in 1 2 3; do echo o$n; echo e$n >&2; done", cwd=tmp_path)

    assert said.split() == ["o1", "e1", "o2", "e2", "o3", "e3"]


async def test_both_streams_are_apart_where_that_is_wanted(tmp_path):
    said: list[tuple[str, bytes]] = []
    program = Program(["sh", "-c", "echo a; echo b >&2"], cwd=tmp_path, merged=False)

    await run(program, lambda stream, data: said.append((stream, data)))

    assert sorted(said) == [("stderr", b"b\n"), ("stdout", b"a\n")]


@pytest.mark.parametrize("data", [None, b"", b"some", b"x" * 3_000_000])
async def test_stdin_has_what_was_given_and_then_ends(data, tmp_path):
    _, said = await ran("wc", "-c", cwd=tmp_path, stdin=data)

    assert int(said) == len(data or b"")


async def test_a_program_that_does_not_read_its_stdin_blocks_nothing(tmp_path):
    outcome, _ = await ran("true", cwd=tmp_path, stdin=b"x" * 3_000_000)

    assert outcome.exit_code == 0


async def test_a_program_may_be_talked_to(tmp_path):
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    process = await start(Program(["cat"], cwd=tmp_path, stdin=OPEN))
    running = asyncio.create_task(process.finished(lambda _, data: heard.put_nowait(data)))

    async with asyncio.timeout(WAIT_S):
        for word in (b"one", b"two"):
            await process.write(word)
            assert await heard.get() == word
        process.close_stdin()
        outcome = await running
    await process.aclose()

    assert outcome.exit_code == 0
    with pytest.raises(BrokenPipeError):
        await process.write(b"three")


async def test_a_writer_waits_for_a_program_that_does_not_read(tmp_path):
    process = await start(Program(["sh", "-c", "sleep 0.2; wc -c"], cwd=tmp_path, stdin=OPEN))
    said: list[bytes] = []
    running = asyncio.create_task(process.finished(lambda _, data: said.append(data)))

    async with asyncio.timeout(WAIT_S):
        await process.write(b"x" * 1_000_000)
        process.close_stdin()
        await running
    await process.aclose()

    assert int(b"".join(said)) == 1_000_000


async def test_little_of_the_environment_is_inherited(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "hush")
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("LC_TIME", "C")

    _, said = await ran("env", cwd=tmp_path, env={"MINE": "1"})

    names = {line.partition("=")[0] for line in said.splitlines()}
    assert {"MINE", "PATH", "LC_TIME", "PLUGGENT_INSIDE"} <= names
    assert names.isdisjoint({"OPENAI_API_KEY", "LD_PRELOAD"})


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "IFS", "BASH_FUNC_git%%", "a b", ""]
)
def test_variables_that_load_code_are_refused(name, tmp_path):
    with pytest.raises(ValueError, match=r"loads code|is not the name"):
        Program(["true"], cwd=tmp_path, env={name: "x"})


async def test_nothing_but_the_standard_streams_is_inherited(tmp_path):
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        _, said = await ran("sh", "-c", "ls /proc/self/fd", cwd=tmp_path)

    assert len(said.split()) == 4  # and the one with which ls reads the folder


# Starts that fail


def script_without_first_line(folder: Path) -> str:
    file = folder / "script"
    file.write_text("echo hi\n")
    file.chmod(0o755)
    return str(file)


def not_executable(folder: Path) -> str:
    (folder / "text").write_text("hi")
    return str(folder / "text")


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["no-such-program"], "there is no program 'no-such-program'"),
        ([not_executable], "Permission denied"),
        ([script_without_first_line], "is a script without a first line"),
        (["echo", "a\0b"], "NUL"),
        (["echo", "\ud800"], "lone surrogate"),
        (["echo", "x" * 3_000_000], "too long"),
        (["echo", *["x" * 1_000] * 10_000], "too long"),
        ([], "no program"),
        ([""], "no program"),
        (["/"], "Permission denied"),
    ],
)
async def test_what_cannot_be_started_says_why(argv: list[Any], reason, tmp_path):
    made: list[Any] = [word(tmp_path) if callable(word) else word for word in argv]

    with pytest.raises(StartError, match=reason):
        await ran(*made, cwd=tmp_path)


async def test_a_program_that_is_being_written_cannot_be_started(tmp_path):
    file = Path(shutil.copy("/bin/true", tmp_path / "program"))

    written = os.open(file, os.O_WRONLY)
    try:
        with pytest.raises(StartError, match="Text file busy"):
            await ran(str(file), cwd=tmp_path)
    finally:
        os.close(written)


async def test_a_folder_that_is_gone_is_named(tmp_path):
    with pytest.raises(StartError, match=r"its folder '.*gone' cannot be entered"):
        await ran("true", cwd=tmp_path / "gone")


async def test_the_folder_may_be_removed_meanwhile(tmp_path):
    (tmp_path / "sub").mkdir()

    outcome, said = await ran("sh", "-c", "rmdir ../sub; echo still here", cwd=tmp_path / "sub")

    assert (outcome.exit_code, said) == (0, "still here\n")


# Output


@pytest.mark.parametrize("size", [1, 65_536, 5_000_000])
async def test_all_output_arrives(size, tmp_path):
    _, said = await ran(sys.executable, "-c", f"print('x' * {size}, end='')", cwd=tmp_path)

    assert len(said) == size


async def test_a_program_waits_for_a_slow_reader(tmp_path):
    most = 0
    read = 0

    async def slow(stream: str, data: bytes) -> None:
        nonlocal read, most
        most = max(most, len(data))
        read += len(data)
        await asyncio.sleep(0)

    outcome = await run(Program(["sh", "-c", "yes | head -c 3000000"], cwd=tmp_path), slow)

    assert outcome.exit_code == 0
    assert read == 3_000_000
    assert most <= 65_536


async def test_the_loop_stays_free_while_a_program_writes_without_end(tmp_path):
    async def work() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    process = await start(Program(["yes"], cwd=tmp_path))
    running = asyncio.create_task(process.finished(lambda *_: None))
    try:
        async with asyncio.timeout(WAIT_S):
            await work()
        assert not running.done()
    finally:
        running.cancel()
        await process.aclose()


async def test_a_program_that_closes_its_output_is_waited_for(tmp_path):
    outcome, _ = await ran("sh", "-c", "exec >&- 2>&-; sleep 0.2; exit 7", cwd=tmp_path)

    assert outcome.exit_code == 7


async def test_an_error_of_the_reader_ends_the_program_and_is_raised(tmp_path):
    marked = Marked()

    def broken(stream: str, data: bytes) -> None:
        raise LookupError(stream)

    with pytest.raises(LookupError):
        await run(Program(["yes"], cwd=tmp_path, env=marked.env), broken)

    assert marked.pids() == []


# Limits


@pytest.mark.parametrize(
    ("script", "limits", "why"),
    [
        ("sleep 60", Limits(wall_s=0.2), "time limit"),
        ("yes", Limits(output_bytes=100_000), "output limit"),
        ("while :; do sleep 60 & done", Limits(processes=50), "process limit"),
    ],
)
@linux
async def test_a_limit_ends_all_processes_and_is_named(script, limits, why, tmp_path):
    marked = Marked()

    outcome, _ = await ran("sh", "-c", script, cwd=tmp_path, limits=limits, env=marked.env, grace_s=0.5)

    assert (outcome.why, outcome.words) == (why, f"ended by its {why}")
    assert marked.pids() == []


async def test_rlimits_hold(tmp_path):
    limits = Limits(file_bytes=1_024, open_files=32, cpu_s=5)

    _, said = await ran("sh", "-c", "ulimit -c; ulimit -f; ulimit -n; ulimit -t", cwd=tmp_path, limits=limits)

    assert said.split() == ["0", "2", "32", "5"]


@linux
async def test_nothing_stays_behind_of_many_runs(tmp_path):
    await ran("true", cwd=tmp_path)
    before = descriptors()

    outcomes = await asyncio.gather(*(ran("sh", "-c", "echo x", cwd=tmp_path) for _ in range(20)))

    assert {said for _, said in outcomes} == {"x\n"}
    assert {type(outcome) for outcome, _ in outcomes} == {Outcome}
    assert descriptors() == before
    assert len(asyncio.all_tasks()) == 1
