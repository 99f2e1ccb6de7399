"""Small wrong changes of the policy core are made one at a time, and the tests of it notice them."""

import json
import subprocess
import sys
from pathlib import Path

from each_of import each_of
from mutations import code_of, mutated, mutations

RUN = Path(__file__).parent / "run.py"
STEP = "tests/host/turns/test_next_step.py"


def changes(body: str) -> list[str]:
    """Return the changes of a function with this body."""
    return [each.change for each in mutations("def f(a, b):\n    " + body)]


@each_of(
    ("body", "change"),
    [
        ("a < b", "a < b -> a <= b"),
        ("a is not b", "a is not b -> a is b"),
        ("a and b", "a and b -> a or b"),
        ("not a", "not a -> a"),
        ("a + b", "a + b -> a - b"),
        ("a[1]", "1 -> 2"),
        ("a = True", "True -> False"),
        ("any(a)", "any(a) -> all(a)"),
        ("a if b else 1", "a if b else 1 -> 1 if b else a"),
        ("[each for each in a if each]", "[each for each in a if each] -> [each for each in a]"),
        ("if a: b()", "if a: -> if not a:"),
        ("while a: b()", "while a: -> while not a:"),
        ("return a", "return a -> return None"),
        ("a(b)", "a(b) -> pass"),
        ("a += b", "a += b -> pass"),
        ("raise a", "raise a -> pass"),
        ("for each in a: break", "break -> pass"),
    ],
)
def test_what_can_be_wrong_is_changed(body, change):
    assert change in changes(body)


@each_of(
    "body", ["assert a < 1", "x: dict[str, 1] = a", "a = 'text'", "a = f'{b + 1}'", "return None", "def g(c=1): ..."]
)
def test_texts_assertions_and_annotations_are_left_alone(body):
    assert changes(body) == []


def test_a_change_is_of_one_function_and_of_nothing_else():
    source = "class A:\n    def f(self, a):\n        return a < 1\n\n    def g(self):\n        return 1\n"
    (change,) = (each for each in mutations(source) if each.change == "a < 1 -> a <= 1")

    code, before = mutated(source, "a.py", change), code_of(compile(source, "a.py", "exec"), "A.f")

    assert (change.function, change.first_line, change.last_line) == ("A.f", 3, 3)
    assert code is not None
    assert before is not None
    assert (code.co_name, code.co_code == before.co_code) == ("f", False)


def test_a_guard_belongs_to_its_match_and_a_condition_to_its_head():
    source = "def f(a):\n    match a:\n        case 1:\n            pass\n        case _ if a > 2:\n            a()\n"
    by_change = {each.change: each for each in mutations(source)}

    assert (by_change["a > 2 -> a >= 2"].first_line, by_change["a > 2 -> a >= 2"].last_line) == (2, 6)
    assert (by_change["a() -> pass"].first_line, by_change["a() -> pass"].last_line) == (6, 6)


def test_mutants_of_the_core_are_run_once_and_most_are_noticed(tmp_path):
    file = tmp_path / "results.jsonl"
    command = [sys.executable, "-P", str(RUN), str(file), "--count", "6", "--only", "turns/next_step", STEP]

    first, again = (subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(2))  # noqa: S603

    results = [json.loads(line) for line in file.read_text().splitlines()]
    assert len({each["mutant"] for each in results}) == len(results) == 6
    killed = [each for each in results if each["outcome"] == "killed"]
    assert len(killed) >= 3
    assert all(each["test"].startswith(STEP) for each in killed)
    assert first.stdout.splitlines()[-1] == again.stdout.splitlines()[-1]
    assert f"{len(killed)} killed" in again.stdout
