"""A Ray cluster of this machine that grows: Ray's own autoscaler, whose machines are processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

HEAD = "ray.head.default"


@contextmanager
def growing_cluster(
    kinds: Mapping[str, Mapping[str, int]], *, idle_minutes: float = 5.0
) -> Iterator[str]:
    """The address of a cluster of a head without CPUs that adds machines of these kinds."""
    place = Path(tempfile.mkdtemp(prefix="ray-"))  # short: sockets are made in it
    config = place / "cluster.json"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config.write_text(json.dumps(_config(kinds, idle_minutes, f"127.0.0.1:{port}")))
    command = [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"),
        *("--node-ip-address=127.0.0.1", f"--port={port}"),
        *("--num-cpus=0", "--include-dashboard=false", "--temp-dir", str(place)),
        f"--autoscaling-config={config}",
    ]
    variables = {
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        "RAY_FAKE_CLUSTER": "1",
        "RAY_worker_niceness": "0",
    }
    process = subprocess.Popen(
        command,
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    address = place / "ray_current_cluster"
    try:
        while not address.exists():
            assert process.poll() is None, "the cluster did not start"
            time.sleep(0.2)
        yield address.read_text().strip()
    finally:
        process.terminate()
        process.wait()
        for left in _processes_of(place):
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)
        shutil.rmtree(place, ignore_errors=True)


def _config(
    kinds: Mapping[str, Mapping[str, int]], idle_minutes: float, address: str
) -> dict[str, object]:
    types = {
        name: {"resources": dict(has), "node_config": {}, "min_workers": 0, "max_workers": 4}
        for name, has in kinds.items()
    }
    head = {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0}
    empty = {key: {} for key in ("auth", "docker", "file_mounts")}
    return {
        **empty,
        "cluster_name": "growing",
        "max_workers": 8,
        "upscaling_speed": 1.0,
        "idle_timeout_minutes": idle_minutes,
        "provider": {"type": "fake_multinode", "gcs_address": address,
                     "disable_node_updaters": True,
                     "disable_launch_config_check": True,
                     "use_node_id_as_ip": True},  # all of them have this machine's address
        "available_node_types": {**types, HEAD: head},
        "head_node_type": HEAD,
        **{f"{kind}_commands": [] for kind in (
            "initialization", "setup", "head_setup", "worker_setup", "head_start_ray",
            "worker_start_ray")},
        "cluster_synced_files": [],
        "file_mounts_sync_continuously": False,
        "rsync_exclude": [], "rsync_filter": [],
    }  # fmt: skip


def _processes_of(place: Path) -> Iterator[int]:
    for each in Path("/proc").iterdir():
        if each.name.isdecimal() and int(each.name) != os.getpid():
            with suppress(OSError):
                if str(place).encode() in (each / "cmdline").read_bytes():
                    yield int(each.name)
