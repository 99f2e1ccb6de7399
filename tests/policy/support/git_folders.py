"""Repositories of git that attacks on files and commands aim at."""

import asyncio
import subprocess
from pathlib import Path

RUNS = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch {0}; false\n"
"""Settings that have git run a program whenever it looks at the files: the program makes the file {0}."""


def git(folder: Path, *arguments: str) -> None:
    """Run git in *folder*, as somebody; what it says is of no interest."""
    person = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    subprocess.run(["git", "-C", str(folder), *person, *arguments], check=False, capture_output=True)


def repository(folder: Path) -> Path:
    """Return *folder*, made a repository with one commit."""
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "a")
    return folder


async def git_looks_at(folder: Path) -> None:
    """Have git look at the files of *folder*, as a person does later."""
    await asyncio.to_thread(git, folder, "status")
