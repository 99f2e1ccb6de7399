"""What a person reads before a command runs. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pluggent_shell.plan import Plan
from pluggent_shell.shell_commands import Step, command_text
from pluggent_shell.shell_line import CannotSplitError, split

_ONCE = "An approval for later calls does not cover it."


def preview_text(plan: Plan) -> str:
    """Return the commands one by one, where they run, and what they can reach."""
    return "\n".join((*_commands(plan), *_surroundings(plan)))


def _commands(plan: Plan) -> Iterator[str]:
    if not isinstance(plan.command, str):
        yield f"runs {command_text(plan.command)}, without a shell"
        return
    try:
        steps = split(plan.command)
    except CannotSplitError as error:
        yield f"a shell line that cannot be split into its commands: {error}. {_ONCE}"
        yield from (f"  {line}" for line in plan.command.splitlines())
        return
    yield "runs one command" if len(steps) == 1 else f"runs {len(steps)} commands"
    for number, step in enumerate(steps, 1):
        yield _shown(number, step)
    if not all(step.known for step in steps):
        yield f"What is marked with * depends on variables, file names or other commands. {_ONCE}"


def _shown(number: int, step: Step) -> str:
    joined = f"{step.joined} " if step.joined not in ("", ";") else ""
    redirected = "  ".join((*step.redirections, *step.copies))
    words = "  ".join(filter(None, (step.text or "(all of these)", redirected)))
    lines = f"{joined}{words}".split("\n")
    indent = "  " * (step.depth + 1)
    return f"{indent}{number}{'*' if not step.known else '.'} " + f"\n{indent}   | ".join(lines)


def _surroundings(plan: Plan) -> Iterator[str]:
    yield f"in {plan.program.cwd}"
    confinement = plan.program.confinement
    if confinement is None or plan.confined.how == "none":
        why = f" ({plan.confined.why})" if plan.confined.why else ""
        yield f"not confined{why}: it can read, change and send whatever you can"
    else:
        places = ", ".join(dict.fromkeys(str(path) for path in confinement.writable if path.name != ".git"))
        yield f"{plan.confined}: writes to {places or 'no folder'} and a private /tmp"
    if plan.added:
        # Values may be keys.
        yield f"environment: {', '.join(sorted(plan.added))} from the settings"
    limit = plan.program.limits.wall_s
    yield f"stopped if it runs longer than {limit:.0f} s" if limit is not None else "without a time limit"
