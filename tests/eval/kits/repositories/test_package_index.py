"""The pages and files of a package index: whose they are, and what they may cost."""

from __future__ import annotations

import base64
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from chimera.errors import EnvironmentFault
from chimera.eval.kits.repositories import package_index


def test_links_are_read_as_html_has_them():
    page = (
        "<!DOCTYPE html><A class=x HREF='../a-1.tar.gz#sha256=0&amp;b'> a-1.tar.gz\n</A><br>"
        '<a name="none">no</a><abbr title="x">y</abbr><a href="b">b&amp;c</a><a href="open'
    )

    assert list(package_index._links(page)) == [
        ("../a-1.tar.gz#sha256=0&b", "a-1.tar.gz"),
        ("b", "b&c"),
    ]


@pytest.mark.parametrize("unit", ["<a ", '<a href="', '<a href="x" ', '<a href="x">y', "<", "<!--"])
@pytest.mark.parametrize("end", ["", ">", '">'])
def test_a_hostile_page_is_read_once(unit, end):
    """Four megabytes: what looks at a part of them twice does not end within the test's time."""
    list(package_index._links(unit * (4_000_000 // len(unit)) + end))


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An index that wants a password; what was sent to it."""
    seen: list[str | None] = []
    content = b"content"
    digest = hashlib.sha256(content).hexdigest()
    pages = {
        "/simple/thing/": f'<a href="/thing.tar.gz#sha256={digest}">thing-1.0.tar.gz</a>'.encode(),
        "/thing.tar.gz": content,
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"])
            allowed = seen[-1] == "Basic " + base64.b64encode(b"us@er:TOKEN").decode()
            self.send_response(200 if allowed and self.path in pages else 404)
            self.end_headers()
            self.wfile.write(pages.get(self.path, b""))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://us%40er:TOKEN@127.0.0.1:{server.server_port}/simple"
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PIP_INDEX_URL", address)
    package_index._offered.cache_clear()
    package_index._why_silent.cache_clear()
    yield seen
    server.shutdown()
    thread.join()
    server.server_close()


def test_credentials_are_sent_and_never_shown(index):
    for requirement in ("thing==2.0", "other==1.0"):
        why = package_index.why_not_to_be_had(requirement)
        assert why
        assert "TOKEN" not in why
        with pytest.raises(EnvironmentFault) as failed:
            package_index.source_distribution(requirement)
        assert "TOKEN" not in str(failed.value)
        assert "127.0.0.1" in str(failed.value)
    assert package_index.source_distribution("thing==1.0").read_bytes() == b"content"


def test_what_is_too_long_is_not_read(index, monkeypatch):
    monkeypatch.setattr(package_index, "ARCHIVE_BYTES", 3)

    with pytest.raises(EnvironmentFault, match="longer than 3 bytes"):
        package_index.source_distribution("thing==1.0")


def test_a_page_is_asked_for_once_however_many_releases_are(index):
    package_index._offered(package_index._project("thing==1.0"))
    asked = len(index)
    for version in range(50):
        why = package_index.why_not_to_be_had(f"thing=={version}.0")
        assert ("no source distribution" in why) is (version != 1)

    assert len(index) == asked == 1
