"""Where the models of a publisher are at Google's Vertex AI. Values only: nothing is opened or read here."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import attrs

HOST = "aiplatform.googleapis.com"
_NAME = re.compile(r"[a-z0-9][a-z0-9.:-]*")


def check_place(_: object, attribute: attrs.Attribute[Any], value: str) -> None:
    """Refuse, as a validator of attrs, what names no project or location; empty stands for none."""
    if value and not _NAME.fullmatch(value):
        raise ValueError(
            f"{attribute.name}: {value!r} is not one; expected a name such as my-project-7 or europe-west4"
        )


def vertex_url(project: str, location: str, publisher: str, version: str = "v1") -> str:
    """Return the base URL of the models of *publisher*.

    >>> vertex_url("acme-7", "europe-west4", "google")
    'https://europe-west4-aiplatform.googleapis.com/v1/projects/acme-7/locations/europe-west4/publishers/google'
    """
    place = "" if location == "global" else f"{location}-"
    return f"https://{place}{HOST}/{version}/projects/{project}/locations/{location}/publishers/{publisher}"


def is_vertex(base_url: str) -> bool:
    """Say whether *base_url* is at Vertex AI.

    >>> is_vertex("https://europe-west4-aiplatform.googleapis.com/v1"), is_vertex("https://example.org/v1")
    (True, False)
    """
    host = urlsplit(base_url).hostname or ""
    return host == HOST or host.endswith(f"-{HOST}")
