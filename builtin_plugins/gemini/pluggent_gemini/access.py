"""How one server is reached: names in paths, and what requests carry."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from pluggent_provider_http.access import Access as HttpAccess, identity_of
from pluggent_provider_http.unsendable import UnsendableError

from pluggent_gemini.settings import PUBLISHER, Server

MODELS = "/models"


class Access(HttpAccess):
    """What requests to *server* carry; *name* and *target* are for errors.

    ``base_url`` is what all paths follow, ``publisher`` what comes before models at Vertex AI.
    """

    def __init__(self, name: str, server: Server, target: str) -> None:
        self.base_url, self.publisher = around_publisher(server.base_url)
        auth = "x-goog-api-key" if server.auth == "key" else server.auth
        super().__init__(name, server, target, identity_of(server, auth))

    def path(self, model: str, verb: str) -> str:
        """Return the path that does *verb* with *model*. Raises UnsendableError for what cannot stand in it."""
        name = model.removeprefix("models/")
        if name in ("", ".", ".."):
            raise UnsendableError(f"a model {model!r} cannot stand in the path of a URL")
        return f"{self.publisher}{MODELS}/{quote(name, safe='')}:{verb}"

    def resource(self, model: str) -> str:
        """Return the name by which bodies refer to *model*."""
        name = f"models/{model.removeprefix('models/')}"
        if not self.publisher:
            return name
        place = urlsplit(self.base_url).path.strip("/").partition("/")[2]
        return f"{place}{self.publisher}/{name}"


def around_publisher(base_url: str) -> tuple[str, str]:
    """Part the base URL of Vertex AI at the publisher: what all requests go below, and what follows for models.

    >>> around_publisher("https://x.test/v1/projects/p/locations/l/publishers/google")
    ('https://x.test/v1/projects/p/locations/l', '/publishers/google')
    >>> around_publisher("https://x.test/v1beta")
    ('https://x.test/v1beta', '')
    """
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")
    if not path.endswith(PUBLISHER):
        return base_url, ""
    return parts._replace(path=path.removesuffix(PUBLISHER)).geturl(), PUBLISHER
