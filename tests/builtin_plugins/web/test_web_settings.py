import pytest
from pluggent_web.settings import WebSettings


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"allow_private": ("a b",)}, "allow_private: 'a b' is not a host"),
        ({"deny": ("10.0.0.0/40",)}, "deny: '10.0.0.0/40' is not a network"),
        ({"only": ("https://a.example",)}, "only: "),
        ({"timeout_s": 0.0}, "timeout_s"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"max_bytes": 10**9}, "max_bytes"),
        ({"page_chars": 0}, "page_chars"),
        ({"user_agent": "a\r\nX-Evil: 1"}, "user_agent"),
        ({"user_agent": "ü"}, "user_agent"),
        ({"proxy": "socks5://a"}, "proxy"),
    ],
)
def test_a_wrong_setting_is_named(given, says: str):
    with pytest.raises(ValueError, match=says):
        WebSettings(**given)


def test_all_wrong_settings_are_named_at_once():
    with pytest.raises(ValueError, match=r"deny: .*timeout_s: .*page_chars: "):
        WebSettings(deny=("*",), timeout_s=-1, page_chars=-1)
