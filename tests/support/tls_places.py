"""Certificates made for one test run by openssl, and a proxy on loopback that leads anywhere."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path

import attrs
from loopback import Loopback


@attrs.frozen
class Certificates:
    """A certificate authority of our own, and a server's certificate for 127.0.0.1 and model.test."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Certificates:
        """Make them in *folder*."""
        new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        may = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
        openssl(folder, *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Our own", *may)
        openssl(folder, "req", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "csr", "-subj", "/CN=x")
        # Python 3.13 and later want to know by which key a certificate was signed.
        keys = "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid,issuer\n"
        (folder / "names").write_text(f"subjectAltName=DNS:model.test,IP:127.0.0.1\n{keys}")
        signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
        openssl(folder, "x509", "-req", "-in", "csr", "-out", "server.pem", *signing)
        (folder / "hashed").mkdir()
        digest = openssl(folder, "x509", "-hash", "-noout", "-in", "ca.pem").strip()
        shutil.copy(folder / "ca.pem", folder / "hashed" / f"{digest}.0")
        return cls(folder)

    @property
    def file(self) -> str:
        """What SSL_CERT_FILE names."""
        return str(self.folder / "ca.pem")

    @property
    def hashed(self) -> str:
        """What SSL_CERT_DIR names."""
        return str(self.folder / "hashed")

    def server(self) -> ssl.SSLContext:
        """Return what a server speaks TLS with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "server.pem", self.folder / "key.pem")
        return context


def openssl(folder: Path, *words: str) -> str:
    """Run openssl in *folder* and return what it prints."""
    done = subprocess.run(["openssl", *words], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Proxy(Loopback):
    """Leads every request to *to* on loopback, whatever host it names; ``lines`` and ``headers`` tell what came.

    With *refusal* it answers that status line to everything.
    """

    def __init__(self, to: int, refusal: bytes = b"") -> None:
        super().__init__()
        self.lines: list[str] = []
        self.headers: list[str] = []
        self._to = to
        self._refusal = refusal

    @property
    def address(self) -> str:
        """Return host and port."""
        return f"127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            line, *headers = head.decode("latin-1").strip().split("\r\n")
            self.lines.append(line)
            self.headers += [header.lower() for header in headers]
            if self._refusal:
                writer.write(b"HTTP/1.1 %b\r\ncontent-length: 0\r\n\r\n" % self._refusal)
            else:
                await self._lead(head, reader, writer)

    async def _lead(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._to)
        if head.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            to_server.write(head)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, to_server))
                group.create_task(_pump(from_server, writer))
        finally:
            to_server.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()
