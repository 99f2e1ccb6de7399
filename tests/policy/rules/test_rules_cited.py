"""Every rule of policy that code holds is cited by a test."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
RULES = {*range(1, 45)}
WITHOUT_CODE = {33, 43}
"""Process hooks, shadow policies."""
CITATION = re.compile(r"\b(?:rules?|policy) (\d+(?:(?:, | and | to )\d+)*)", re.IGNORECASE)


def cited(text: str) -> set[int]:
    """Return the numbers that *text* cites: ``rule 7``, ``rules 24, 25 and 26``, ``rules 1 to 6``."""
    numbers: set[int] = set()
    for citation in CITATION.findall(text):
        for part in re.split(", | and ", citation):
            first, *last = map(int, part.split(" to "))
            numbers |= {*range(first, (last or [first])[0] + 1)}
    return numbers


def test_every_rule_is_cited():
    texts = [path.read_text("utf-8") for path in TESTS.rglob("test_*.py") if path != Path(__file__)]

    assert set[int]().union(*map(cited, texts)) == RULES - WITHOUT_CODE


def test_citations_are_read_as_they_are_written():
    assert cited("Rule 7. The rules 24, 25 and 26; policy 36, rules 1 to 3") == {1, 2, 3, 7, 24, 25, 26, 36}
