"""Says what a body is, by its content first and by its header second: the header may lie. Pure."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What is done with a body."""

    HTML = "html"
    TEXT = "text"
    IMAGE = "image"
    PDF = "pdf"
    OTHER = "other"


_HEAD = 1024
_TEXT_TYPES = (
    "application/json", "application/xml", "application/javascript", "application/ecmascript", "application/toml",
    "application/yaml", "application/x-yaml", "application/x-ndjson", "application/jsonl", "application/x-sh",
    "application/sql", "application/graphql", "application/rtf", "application/x-httpd-php", "image/svg+xml",
)  # fmt: skip
_HTML_TYPES = ("text/html", "application/xhtml+xml")
_CONTROLS = frozenset(range(0x20)) - frozenset(b"\t\n\r\f\x1b")


def kind_of(body: bytes, content_type: str) -> tuple[Kind, str]:
    """Return what *body* is, and its media type.

    >>> kind_of(b"%PDF-1.7 ...", "text/html"), kind_of(b"<p>a</p>", "text/plain; charset=utf-8")
    ((<Kind.PDF: 'pdf'>, 'application/pdf'), (<Kind.TEXT: 'text'>, 'text/plain'))
    """
    said = content_type.partition(";")[0].strip().lower()
    head = body[:_HEAD]
    if image := image_type(head):
        return Kind.IMAGE, image
    if head.lstrip()[:5] == b"%PDF-":
        return Kind.PDF, "application/pdf"
    if said in _HTML_TYPES:
        return (Kind.HTML if _is_text(head) else Kind.OTHER), said
    if said.startswith("text/") or said in _TEXT_TYPES or said.endswith(("+json", "+xml")):
        return (Kind.TEXT if _is_text(head) else Kind.OTHER), said
    if said in ("", "application/octet-stream", "application/unknown", "unknown/unknown", "*/*") and _is_text(head):
        begin = head.lstrip(b"\xef\xbb\xbf \t\r\n\f")[:15].lower()
        is_html = begin.startswith((b"<!doctype html", b"<html", b"<head", b"<body"))
        return (Kind.HTML, "text/html") if is_html else (Kind.TEXT, said or "text/plain")
    return Kind.OTHER, said or "application/octet-stream"


def image_type(head: bytes) -> str:
    """Return the media type of an image that models can look at, "" if *head* begins none."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if head.startswith(b"RIFF") and head[8:12] == b"WEBP" else ""


def _is_text(head: bytes) -> bool:
    """Say whether *head* begins a text: UTF-16 by its mark, else few control characters."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    return sum(byte in _CONTROLS for byte in head) <= len(head) // 50
