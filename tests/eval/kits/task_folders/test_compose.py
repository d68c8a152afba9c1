"""Containers beside a task's own: what a compose file may ask for, and a trial that needs one."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimera.environments.engine import Engine
from chimera.eval.kits.task_folders.compose import NotSupported, composed
from chimera.eval.submitters import NopAgent, OracleAgent
from tests.eval.kits.task_folders.examples import commands, harbor_task, run, write

STORE = """
services:
  main:
    build: {context: .}
    environment: ["STORE=${STORE:-store}", "TEST_DIR=${TEST_DIR}"]
    depends_on: {store: {condition: service_healthy}}
    volumes: ["${HOST_AGENT_LOGS_PATH}:${ENV_AGENT_LOGS_PATH}"]
  store:
    build: store
    ports: ["8000:8000"]
    command: sh -c "cd /srv && echo $$HOME && python3 -m http.server 8000"
    volumes: [kept:/srv, "./seed:/seed:ro"]
    depends_on: {seed: {condition: service_completed_successfully}}
    healthcheck: {test: [CMD-SHELL, "curl -sf http://localhost:8000/"]}
  seed:
    build: store
    command: [sh, -c, "cp /seed/* /srv/"]
    volumes: [kept:/srv, "./seed:/seed:ro"]
"""


def test_services_come_in_the_order_of_their_needs(tmp_path):
    write(tmp_path, {"docker-compose.yaml": STORE})

    found = composed(tmp_path)

    seed, store = found.services
    assert (seed.name, seed.once, seed.command) == ("seed", True, ("sh", "-c", "cp /seed/* /srv/"))
    assert (store.name, store.once) == ("store", False)
    assert store.volumes == {"/srv": "kept"}
    assert store.mounts == {str(tmp_path / "seed"): "/seed"}
    assert store.health == ("sh", "-c", "curl -sf http://localhost:8000/")
    assert found.variables == {"STORE": "store", "TEST_DIR": "/tests"}
    assert found.volumes == {}


@pytest.mark.parametrize(
    ("service", "named"),
    [
        ("{image: x, privileged: true}", "'privileged'"),
        ("{image: x, network_mode: host}", "'network_mode'"),
        ("{image: x, cap_add: [SYS_ADMIN]}", "'cap_add'"),
        ("{image: x, volumes: ['/var/run/docker.sock:/s']}", "outside of the task"),
        ("{image: x, volumes: ['../..:/s']}", "outside of the task"),
        ("{build: ../..}", "outside of the task"),
        ("{image: x, environment: ['KEY=${HOME}']}", "the variable HOME"),
        ("{image: x, depends_on: [store]}", "depends on itself"),
        ("{image: x, depends_on: [other]}", "'other', which is not there"),
        ("{command: x}", "without image"),
        ("[]", "can be read"),
    ],
)
def test_what_would_reach_outside_is_refused_by_its_name(tmp_path, service, named):
    write(tmp_path, {"docker-compose.yaml": f"services: {{store: {service}}}"})

    with pytest.raises(NotSupported, match=named):
        composed(tmp_path)


def store_task(root: Path, image: str) -> Path:
    """The answer is in a store that only the task's containers reach, and goes back into it."""
    recipe = f"FROM {image}\n"
    fetch = "curl -sf http://$STORE:8000/answer.txt"
    return write(
        harbor_task(root, image),
        {
            "environment/docker-compose.yaml": STORE,
            "environment/store/Dockerfile": recipe,
            "environment/seed/answer.txt": "42\n",
            "solution/solve.sh": f"{fetch} > /app/answer.txt\n",
            "tests/test.sh": f'[ "$({fetch})" = "$(cat /app/answer.txt)" ]\n'
            "echo $((! $?)) > /logs/verifier/reward.txt\n",
        },
    )


@pytest.mark.slow
def test_services_serve_the_agent_and_its_verifier_and_end_with_them(tmp_path, image):
    store_task(tmp_path / "tasks", image)

    solved = run(tmp_path / "tasks", OracleAgent())
    nothing = run(tmp_path / "tasks", NopAgent())
    outside = run(
        tmp_path / "tasks",
        commands("curl -s -m 3 http://deb.debian.org || curl -s http://$STORE:8000/answer.txt > a"),
    )

    assert solved.passed, solved.why
    assert solved.verdict.metrics == {"verification": "apart"}
    assert (nothing.status, outside.status) == ("failed", "failed")
    left = Engine.find().call("network", "ls", "-q", "--filter", "label=chimera.run").stdout
    assert not left.strip()
