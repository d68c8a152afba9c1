"""DPAI Arena: rules on small values, and each track on a Spring project with its real tool."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chimera.environments.base import EnvironmentSpec
from chimera.environments.docker import DockerEnvironment
from chimera.environments.engine_door import DOOR, SOCKET, EngineDoor
from chimera.environments.engine_rules import Refused, understood
from chimera.environments.engine_wire import Request
from chimera.environments.local import LocalEnvironment
from chimera.environments.none import NoEnvironment
from chimera.environments.wrapped import WrappedMachine
from chimera.errors import DatasetError, EnvironmentFault, GraderError, UsageError
from chimera.eval.benchmarks._dpai_arena import containers
from chimera.eval.benchmarks._dpai_arena.ee_bench import criteria
from chimera.eval.benchmarks._dpai_arena.maven import Build, warmed_repository
from chimera.eval.benchmarks.dpai_arena import DPAIArena, matching, published_score
from chimera.eval.kits.patches.diffs import new_file
from chimera.eval.kits.reports.report import Report
from chimera.eval.kits.repositories.source import BaseTree
from chimera.eval.trial import StartBackend
from chimera.eval.values import Submission
from chimera.types import CommandResult

NO_ENGINE = "ERROR o.t.d.DockerClientProviderStrategy -- Could not find a valid Docker environment."


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("c.T", ["c.T.a(int)[1]", "c.T.b"]),
        ("T", ["c.T.a(int)[1]", "c.T.b"]),
        ("c.T#b", ["c.T.b"]),
        ("module::c.T.b", ["c.T.b"]),
        ("c.Other", []),
        ("c", []),
    ],
)
def test_names_match_classes_and_methods(expected, found):
    report = Report({"c.T.a(int)[1]": "PASSED", "c.T.b": "FAILED", "c.Two.b": "PASSED"})

    assert matching(expected, report) == found


def test_the_published_example():
    first, second = published_score((10, 20), (50, 50)), published_score((18, 20), (50, 50))

    assert (first, second) == (60.0, 92.0)
    assert round(100 * (first + 0.5 * second) / 150, 1) == 70.7


def test_real_records_load(dataset):
    tasks = DPAIArena(dataset("dpai-arena")).tasks()

    assert len(tasks) == 5
    assert all(task["fail_to_pass"] and task["patch"] for task in tasks)
    with pytest.raises(UsageError):
        DPAIArena(track="other")


@pytest.mark.parametrize(
    "name",
    ["postgres:17", "redis", "example.org/team/kafka:3.8.0", "apache/kafka@sha256:" + "0" * 64],
)
def test_names_of_images(name):
    assert containers.checked([name]) == [name]


@pytest.mark.parametrize("name", ['["postgres:17"', '"redis:7"]', "", "-v", "Postgres:17", "a b"])
def test_what_is_no_image_is_named(name):
    with pytest.raises(UsageError, match="apart by commas") as refused:
        containers.checked(["redis:7", name])

    assert repr(name) in str(refused.value)


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (NO_ENGINE, "did not get one;"),
        ('{"message": "not let through: the image redis:7"}', "not in test_images: redis:7;"),
        ("not let through: more than 8 containers at once", "start more than 8 containers at"),
        ("[ERROR] Tests run: 3, Failures: 1", ""),
        ("not let through: POST /build", ""),
    ],
)
def test_tests_that_got_no_container(output, why):
    found = containers.lacking(f"[INFO] Running c.T\n{output}\n[INFO] BUILD FAILURE\n")

    assert why in found
    assert bool(found) is bool(why)


def test_the_door_says_which_image_it_was_not_told_of(tmp_path):
    door = EngineDoor(["postgres:17"], tmp_path, "c0ffee", engine="/nowhere")
    asked = json.dumps({"Image": "docker.io/library/redis:7"}).encode()
    request = Request("POST", "/containers/create", [asked])

    with pytest.raises(Refused) as refused:
        door.admitted(request, understood(request))

    assert "not in test_images: redis:7;" in containers.lacking(f"not let through: {refused.value}")


def test_the_door_is_open_while_tests_run_and_never_for_an_agent(docker_image):
    def start(mounts, variables):
        return DockerEnvironment.start(
            EnvironmentSpec(image=docker_image, mounts=mounts, variables=variables)
        )

    with containers.opened([docker_image], start) as env:
        seen = [env.run_command(["ls", DOOR]).output.strip()]
        for _ in range(2):
            with containers.engine_for(WrappedMachine(env)):
                seen.append(env.run_command(["ls", DOOR]).output.strip())
            seen.append(env.run_command(["ls", DOOR]).output.strip())
        place = env._place

    assert seen == ["", SOCKET, "", SOCKET, ""]
    assert not place.exists()


def test_a_machine_without_a_door_runs_its_tests(local_env):
    with containers.engine_for(local_env):
        assert local_env.run_command(["true"]).success


NO_CONTAINERS = CommandResult(NO_ENGINE.encode(), b"", 1)
SLOW = CommandResult(b"[INFO] Running c.T", b"", 124, timed_out=True)


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (NO_CONTAINERS, "cannot be tested here: the tests start containers"),
        (SLOW, "tests take more than 600 s; see test_timeout"),
    ],
)
def test_without_a_tested_base_commit_there_is_no_verdict(dataset, monkeypatch, result, why):
    benchmark = DPAIArena(dataset("dpai-arena"))
    task = benchmark.tasks()[0]
    build = Build(result, Report({"c.T.a": "FAILED"}))
    monkeypatch.setattr(benchmark, "_build", lambda task, env: build)

    with LocalEnvironment() as env, pytest.raises(GraderError, match=why):
        benchmark.grade(task, Submission(task["patch"], "model_patch"), env)


REVIEW = {
    "instance_id": "review-1",
    "track": "pr-review",
    "problem_statement": "A change of the price service.",
    "diff": "+ return price - count;",
    "findings": [
        {"description": "subtracts instead of multiplying", "file": "PriceService.java", "line": 3},
        {"description": "no test"},
    ],
}


def reviewed(tmp_path, answer: str, review: str = "It subtracts; and there is no test.") -> object:
    (tmp_path / "tasks.jsonl").write_text(json.dumps(REVIEW))
    judge = f"scripted/text:{answer}" if answer else None
    benchmark = DPAIArena(tmp_path, track="pr-review", judge_model=judge)
    (task,) = benchmark.tasks()
    assert "subtracts instead" not in task["prompt"]
    return benchmark.grade(task, benchmark.extract(task, review), NoEnvironment())


def test_reviews_are_judged_by_a_model(tmp_path):
    assert reviewed(tmp_path, '{"contained": [0, 1]}').passed
    half = reviewed(tmp_path, '{"contained": [1, 7]}')
    assert (half.passed, half.score) == (False, 0.5)
    assert "subtracts" in half.why
    assert not reviewed(tmp_path, '{"contained": [0, 1]}', review=" ").passed


@pytest.mark.parametrize(
    "answer", ["", "all of them", '{"contained": "0,1"}', '{"contained": [true]}']
)
def test_without_a_usable_judge_there_is_no_verdict(tmp_path, answer):
    with pytest.raises(GraderError, match="judge"):
        reviewed(tmp_path, answer)


# --- data of the second generation

P, F = "PASSED", "FAILED"


@pytest.mark.parametrize(
    ("expected", "before", "after", "against"),
    [
        ({"f2p": ["c.T.a"], "p2p": ["c.T.b"]}, {"c.T.a": F, "c.T.b": P}, {"c.T.a": P, "c.T.b": P},
         ""),
        ({"f2p": ["c.T.a"]}, {}, {"c.T.a": P}, ""),
        ({"f2p": ["c.T.a"]}, {"c.T.a": P}, {"c.T.a": P}, "fail_to_pass"),
        ({"f2p": ["c.T.a"]}, {}, {"c.T.a": P, "c.U.z": F}, ""),
        ({"p2p": ["c.T.b"]}, {"c.T.b": P}, {}, "pass_to_pass"),
        ({"p2p": ["c.T.b"]}, {"c.T.b": F}, {"c.T.b": P}, "pass_to_pass"),
        ({"p2p": ["*"]}, {}, {"c.T.a": P, "c.T.b": F}, "pass_to_pass"),
        ({"p2p": ["*"], "f2f": ["c.T.b"]}, {}, {"c.T.a": P, "c.T.b": F}, ""),
        ({"f2f": ["c.T.b"]}, {"c.T.b": F}, {"c.T.b": P}, "fail_to_fail"),
        ({"f2p": ["c.T"]}, {"c.T.other": P}, {"c.T.a": P, "c.T.other": P}, "fail_to_pass"),
        ({"f2p": ["c.T#a"]}, {}, {"c.T.a": P}, ""),
        ({"f2p": ["c.T.a"]}, {}, {"c.T.a()": P}, ""),
        ({"f2p": ["c.T.a"]}, {}, {"c.T.a(int)[1]": P}, "fail_to_pass"),
    ],
)  # fmt: skip
def test_criteria_of_the_second_generation(expected, before, after, against):
    names = {"f2p": "fail_to_pass", "p2p": "pass_to_pass", "f2f": "fail_to_fail"}
    lists = {names[key]: tests for key, tests in expected.items()}

    found = criteria(lists, Report(before), Report(after), test_patch=True)

    assert next((name for name, why in found.items() if why), "") == against


def test_datapoint_folders_are_read(tmp_path):
    place = tmp_path / "dpaia__shop-1"
    (place / "eval").mkdir(parents=True)
    (place / "verify").mkdir()
    (place / "eval" / "test_patch.diff").write_text("tests\n")
    (place / "verify" / "patch.diff").write_text("gold\n")
    point = {"repo": "dpaia/shop", "base_commit": "c" * 40, "problem_statement": "Do it.",
             "language": "java", "build_system": "maven",
             "expected": {"fail_to_pass": ["c.T#a"], "pass_to_pass": ["*"]}}  # fmt: skip
    (place / "datapoint.json").write_text(json.dumps(point))

    (task,) = DPAIArena(tmp_path).tasks()

    assert (task["id"], task["patch"], task["test_patch"]) == ("dpaia__shop-1", "gold\n", "tests\n")
    assert task["expected"]["pass_to_pass"] == ["*"]
    (place / "datapoint.json").write_text(json.dumps({**point, "language": "csharp"}))
    with pytest.raises(DatasetError, match="csharp"):
        DPAIArena(tmp_path).tasks()


# --- a Spring project

SERVICE = """\
package shop;

import org.springframework.stereotype.Service;

@Service
public class PriceService {
    public int total(int price, int count) {
        int surplus = 3;
        return price + count;
    }

    public int discounted(int price) {
        return price / 2;
    }
}
"""
APPLICATION = """\
package shop;

import org.springframework.boot.autoconfigure.SpringBootApplication;

@SpringBootApplication
public class ShopApplication {
}
"""
TEST = """\
package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;

@SpringBootTest
class {name} {{
    @Autowired PriceService prices;

    @Test
    void {test} {{
        assertEquals({value});
    }}
}}
"""
POM = """\
<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <parent>
    <groupId>org.springframework.boot</groupId>
    <artifactId>spring-boot-starter-parent</artifactId>
    <version>3.3.5</version>
    <relativePath/>
  </parent>
  <groupId>fixture</groupId>
  <artifactId>shop</artifactId>
  <version>1.0</version>
  <properties><java.version>17</java.version></properties>
  <dependencies>
    <dependency>
      <groupId>org.springframework.boot</groupId>
      <artifactId>spring-boot-starter</artifactId>
    </dependency>
    <dependency>
      <groupId>org.springframework.boot</groupId>
      <artifactId>spring-boot-starter-test</artifactId>
      <scope>test</scope>
    </dependency>
  </dependencies>
</project>
"""
MAIN = "src/main/java/shop/PriceService.java"


def test_class(name: str, test: str, value: str) -> str:
    return TEST.format(name=name, test=test, value=value)


test_class.__test__ = False


def edit(path: str, text: str, old: str, new: str) -> str:
    """A patch that replaces one line (or takes it away)."""
    lines = text.split("\n")
    index = next(i for i, line in enumerate(lines) if old in line)
    before, after = lines[max(0, index - 2) : index], lines[index + 1 : index + 3]
    added = f"+{lines[index].replace(old, new)}\n" if new else ""
    start, size = max(0, index - 2) + 1, len(before) + len(after)
    return (
        f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
        f"@@ -{start},{size + 1} +{start},{size + bool(new)} @@\n"
        + "".join(f" {line}\n" for line in before)
        + f"-{lines[index]}\n{added}"
        + "".join(f" {line}\n" for line in after)
    )


FIX = edit(MAIN, SERVICE, "price + count", "price * count")
HALF_TEST = new_file(
    "src/test/java/shop/HalfTest.java",
    test_class("HalfTest", "halves()", "5, prices.discounted(10)"),
)
TOTAL_TEST = new_file(
    "src/test/java/shop/TotalTest.java",
    test_class("TotalTest", "multiplies()", "20, prices.total(10, 2)"),
)
UNUSED = {"file": MAIN, "rule": "UnusedLocalVariable"}
BOOT = "org.springframework.boot:spring-boot"
ROWS = {
    "issue-to-patch": {"patch": FIX, "test_patch": TOTAL_TEST, "FAIL_TO_PASS": '["shop.TotalTest"]',
                       "PASS_TO_PASS": '["shop.StartTest"]'},
    "coverage": {"patch": HALF_TEST,
                 "required": {"classes": ["shop.PriceService"], "line_coverage": 0.5}},
    "static-analysis": {"patch": edit(MAIN, SERVICE, "        int surplus = 3;", ""),
                        "required": {"violations": [UNUSED]}},
    "upgrade": {"patch": edit("pom.xml", POM, "3.3.5", "3.4.1"),
                "required": {"artifact": BOOT, "version": "3.4.1"}},
}  # fmt: skip
WRONG = {
    "issue-to-patch": edit(MAIN, SERVICE, "price + count", "price - count"),
    "coverage": new_file("src/test/java/shop/EmptyTest.java",
                         test_class("EmptyTest", "nothing()", "1, 1")),
    "static-analysis": edit(MAIN, SERVICE, "int surplus = 3;", "int surplus = 3; // NOPMD"),
    "upgrade": edit("pom.xml", POM, "3.3.5", "3.3.4"),
}  # fmt: skip


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    root = tmp_path / "repositories" / "shop"
    files = {
        "pom.xml": POM,
        MAIN: SERVICE,
        "src/main/java/shop/ShopApplication.java": APPLICATION,
        "src/test/java/shop/StartTest.java": test_class("StartTest", "starts()", "1, 1"),
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root.parent


def test_what_a_machine_lacks_is_told_before_the_start(
    tmp_path, project: Path, require, monkeypatch
):
    require("java", "mvn")
    monkeypatch.delenv("CHIMERA_DOCKER_IMAGE", raising=False)
    (project / "shop" / "pom.xml").write_text(
        "<java.version>999</java.version><groupId>org.testcontainers</groupId>"
    )
    row = {"instance_id": "a", "repo": "fixture/shop", "problem_statement": "Do it."}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(row | ROWS["issue-to-patch"]))

    def lacking(backend: str, *images: str) -> list[str]:
        options = {"repositories": str(project), "test_images": list(images) or None}
        benchmark = DPAIArena(tmp_path, **options)
        found = benchmark.out_of_reach(benchmark.tasks(), backend)
        assert all(lack.tasks == {"a"} for lack in found)
        return [lack.what for lack in found]

    assert lacking("bubblewrap") == ["JDK 999", "containers that tests start"]
    assert lacking("bubblewrap", "postgres:17") == ["Docker for test_images"]
    assert "an image for their containers" in lacking("docker")


@pytest.mark.slow
def test_what_a_broken_build_fetched_is_not_kept(tmp_path, require, monkeypatch):
    require("bwrap", "mvn")
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "pom.xml").write_text("<project>")

    for _ in range(2):
        with pytest.raises(EnvironmentFault, match=r"Maven cannot build here: .*POM"):
            warmed_repository(
                [BaseTree(tmp_path / "tree", "c")], ["test"], StartBackend("bubblewrap")
            )


@pytest.mark.full
@pytest.mark.parametrize(
    ("track", "expected"),
    [*((track, None) for track in ROWS), ("issue-to-patch", {"fail_to_pass": ["shop.TotalTest"],
                                                             "pass_to_pass": ["*"]})],
)  # fmt: skip
def test_tracks_with_their_real_tools(tmp_path, project: Path, require, track, expected):
    require("bwrap", "mvn", "javac")
    row = {"instance_id": f"{track}-1", "track": track, "repo": "fixture/shop",
           "problem_statement": "Do it.", **ROWS[track]}  # fmt: skip
    if expected is not None:
        row["expected"] = expected
    (tmp_path / "tasks.jsonl").write_text(json.dumps(row))
    benchmark = DPAIArena(tmp_path, track=track, repositories=str(project), test_timeout=900)
    (task,) = benchmark.tasks()

    def graded(text: str):
        with benchmark.open_grading_environment(task, StartBackend("bubblewrap")) as env:
            return benchmark.grade(task, Submission(text, "model_patch"), env)

    gold = graded(task["patch"])

    assert gold.passed, (gold.why, gold.evidence.get("log", "")[-2000:])
    assert not graded("").passed
    wrong = graded(WRONG[track])
    assert not wrong.passed
    assert wrong.why
    broken = graded(edit(MAIN, SERVICE, "return price / 2;", "return price / ;"))
    assert not broken.passed
