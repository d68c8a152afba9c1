"""A real sshd on the loopback, for as long as a block runs."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVER = """
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized
StrictModes no
PasswordAuthentication no
PermitRootLogin yes
UsePAM no
PidFile none
"""
CLIENT = """
IdentityFile {folder}/key
IdentitiesOnly yes
UserKnownHostsFile {folder}/known
StrictHostKeyChecking accept-new
LogLevel ERROR
"""


def sshd() -> str | None:
    return shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")


@contextmanager
def ssh_host(folder: Path) -> Iterator[str]:
    """The environment's name at a host that is this machine."""
    program = sshd()
    assert program is not None
    for name in ("host", "key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True
        )
    (folder / "authorized").write_bytes((folder / "key.pub").read_bytes())
    (folder / "sshd_config").write_text(SERVER.format(folder=folder))
    (folder / "config").write_text(CLIENT.format(folder=folder))
    Path("/run/sshd").mkdir(exist_ok=True)
    port = _free_port()
    log = (folder / "log").open("wb")
    with log, subprocess.Popen(
        [program, "-D", "-e", "-f", str(folder / "sshd_config"), "-p", str(port)],
        stdin=subprocess.DEVNULL, stdout=log, stderr=log,
    ) as running:  # fmt: skip
        try:
            _wait_for(port)
            user = getpass.getuser()
            yield f"ssh://{user}@127.0.0.1:{port}?config={folder}/config&python={sys.executable}"
        finally:
            running.terminate()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError("sshd does not answer")
