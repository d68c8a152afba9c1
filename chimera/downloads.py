"""Files from the network: resumed where they broke off, checked by digest, whole or not there.

What has come so far waits in the cache for the next attempt; nothing is put in its place before
all of it is there and is what it must be.
"""

from __future__ import annotations

import fcntl
import http.client
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from chimera.cache import cache_dir, digest, file_digest
from chimera.errors import UsageError
from chimera.programs import python_with_pip

#: Told how many bytes have come, and of how many where that is known.
Tell = Callable[[int, int | None], None]
ATTEMPTS = 5
PAUSE_SECONDS = 1.0
TIMEOUT_SECONDS = 60.0
PACKAGE_SECONDS = 1800.0
BLOCK_BYTES = 1 << 18
#: Answers that another attempt may not give.
PASSING_FAULTS = (408, 425, 429, 500, 502, 503, 504)


class ProgressLine:
    """One line on standard error that says how far a download is; quiet about small ones."""

    def __init__(self, what: str, least: int = 4 * 1024**2) -> None:
        self._what, self._least, self._shown, self._live = what, least, -1, sys.stderr.isatty()

    def __call__(self, done: int, total: int | None) -> None:
        if (total or done) < self._least:
            return
        share = done * 100 // total if total else done >> 20
        step = 1 if self._live else 25
        if share // step == self._shown // step:
            return
        self._shown = share
        far = f"{share} % of {total / 1e6:.0f} MB" if total else f"{share} MiB"
        end = "\n" if not self._live or done == total else ""
        sys.stderr.write(f"{chr(13) if self._live else ''}fetching {self._what}: {far}{end}")
        sys.stderr.flush()


def download(
    url: str,
    target: Path,
    *,
    sha256: str = "",
    headers: Mapping[str, str] | None = None,
    tell: Tell | None = None,
) -> None:
    """Fetch `url` into the file `target`; a `UsageError` says why it cannot be had."""
    part = cache_dir() / "downloads" / f"{digest(url, sha256)}.part"
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _fill(url, part, dict(headers or {}), tell or ProgressLine(target.name))
        if sha256 and (found := file_digest(part)) != sha256:
            _discard(part)
            raise UsageError(f"{url}: its SHA-256 is {found[:12]}…, not {sha256[:12]}…: refused")
        _move(part, target)
        _discard(part)
    part.with_suffix(".lock").unlink(missing_ok=True)


def _fill(url: str, part: Path, headers: dict[str, str], tell: Tell) -> None:
    """Get the rest of a file; attempts that bring something are not counted."""
    attempts, fault = 0, ""
    while attempts < ATTEMPTS:
        before = part.stat().st_size if part.exists() else 0
        try:
            if _get(url, part, headers, tell):
                return
            fault = "the connection was cut"
        except urllib.error.HTTPError as error:
            fault = f"{error.code} {error.reason}"
            if error.code not in (*PASSING_FAULTS, 416):
                _discard(part)
                raise UsageError(f"cannot fetch {url}: {fault}{_advice(error)}") from None
            if error.code == 416:  # what was kept is no beginning of it
                _discard(part)
        except (OSError, http.client.HTTPException) as error:
            fault = str(getattr(error, "reason", None) or error or type(error).__name__)
        came = part.stat().st_size if part.exists() else 0
        attempts = 0 if came > before else attempts + 1
        if attempts < ATTEMPTS:
            time.sleep(PAUSE_SECONDS * attempts)
    raise UsageError(f"cannot fetch {url}: {fault}")


def _get(url: str, part: Path, headers: dict[str, str], tell: Tell) -> bool:
    """One request; whether the file is whole now."""
    mark = part.with_suffix(".mark")  # by which the server knows the version that was begun
    have = part.stat().st_size if part.exists() and mark.exists() else 0
    if have:
        headers = {**headers, "Range": f"bytes={have}-", "If-Range": mark.read_text()}
    with _opener().open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_SECONDS) as r:
        if r.status != 206 or not (r.headers["Content-Range"] or "").startswith(f"bytes {have}-"):
            have = 0
        length = r.headers["Content-Length"]
        total = have + int(length) if length and length.isdigit() else None
        version = r.headers["ETag"] or r.headers["Last-Modified"] or ""
        if version and not version.startswith("W/"):
            mark.write_text(version)
        else:
            mark.unlink(missing_ok=True)
        with part.open("ab" if have else "wb") as file:
            while block := r.read(BLOCK_BYTES):
                file.write(block)
                have += len(block)
                tell(have, total)
    return total is None or have == total


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to the place where a file is stored, without the key for the place that said so."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        found = super().redirect_request(req, fp, code, msg, headers, newurl)
        if found is not None and urlsplit(newurl).netloc != urlsplit(req.full_url).netloc:
            found.remove_header("Authorization")
        return found


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_Redirects)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def remote_mark(url: str, headers: Mapping[str, str]) -> str:
    """What a hub says that a file is: the SHA-256 of a large file, or git's name of a small one."""
    request = urllib.request.Request(url, headers=dict(headers), method="HEAD")
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        with opener.open(request, timeout=TIMEOUT_SECONDS) as reply:
            said = reply.headers
    except urllib.error.HTTPError as error:  # also a redirect, which tells what we ask for
        if error.code >= 400:
            raise UsageError(
                f"cannot fetch {url}: {error.code} {error.reason}{_advice(error)}"
            ) from None
        said = error.headers
    except (OSError, http.client.HTTPException) as error:
        raise UsageError(f"cannot fetch {url}: {getattr(error, 'reason', error)}") from None
    return (said["X-Linked-ETag"] or said["ETag"] or "").removeprefix("W/").strip('"')


def _advice(error: urllib.error.HTTPError) -> str:
    if error.code in (401, 403):
        return " (it may need a licence to be agreed to, and a token: HF_TOKEN for the hub)"
    return ""


def _move(part: Path, target: Path) -> None:
    """Into place at once, also from another file system."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".part-", delete=False) as beside:
        try:
            with part.open("rb") as source:
                shutil.copyfileobj(source, beside, 1 << 20)
            Path(beside.name).replace(target)
        except BaseException:
            Path(beside.name).unlink(missing_ok=True)
            raise
    target.chmod(0o644)


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    part.with_suffix(".mark").unlink(missing_ok=True)


def package_archives(requirement: str, folder: Path, *, hashes: Sequence[str] = ()) -> list[Path]:
    """The archives of a package as pip fetches them from the index in use, without what it needs.

    With `hashes` (SHA-256) pip refuses any other. On a terminal pip shows how far it is.
    """
    python = python_with_pip()
    if python is None:
        raise UsageError(f"fetching the package {requirement} needs pip, which is not here")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write(" ".join([requirement, *(f"--hash=sha256:{each}" for each in hashes)]) + "\n")
        wanted.flush()
        command = [
            python,
            "-I",
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--disable-pip-version-check",
        ]
        command += ["--dest", str(folder.absolute()), "--requirement", wanted.name]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if sys.stderr.isatty() else subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=PACKAGE_SECONDS,
                cwd="/",
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UsageError(f"cannot fetch the package {requirement}: {error}") from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["pip failed"]
        errors = [line for line in said if line.startswith("ERROR")] or said
        raise UsageError(f"cannot fetch the package {requirement}: {errors[-1]}")
    return sorted(folder.iterdir())
