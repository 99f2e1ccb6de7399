"""What is found in texts, and that a text in pieces shows what it shows as a whole."""

import itertools
from collections.abc import Iterable

import pytest
from each_of import each_of
from hypothesis import example, given, settings, strategies as st
from pluggent_redact.patterns import pattern
from pluggent_redact.shapes import SHAPES
from pluggent_redact.stream_engine import WINDOW, Engine, literals_of

ENGINES = (
    Engine(),
    Engine(literals_of(["SECRETVAL,x", "k3y%token"]), key=b"k"),
    Engine(literals_of(["=hunter2", "PRIVATE", "x" * 20]), (*SHAPES, pattern("staff", "EMP-[0-9]{2,6}|ab1.{0,9}c"))),
)
PARTS = st.sampled_from(
    [
        "sk-", "sk-proj-", "sk-ant-", "ab1", "Zz9", "x" * 30, "AKIA", "ABCDEFGHIJ123456", "ghp_", "a1B2" * 10,
        "github_pat_", "AIza", "xoxb-", "1234-", "eyJ", "eyJhbGciOiJI", ".eyJz", ".", "abc", "-----BEGIN ",
        "RSA PRIVATE KEY-----", "\n", "MIIE" * 30, "-----END ", "RSA PRIVATE KEY", "-----", "password", "=", ": ",
        '"', "'", "hunter2XyZ9!", "[", "[redacted:", "openai-key]", "]", "Bearer ", "authorization: ", "basic ",
        "://", "user", ":", "p4ss", "@", "/", " ", "\\n", "\\", "token", "k3y%", "SECRETVAL", "VAL,x", "\u00e9", "-",
        "_", ",", "api_", "key", "A" * 300, "z9" * 600, "EMP-", "12", "\ud800", "\x00", "\u0130",
    ]
)  # fmt: skip
TEXTS = st.one_of(st.lists(PARTS, max_size=14).map("".join), st.text(max_size=80))


def streamed(engine: Engine, pieces: Iterable[str]) -> tuple[str, int]:
    """Return what is shown of *pieces*, and how much was held back at most."""
    shown, kept, seen, inside, most = "", "", 0, -1, 0
    for piece in pieces:
        step = engine.step(kept + piece, seen, inside)
        shown += step.show
        kept, seen, inside = (kept + piece)[step.start :], step.seen, step.inside
        most = max(most, len(kept))
    return shown + engine.step(kept, seen, inside, final=True).show, most


@given(st.sampled_from(ENGINES), TEXTS, st.lists(st.integers(0, 2_000), max_size=40))
@example(ENGINES[0], "SECRET:hostab1AKIAABCDEFGHIJ123456ghp_" + "A" * 400, [140])
@example(ENGINES[0], "tokenauthorization: redacted:1234-token.eyJ" + "z9" * 600, [12, 43, 500])
@example(ENGINES[1], "tokensk-ant-keyxoxb-redacted:ABCDEFGHIJ123456=hunter2XyZ9!", [20])
@settings(max_examples=1_000, deadline=None)
def test_wherever_a_text_is_cut_it_shows_what_the_whole_shows_and_a_second_time_changes_nothing(engine, text, cuts):
    at = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    whole = engine.redact(text)

    shown, held = streamed(engine, [text[a:b] for a, b in itertools.pairwise(at)])

    assert shown == whole
    assert held <= WINDOW
    assert engine.redact(whole) == whole


@pytest.mark.parametrize("engine", [Engine(), Engine(literals_of(["MIIEpAIB"]), key=b"k")])
def test_letter_by_letter_a_long_private_key_is_never_shown(engine):
    body = "\n".join(("MIIEpAIBAAKCAQEA7" * 4)[:64] for _ in range(200))
    text = f"Here: -----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\nDone."

    shown, held = streamed(engine, text)

    assert "MII" not in shown
    assert shown == engine.redact(text)
    assert shown.endswith("\nDone.")
    assert held < 500


FOUND = {
    "openai-key": "sk-proj-abcDEF1234567890abcdef",
    "anthropic-key": "sk-ant-api03-abcdefghij1234567890",
    "aws-key": "AKIAIOSFODNN7EXAMPLE",
    "github-token": "ghp_" + "a1" * 18,
    "google-key": "AIza" + "Sy_1-" * 7,
    "google-token": "ya29.a0AfB_byC1234567890xyz",
    "slack-token": "xoxb-123456789012-abcdef",
    "slack-webhook": "hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
    "stripe-key": "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "private-key": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----",
}  # fmt: skip


@each_of("kind", FOUND)
@each_of("around", ["{}", "see {}, and go", '{{"a": "x\\n{}"}}', "({})", "key={};"])
def test_every_kind_of_key_is_found_and_named(kind, around):
    shown = Engine().redact(around.format(FOUND[kind]))

    assert FOUND[kind] not in shown
    assert f"[redacted:{kind}]" in shown


def test_every_kind_has_an_example():
    assert {shape.kind for shape in SHAPES} == {*FOUND, "password", "url-password", "bearer-token"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://bob:s3cr3t@db/x", "postgres://bob:[redacted:url-password]@db/x"),
        ("Authorization: Bearer abcd.efgh-1234", "Authorization: Bearer [redacted:bearer-token]"),
        ("bearer abcdefghij1234567890", "bearer [redacted:bearer-token]"),
        ("DB_PASSWORD=Xk29dk!f93", "DB_PASSWORD=[redacted:password]"),
        ('"api_key": "9f8a7b6c5d4e3f2a"', '"api_key": "[redacted:password]"'),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "aws_secret_access_key = [redacted:password]"),
        ("passwd: 'hunter2XyZ'", "passwd: '[redacted:password]'"),
    ],
)
def test_of_what_has_a_name_the_value_is_hidden(text, shown):
    assert Engine().redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "the password is short", "token = self.next_token()", "password = os.environ['X']", "secret: ${SECRET_1}",
        "task-force-of-the-very-long-name", "sk-learn-is-a-library-for-machines", "http://example.org:8080/a@b",
        "password=<your password 1>", "risk-averse1-investors-of-the-world", "Bearer of the news and of the letter",
        "token_count = 128000", "AKIA", "eyJ", "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        "https://user@host/path", "[redacted:openai-key]", "3b2c0c9f1e4d5a6b7c8d9e0f1a2b3c4d5e6f7a8b",
    ],
)  # fmt: skip
def test_ordinary_text_is_the_same_object(text):
    assert Engine().redact(text) is text


def test_a_fingerprint_tells_the_same_secret_from_another_and_only_with_the_key():
    one, two = "ghp_" + "a1" * 18, "ghp_" + "b2" * 18
    shown = [Engine(key=key).redact(text) for key in (b"k", b"l") for text in (one, two, one)]

    assert shown[0] == shown[2] != shown[1]
    assert shown[0] != shown[3]
    assert len(shown[0]) == len("[redacted:github-token:0123456789abcdef]")


def test_a_secret_of_any_length_is_hidden_whole():
    value = "".join(f"{n:05}" for n in range(1_000))
    engine = Engine(literals_of([value]))

    shown, held = streamed(engine, f"a {value} b")

    assert shown == engine.redact(f"a {value} b") == f"a {'[redacted:secret]' * 5} b"
    assert held <= WINDOW
