"""Profiles in ``~/.aws/config`` and ``~/.aws/credentials``, as Amazon's own tools write them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from configparser import Error, RawConfigParser
from pathlib import Path

_MOST_BYTES = 4_194_304


class ProfileError(Exception):
    """A file of profiles cannot be read; the message names it."""


def profile_name(given: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the profile that counts: the one that is *given*, AWS_PROFILE, or ``default``."""
    return given or environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE") or "default"


def profile(name: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the fields of a profile from both files, those of ``credentials`` first. Raises ProfileError.

    AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name other files. Empty if there is no such profile.
    """
    config = section(name if name == "default" else f"profile {name}", environ)
    return {**config, **_sections("AWS_SHARED_CREDENTIALS_FILE", "credentials", environ).get(name, {})}


def section(name: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the fields of one section of ``~/.aws/config``. Raises ProfileError."""
    return _sections("AWS_CONFIG_FILE", "config", environ).get(name, {})


def _sections(variable: str, name: str, environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    file = Path(environ.get(variable) or f"~/.aws/{name}").expanduser()
    parser = RawConfigParser(default_section="", strict=False, delimiters=("=",), allow_no_value=True)
    try:
        with file.open("rb") as opened:
            parser.read_string(opened.read(_MOST_BYTES).decode())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, Error) as error:
        # Its own words may repeat a line with a secret.
        raise ProfileError(f"{file} cannot be read ({type(error).__name__})") from None
    return {title: {key: value or "" for key, value in parser.items(title)} for title in parser.sections()}
