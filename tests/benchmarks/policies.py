"""What our own policies cost: a tool call under each of them, a record of the audit, a turn that is resumed."""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from answering_models import Caller
from auditing import decision
from calls import calls
from figures import row, show
from permitting import rule, settings
from pluggent_audit.plugin import Audit
from pluggent_audit.settings import AuditSettings
from pluggent_budget.plugin import Budget
from pluggent_budget.settings import BudgetSettings, Limit
from pluggent_hookspecs import tool
from pluggent_hookspecs.observations import Observation
from pluggent_host import Host
from pluggent_host.settings import HostSettings
from pluggent_permissions.plugin import Permissions

ROUNDS = 40
RECORDS = 300
AUDIT_US = 25.0
"""CPU µs of one record without fsync."""
RULES = 10


def main() -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory(prefix="pluggent-benchmark-") as scratch:
        asyncio.run(print_calls(Path(scratch)))
        print_records(Path(scratch) / "records")
        asyncio.run(print_resumed(Path(scratch)))


async def print_calls(scratch: Path) -> None:
    """Print what a call costs under each plugin, all else as without."""
    show("one tool call (transcript in memory) under a policy of ours", "CPU µs")
    every = [permissions(), budget(), Audit(AuditSettings(folder=str(scratch / "every")))]
    plugins: dict[str, Sequence[object]] = {
        "none": (),
        f"permissions, {RULES} rules on an argument": (permissions(),),
        "budget in memory, a limit for turns and one for days": (budget(),),
        "audit, no fsync": (Audit(AuditSettings(folder=str(scratch / "audit"))),),
        "all three": every,
    }
    for name, policies in plugins.items():
        row(name, await calls(policies, None))


def permissions() -> Permissions:
    """Return rules that all have to be looked at, of which the last allows."""
    looked_at = [rule(f"r{n}", "deny", when={"tool": "*", "arguments": {"a": {"gt": 1000 + n}}}) for n in range(RULES)]
    return Permissions(settings({"rules": [*looked_at, rule("rest", "allow")]}))


def budget() -> Budget:
    """Return limits that are far away."""
    most = 1_000_000_000
    limits = (Limit(per=("turn",), tool_calls=most), Limit(per=("principal", "day"), tool_calls=most))
    return Budget(BudgetSettings(limits=limits, path=":memory:"))


def print_records(folder: Path) -> None:
    """Print what writing one record costs the audit."""
    show("one record of a decision in the audit's log, no fsync", "CPU µs")
    record = decision(1, capability="app:tools:tool/add", call_id="call_1", arguments_json=b'{"a":1,"b":2}')
    for fields in ("digests", "all"):
        audit = Audit(AuditSettings(folder=str(folder / fields), fields=fields))
        audit.write_record(record)
        row(f"fields = {fields}", [written(audit, record) for _ in range(ROUNDS)], goal=AUDIT_US)
        audit.close()


def written(audit: Audit, record: Observation) -> float:
    """Return the CPU microseconds of one record."""
    before = time.process_time()
    for _ in range(RECORDS):
        audit.write_record(record)
    return 1e6 * (time.process_time() - before) / RECORDS


async def print_resumed(folder: Path) -> None:
    """Print what it costs to pause a turn with one call, and to continue it once a person has agreed."""
    show("a turn with one call that waits for a person (fsync off)", "CPU µs")
    waiting = HostSettings(on_ask="pause", strict=True, fsync="off")
    for kind, state in (("memory", None), ("file", folder / "sessions")):
        pauses: list[float] = []
        resumes: list[float] = []
        async with Host.open(
            model="caller/m", plugins=[Caller(1, "post")], tools=[post], installed=False, state_dir=state,
            config=waiting,
        ) as host:  # fmt: skip
            for number in range(ROUNDS + 1):
                paused, resumed = await resumed_turn(host, f"s{number}")
                pauses.append(paused)
                resumes.append(resumed)
        row(f"until it pauses, transcript in {kind}", pauses[1:])
        row(f"resumed to its end, transcript in {kind}", resumes[1:])


@tool(effects=["messaging"])
async def post(a: int, b: int) -> int:
    """Post something."""
    return a + b


async def resumed_turn(host: Host, id: str) -> tuple[float, float]:
    """Return the CPU microseconds of a turn before and after a person was asked."""
    async with await host.session(id) as session:
        begun = time.process_time()
        assert (await session.say("go")).why == "paused"
        paused = time.process_time()
        assert (await session.resume({"call_0": True})).text == "done"
        return 1e6 * (paused - begun), 1e6 * (time.process_time() - paused)


if __name__ == "__main__":
    main()
