"""Real shells run exactly the commands, and write exactly the files, that the splitter announces.

Every program of the lines is one that only notes its name and arguments. Where no shell runs a line differently
from what was announced, an approval by parts means what it says.
"""

# Long tables, and every line is one that only notes what it was called with.
# ruff: noqa: E501, S603

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings, strategies as st
from pluggent_shell.shell_commands import Step, command_text
from pluggent_shell.shell_line import CannotSplitError, split

SHELLS = [path for name in ("dash", "bash", "busybox") if (path := shutil.which(name))]
NAMES = ("a", "b", "c")
NOTE = """#!/bin/sh
for word in "${0##*/}" "$@"; do printf '%s\\0' "$word"; done >> "$NOTES.$$"
exit $((${#1} % 2))
"""
FRAGMENTS = [
    "a", "b", "c", "x", "yy", "A=1 ", "B=", "-x", " ", " ", " ", "\n", ";", "&&", "||", "|", "&", "(", ")", "'", '"', "\\", "$", "`",
    "<", ">", ">>", "2>", "2>&1", ">&2", "<<E\n", "\nE\n", "<<'E'\n", "<<-E\n", "\tE\n", "#", "=", "~", "*", "?", "[", "]", "{", "}",
    "!", "\\\n", "\t", "$(", "${x}", "$x", "'x y'", '"x y"', "if ", "then ", "fi", "do", "time ", "é", "/dev/null", "f1", "f2", "> f1",
    ">> f2", "< f1", ">|", "<>", "&>", "|&", ";;", "0", "1", "12", "[[", "]]", ":", ",", "%", "@", "^", "+", "+=", "() ", "E", "-",
]  # fmt: skip
LINES = st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=14).map("".join)
# Most random lines are refused: these are mostly not.
WORD = st.sampled_from(
    ["x", "'x y'", '"p q"', "-x", "x\\ y", "a'b'c", '"$"', "=", "A=1", "x=y", "#x", "~", "%", "!", "[", "]"]
)
COMMAND = st.tuples(
    st.sampled_from(["", "", "A=1 ", "A= B='x y' "]), st.sampled_from(NAMES), st.lists(WORD, max_size=3),
    st.sampled_from(["", "", "", " > f1", " 2> f2", " 2>&1", " >f3<f0", " >&2", " <<E\nx 'y\nE\n", " << 'E'\n$x\\\nE\n"]),
).map(lambda each: f"{each[0]}{each[1]} {' '.join(each[2])}{each[3]}")  # fmt: skip
LIST = st.lists(
    st.tuples(COMMAND, st.sampled_from([";", "&&", "||", "|", "&", "\n", " \\\n; ", " && \\\n", " # c\n", "\n\n"])),
    min_size=1,
    max_size=4,
).map(lambda each: "".join(f"{command}{operator}" for command, operator in each))
NESTED = st.one_of(LIST, st.tuples(LIST, LIST).map(lambda each: f"({each[0]}\n) > f4\n{each[1]}"))
needs_shells = pytest.mark.skipif(len(SHELLS) < 2, reason="needs two shells to compare, such as dash and bash")


class Ran:
    """What a shell did: the commands with their words, and the files that are new."""

    def __init__(self, line: str, shell: str) -> None:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            (folder / "bin").mkdir()
            (folder / "work").mkdir()
            (folder / "work" / "f0").write_text("")
            for name in NAMES:
                (folder / "bin" / name).write_text(NOTE)
                (folder / "bin" / name).chmod(0o755)
            words = [shell, "sh"] if shell.endswith("busybox") else [shell]
            env = {"PATH": f"{folder}/bin", "NOTES": f"{folder}/notes", "LC_ALL": "C.UTF-8"}
            until_all_end, held = os.pipe()
            done = subprocess.run(
                [*words, "-c", f"{line}\nwait"], cwd=folder / "work", env=env, stdin=subprocess.DEVNULL,
                capture_output=True, timeout=20, check=False, pass_fds=(held,),
            )  # fmt: skip
            os.close(held)
            with os.fdopen(until_all_end, "rb") as pipe:  # what runs in the background of a subshell, too
                pipe.read()
            self.errors = done.stderr.decode(errors="replace")
            self.files = {path.name for path in (folder / "work").iterdir()} - {"f0"}
            self.commands = [
                command_text(note.read_text().split("\0")[:-1]) for note in sorted(folder.glob("notes.*"))
            ]  # fmt: skip


def announced(steps: tuple[Step, ...]) -> tuple[set[str], set[str]]:
    """Return the commands, without assignments, and the files that *steps* name."""
    commands, files = set(), set()
    for step in steps:
        words = shlex.split(step.text)
        while words and "=" in words[0] and not step.text.startswith("'"):
            words.pop(0)
        commands.add(command_text(words))
        for redirection in step.redirections:
            operator, _, target = redirection.partition(" ")
            if not operator.endswith("<<"):
                files.add(shlex.split(target)[0])
    return commands, files


def runs_as_announced(line: str, shell: str) -> None:
    steps = split(line)
    assume(all(step.known for step in steps))
    ran = Ran(line, shell)

    commands, files = announced(steps)
    assert {command for command in ran.commands if command not in commands} == set(), (line, shell, ran.errors)
    assert ran.files - files == set(), (line, shell, ran.errors)


@needs_shells
@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(line=NESTED)
@example(line="a &\\\n& b")
@example(line="a 'x\ny' > f1; b")
def test_a_shell_runs_what_was_announced(shell, line):
    try:
        split(line)
    except CannotSplitError:
        assume(False)

    runs_as_announced(line, shell)


@needs_shells
@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(line=LINES)
def test_a_shell_runs_what_was_announced_of_any_text(shell, line):
    try:
        split(line)
    except CannotSplitError:
        assume(False)

    runs_as_announced(line, shell)


@needs_shells
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("a x; b", ["a x", "b"]),
        ("a x && b", ["a x"]),
        ("a x || b", ["a x", "b"]),
        ("(a; b) > f1", ["a", "b"]),
        ("A=1 a 'x y'", ["a 'x y'"]),
        ("'A=1' a; b", ["b"]),
        ("a <<E; b\nc\nE\nc x", ["a", "b", "c x"]),
        ("a \\\n  x # b", ["a x"]),
        ("a 'b; c' \"x'y\" \\;", ["a 'b; c' 'x'\"'\"'y' ';'"]),
        ("a [ ]", ["a '[' ']'"]),
        ("a = A=1 x=~1", None),
    ],
)
def test_every_command_of_a_line_is_run(shell, line, commands):
    if commands is None:
        assert not all(step.known for step in split(line))
        return

    assert sorted(Ran(line, shell).commands) == sorted(commands)
