"""What importing a plugin costs at start-up, measured in a process of its own. POSIX only.

Net: the host and the contract are imported before the clock starts, as they are before any plugin
is. One process for each plugin, so that it does not matter which came first and brought a library
that several use.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple, cast

from pluggent_plugin_loader.catalog import PluginRecord

LIMIT_S = 30.0
_PROGRAM = "import sys; sys.path[:] = sys.argv[3:]; from pluggent_cli.doctor.import_cost import main; main()"
_LAST_WORDS = 200


class Cost(NamedTuple):
    """Milliseconds of CPU and of the clock, the number of modules imported, and the other packages among them.

    ``problem`` says what went wrong, empty otherwise. ``deadly``: it would not have come back, or
    would have taken the process with it that imports it.
    """

    cpu_ms: float = 0.0
    wall_ms: float = 0.0
    modules: int = 0
    packages: tuple[str, ...] = ()
    problem: str = ""
    deadly: bool = False


async def import_cost(records: Sequence[PluginRecord], limit_s: float = LIMIT_S) -> Cost:
    """Return what importing the entry points of one plugin costs together; it may take *limit_s* seconds."""
    modules = sorted({record.value.partition(":")[0] for record in records})
    reader, writer = os.pipe()
    try:
        # -P: nothing is imported from the working directory. The plugin's own output goes nowhere.
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-c", _PROGRAM, str(writer), json.dumps(modules), *sys.path,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
            pass_fds=(writer,), start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        os.close(reader)
        os.close(writer)
        return Cost(problem=f"no process could be started: {error.strerror}")
    os.close(writer)
    try:
        async with asyncio.timeout(limit_s):
            await process.wait()
        return _read(reader, process.returncode)
    except TimeoutError:
        return Cost(problem=f"importing it takes longer than {limit_s:g} s", deadly=True)
    finally:
        os.close(reader)
        # Also what the plugin started; its group is its own.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _read(reader: int, code: int | None) -> Cost:
    os.set_blocking(reader, False)
    try:
        plain: object = json.loads(os.read(reader, 65_536))
        fields = cast("dict[str, Any]", plain)
        made = Cost(*(fields[name] for name in Cost._fields))
        return made._replace(packages=tuple(made.packages))
    except (OSError, ValueError, TypeError, KeyError):
        how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        return Cost(problem=f"importing it ended the process {how}", deadly=True)


# ---- in that process --------------------------------------------------------------------


def main() -> None:
    """Import what the arguments name and write what it costs."""
    for name in ("pluggent_host.host", "pluggent_plugin_loader.loader"):  # what is there before any plugin
        import_module(name)
    before = set(sys.modules)
    names: list[str] = json.loads(sys.argv[2])
    wall, cpu = time.perf_counter(), time.process_time()
    problem = ""
    try:
        for name in names:
            import_module(name)
    except BaseException as error:  # noqa: BLE001 (a plugin may raise anything, SystemExit too)
        problem = f"{type(error).__name__}: {error}"[:_LAST_WORDS]
    cost = Cost(round((time.process_time() - cpu) * 1e3, 1), round((time.perf_counter() - wall) * 1e3, 1))
    new = set(sys.modules) - before
    own = {name.partition(".")[0] for name in names} | set(sys.stdlib_module_names)
    packages = sorted({name.partition(".")[0] for name in new} - own)
    made = cost._replace(modules=len(new), packages=tuple(packages[:50]), problem=problem)
    os.write(int(sys.argv[1]), json.dumps(made._asdict()).encode())
    os._exit(0)  # nothing that the plugin left behind is waited for
