"""Measures this checkout and prints tables. Run by hand, on a quiet machine; no test depends on it.

    PYTHON tests/benchmarks/run.py [start] [calls] [policies] [turns] [mcp] [serving] [walks]

PYTHON: tests/run.py --environment prints it. Figures are CPU time (user + system) of several
rounds; where there is a goal, the fastest round is held against it. ``walks`` counts instead.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path[:0] = [str(Path(__file__).resolve().parents[1] / each) for each in ("support", "support/plugins")]


def main(wanted: list[str]) -> None:
    """Measure what is *wanted*, or everything."""
    if not wanted or "start" in wanted:
        import startup  # each part imports only what it measures

        startup.main()
    if not wanted or "calls" in wanted:
        import calls  # needs the host; the start-up figures do not

        calls.main()
    if not wanted or "policies" in wanted:
        import policies  # needs the plugins that it measures

        policies.main()
    if not wanted or "turns" in wanted:
        import turns  # needs an HTTP client

        turns.main()
    if not wanted or "mcp" in wanted:
        import bench_mcp  # needs the MCP SDK, which takes a second

        bench_mcp.main()
    if not wanted or "serving" in wanted:
        import bench_serving  # the same

        bench_serving.main()
    if not wanted or "walks" in wanted:
        import walks  # needs the host and the offline provider

        walks.main()


if __name__ == "__main__":
    main(sys.argv[1:])
