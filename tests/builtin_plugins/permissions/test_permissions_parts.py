"""Of a command that its tool divides into parts, an allowing rule has to fit each, a forbidding one any."""

import attrs
import pytest
from permitting import call, rule, ruling


def decided(verdict: str, path: str, glob: str, *parts: str, whole: str = "whole") -> str | None:
    one = rule("r", verdict, when={"tool": "*", "arguments": {path: {"glob": glob}}})
    return ruling({"rules": [one]}, attrs.evolve(call(command=whole), parts={"command": parts}))


@pytest.mark.parametrize(("parts", "allowed"), [
    (("git status",), True),
    (("git status", "git log"), True),
    (("git status", "rm x"), False),
    (("rm x", "git status"), False),
    ((), False),
])  # fmt: skip
@pytest.mark.parametrize("path", ["command", "*", "**"])
def test_an_allowing_rule_has_to_fit_every_part(path: str, parts: tuple[str, ...], allowed: bool):
    whole = "git status; rm x" if path != "command" else "whole"

    assert (decided("allow", path, "git *", *parts, whole=whole) == "allow") is allowed


@pytest.mark.parametrize(("parts", "whole", "denied"), [
    (("rm x",), "", True),
    (("git status", "rm x"), "", True),
    (("git status",), "rm x", True),
    (("git status",), "git status", False),
    ((), "rm x", True),
    ((), "for f in a; do rm $f; done", True),
])  # fmt: skip
@pytest.mark.parametrize("path", ["command", "*", "**"])
@pytest.mark.parametrize("verdict", ["deny", "ask"])
def test_a_forbidding_rule_has_to_fit_one_part_or_the_whole(
    verdict: str, path: str, parts: tuple[str, ...], whole: str, denied: bool
):
    assert (decided(verdict, path, "rm *", *parts, whole=whole) == verdict) is denied
