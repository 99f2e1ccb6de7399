"""The environment of programs: an allow-list, and marks by which the processes of a program are found."""

from __future__ import annotations

from collections.abc import Mapping

from pluggent_process_engine.process_table import marks_with
from pluggent_process_engine.process_tree import MARKS

INHERITED = (
    "HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
    # Where trusted certificate authorities are, in the words of the usual programs and package managers.
    "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "CURL_CA_BUNDLE", "DENO_CERT", "DENO_TLS_CA_STORE", "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH", "NIX_SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA", "NPM_CONFIG_CAFILE", "PIP_CERT",
    "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "npm_config_cafile",
)  # fmt: skip
"""Environment variables that a program inherits, besides LC_*. No keys, tokens or proxies."""
INSIDE = "PLUGGENT_INSIDE"
"""Set for all processes below a host."""


def environment(env: Mapping[str, str], environ: Mapping[str, str], mark: str) -> dict[str, str]:
    """Return the environment of a program below a process with *environ*: little of that, *env*, and the marks.

    >>> environment({"A": "1"}, {"PATH": "/bin", "LC_ALL": "C", "OPENAI_API_KEY": "s3cret"}, "a1")
    {'PATH': '/bin', 'LC_ALL': 'C', 'A': '1', 'PLUGGENT_INSIDE': '1', 'PLUGGENT_PROCESS_MARKS': 'a1'}
    """
    inherited = {name: environ[name] for name in INHERITED if name in environ}
    inherited |= {name: value for name, value in environ.items() if name.startswith("LC_")}
    marks = marks_with(mark, environ.get(MARKS, ""))
    return {**inherited, **env, INSIDE: environ.get(INSIDE) or "1", MARKS: marks}
