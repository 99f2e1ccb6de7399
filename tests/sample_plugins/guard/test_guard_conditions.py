"""What patterns are held against, and how many values have to match."""

import pytest
from pluggent_guard.conditions import condition, text_of
from pluggent_guard.rules import bind, decide
from pluggent_guard.settings import Action, Rule
from pluggent_hookspecs import Allow, Deny

PAY = "acme:tool/pay"


def answer(action: Action, when: dict[str, object], arguments: dict[str, object]) -> object:
    rule = Rule(action=action, tool=PAY, when=when)
    return decide([bind(rule, 0, [PAY])], PAY, arguments)  # type: ignore[arg-type] # arguments are JSON


@pytest.mark.parametrize(
    ("to", "allowed"), [(["x@good.example"], True), (["x@good.example", "evil@bad.example"], False), ([], False)]
)
def test_to_allow_every_value_has_to_be_good(to: list[str], allowed: bool) -> None:
    assert isinstance(answer(Action.ALLOW, {"to.*": "*@good.example"}, {"to": to}), Allow) is allowed


def test_to_deny_one_bad_value_is_enough() -> None:
    found = answer(Action.DENY, {"to.*": "*@bad.example"}, {"to": ["x@good.example", "y@bad.example"]})

    assert isinstance(found, Deny)


@pytest.mark.parametrize("pattern", [500, 500.0, "500"])
@pytest.mark.parametrize("given", [500, 500.0])
def test_a_whole_number_is_the_same_however_it_is_written(pattern: object, given: float) -> None:
    assert isinstance(answer(Action.DENY, {"amount": pattern}, {"amount": given}), Deny)


def test_numbers_inside_other_values_are_written_alike_too() -> None:
    assert text_of({"a": [1.0, {"b": 2.5}]}) == '{"a":[1,{"b":2.5}]}'
    assert condition("a", ("*1*",))({"a": [1.0]})
