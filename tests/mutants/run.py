"""Measures what the tests of the policy core notice: how many small wrong changes of it let a test fail.

    PYTHON tests/mutants/run.py RESULTS [--count 200] [--seed 1] [--only PART] [arguments of pytest]

Draws *count* mutants, with the same seed the same ones, of the files in ``CORE``; with ``--only``, of
those whose path has that part. Each is run against the tests of the core that run the changed statement,
the quickest first, until one fails, for 60 s of CPU at most; with files and folders, against those of them.
RESULTS gets a line of JSON for each mutant as soon as it is known; started again, the program leaves out
what is there, so it can be ended at any time, and what it has by then is a fair sample. PYTHON has the
pinned tools: ``tests/run.py --environment`` prints it.

What came of a mutant: ``killed`` (by which test), ``hung`` (which the gate would notice too), ``survived``,
``unfinished`` (60 s were not enough), ``not run`` (no test runs the statement).
"""

import argparse
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))

from mutant_runs import Mutant, MutantRuns, Result
from mutations import mutations

ROOT = Path(__file__).resolve().parent.parent.parent
CORE = (
    "host/pluggent_host/hooks/[cov]*.py",
    "host/pluggent_host/hooks/ledgers.py",
    "host/pluggent_host/operations/[aimopq]*.py",
    "host/pluggent_host/operations/tool_call.py",
    "host/pluggent_host/turns/consent.py",
    "host/pluggent_host/turns/[mnrs]e*.py",
    "host/pluggent_host/turns/tool_batch.py",
    "builtin_plugins/function_tools/pluggent_function_tools/arguments.py",
    "builtin_plugins/transcript/pluggent_transcript/[dps]*.py",
)
TESTS = ("tests/host", "tests/policy", "tests/builtin_plugins/contract_values", "tests/builtin_plugins/function_tools")


def main(arguments: Sequence[str]) -> int:
    """Run what has not been run yet, and print the sums."""
    options, others = parser().parse_known_args(arguments)
    # Examples that hypothesis finds are those of a mutant: no other run may begin with them.
    with tempfile.TemporaryDirectory(prefix="pluggent-mutants-") as scratch:
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = scratch
        drawn = draw(options.count, options.seed, options.only)
        known = results(options.results)
        left = [mutant for mutant in drawn if mutant.name not in known]
        if left:
            code = run(left, options.results, others or TESTS)
            if code:
                return code
    known = results(options.results)
    outcomes = Counter(known[mutant.name].outcome for mutant in drawn if mutant.name in known)
    print(f"{len(drawn)} drawn:", ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())))
    return 0


def parser() -> argparse.ArgumentParser:
    """Return what reads the arguments."""
    made = argparse.ArgumentParser(description="How many small wrong changes of the policy core let a test fail.")
    made.add_argument(
        "results", type=lambda given: Path(given).absolute(), help="the file of results, a line of JSON for each mutant"
    )
    made.add_argument("--count", type=int, default=200, help="how many are drawn (200)")
    made.add_argument("--seed", type=int, default=1, help="which ones are drawn (1)")
    made.add_argument("--only", default="", help="a part of the paths of the files that are changed")
    return made


def draw(count: int, seed: int, only: str = "") -> list[Mutant]:
    """Return *count* mutants of the core, or all if there are no more, in an order by chance."""
    files = sorted({file.relative_to(ROOT) for pattern in CORE for file in ROOT.glob(pattern)})
    every = [
        Mutant(file, mutation)
        for file in files
        if only in str(file)
        for mutation in mutations((ROOT / file).read_text(encoding="utf-8"))
    ]
    chosen = random.Random(seed).sample(range(len(every)), min(count, len(every)))  # noqa: S311 (no secret)
    return [every[number] for number in chosen]


def results(file: Path) -> dict[str, Result]:
    """Return what *file* says of each mutant, by its name."""
    if not file.exists():
        return {}
    lines = file.read_text(encoding="utf-8").splitlines()
    return {found.mutant: found for found in (Result(**json.loads(line)) for line in lines)}


def run(mutants: Sequence[Mutant], file: Path, tests: Sequence[str]) -> int:
    """Run *mutants*, and write what comes of them behind what *file* has. Return pytest's exit code."""
    with file.open("a", encoding="utf-8") as results:

        def record(result: Result) -> None:
            print(json.dumps(attrs.asdict(result)), file=results, flush=True)

        os.chdir(ROOT)
        plugin = MutantRuns(ROOT, mutants, record)
        return pytest.main(["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", *tests], plugins=[plugin])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
