"""The bank's knowledge base: how agents reach its documents, and the policy that says so.

Variants: `bm25_grep` (search and grep), `bm25`, `grep_only`, `full_kb` (all documents in the
policy), `golden_retrieval` (the documents a task needs), `no_knowledge`. The official default also
offers dense search and a shell, which need paid embeddings and a sandbox; it is not offered here.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from chimera.errors import DatasetError
from chimera.eval.benchmarks._tau_bench.bank_customer import KnowledgeUserTools
from chimera.eval.benchmarks._tau_bench.bank_texts import official_source, official_texts
from chimera.eval.benchmarks._tau_bench.banking import KnowledgeTools
from chimera.eval.benchmarks._tau_bench.domains import exists, read
from chimera.eval.benchmarks._tau_bench.kernel import Database, World, tool
from chimera.eval.kits.searching import PatternError, PatternTooSlow, match_counts

#: Prompt template of each variant, and the search tools it offers.
VARIANTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "bm25_grep": ("classic_rag_bm25.md", ("KB_search", "grep")),
    "bm25": ("classic_rag_bm25_no_grep.md", ("KB_search",)),
    "grep_only": ("grep_only.md", ("grep",)),
    "full_kb": ("full_kb.md", ()),
    "golden_retrieval": ("required_docs.md", ()),
    "no_knowledge": ("no_knowledge.md", ()),
}
DEFAULT_VARIANT = "bm25_grep"
RESULTS = 10
K1, B, EPSILON = 1.5, 0.75, 0.25
#: Officially the time it took; it is no part of what is found.
TIMING = "\n\n[Timing: retrieval=0ms, total=0ms]"


@lru_cache(maxsize=4)
def documents(folder: Path) -> Mapping[str, Mapping[str, str]]:
    """The knowledge base by document id."""
    joined = folder / "documents.jsonl"
    if exists(joined):
        found = [json.loads(line) for line in read(joined).splitlines() if line.strip()]
    elif exists(listed := folder / "documents.json"):
        found = read(listed)
    else:
        found = [read(file) for file in sorted((folder / "documents").glob("*.json"))]
    if not found:
        raise DatasetError(f"{folder}: no documents.jsonl and no documents/")
    return {document["id"]: document for document in found}


def policy(folder: Path, task: Mapping[str, Any], variant: str) -> str:
    """The agent's policy with the parts and documents its template asks for."""
    template, _ = VARIANTS[variant or DEFAULT_VARIANT]
    prompts = _prompts(folder)
    text = re.sub(
        r"\{\{component:(\w+)\}\}",
        lambda found: prompts[f"components/{found[1]}.md"],
        prompts[template],
    )
    known = documents(folder)
    if "{{full_knowledge_base}}" in text:
        text = text.replace("{{full_knowledge_base}}", _joined(list(known.values())))
    if "{{required_documents}}" in text:
        titles = {document["title"]: document for document in known.values()}
        wanted = [titles.get(ref) or known.get(ref) for ref in task.get("required_documents") or ()]
        shown = _joined([document for document in wanted if document is not None])
        text = text.replace("{{required_documents}}", shown or "(No documents provided)")
    return text


def _prompts(folder: Path) -> Mapping[str, str]:
    joined = folder / "prompts.json"
    if exists(joined):
        loaded: Mapping[str, str] = read(joined)
        return loaded
    root = folder / "prompts"
    return {str(f.relative_to(root)): f.read_text("utf-8") for f in sorted(root.rglob("*.md"))}


def _joined(found: Sequence[Mapping[str, str]]) -> str:
    return "\n\n---\n\n".join(f"## {d['title']}\n\n{d['content']}" for d in found)


def _ranked(found: Sequence[tuple[Mapping[str, str], float]]) -> str:
    return "\n".join(
        f"{position}. {document['title']}\n"
        f"   ID: {document['id']}\n"
        f"   Score: {score:.4f}\n"
        f"   Content: {document['content']}\n"
        for position, (document, score) in enumerate(found, 1)
    )


class Bm25:
    """Okapi BM25 over the words of the documents, with the weights of the package rank_bm25: a word
    that stands in more than half of them weighs a quarter of the average instead of less than 0."""

    def __init__(self, found: Sequence[Mapping[str, str]]) -> None:
        self._documents = found
        self._words = [Counter(d["content"].lower().split()) for d in found]
        lengths = [sum(words.values()) for words in self._words]
        average = sum(lengths) / max(1, len(found))
        self._lengths = [K1 * (1 - B + B * length / average) for length in lengths]
        self._weights = _weights(Counter(word for words in self._words for word in words), found)

    def search(self, query: str, count: int) -> Sequence[tuple[Mapping[str, str], float]]:
        """The best documents; all have a place, also those that share no word with the query."""
        words = query.lower().split()
        scores = [self._score(words, n) for n in range(len(self._documents))]
        best = sorted(range(len(scores)), key=lambda n: scores[n], reverse=True)[:count]
        return [(self._documents[n], scores[n]) for n in best] if words else []

    def _score(self, query: Sequence[str], number: int) -> float:
        words, length = self._words[number], self._lengths[number]
        return sum(
            self._weights.get(word, 0.0) * words[word] * (K1 + 1) / (words[word] + length)
            for word in query
        )


def _weights(spread: Mapping[str, int], found: Sequence[object]) -> Mapping[str, float]:
    """How much each word says, from the number of documents it stands in."""
    weights = {
        word: math.log(len(found) - count + 0.5) - math.log(count + 0.5)
        for word, count in spread.items()
    }
    least = EPSILON * sum(weights.values()) / max(1, len(weights))
    return {word: least if weight < 0 else weight for word, weight in weights.items()}


@lru_cache(maxsize=4)
def _index(folder: Path) -> Bm25:
    return Bm25(list(documents(folder).values()))


class SearchingTools(KnowledgeTools):
    """The bank's tools with those for its knowledge base."""

    official = "KnowledgeTools"
    arguments: ClassVar[Mapping[str, str]] = {
        **KnowledgeTools.arguments,
        "query": "What to look for, in words.",
        "pattern": "A regular expression; capitals do not count.",
    }

    def __init__(
        self, db: Database, logged_reads: frozenset[str], folder: Path, offered: Sequence[str]
    ) -> None:
        source = official_source(folder)
        super().__init__(db, logged_reads, official_texts(source) if source else None)
        self._folder = folder
        hidden = {"KB_search", "grep"} - set(offered)
        kept = {name: known for name, known in self.tools.items() if name not in hidden}
        self.tools = kept  # type: ignore[misc]

    @tool("read")
    def KB_search(self, query: str) -> str:
        """Search the knowledge base by words."""
        found = _index(self._folder).search(query, RESULTS)
        return (_ranked(found) if found else "No relevant documents found.") + TIMING

    @tool("read")
    def grep(self, pattern: str) -> str:
        """Search the knowledge base for a regular expression; documents with most matches first."""
        nothing = f"No matches found for pattern: {pattern}"
        if not pattern.strip():
            return nothing
        known = list(documents(self._folder).values())
        texts = [document["content"] for document in known]
        try:
            counts = match_counts(pattern, texts)
        except PatternTooSlow as error:
            return f"{nothing} ({error})"
        except PatternError:
            counts = match_counts(re.escape(pattern), texts)
        counted = [(document, float(count)) for document, count in zip(known, counts, strict=True)]
        found = sorted((entry for entry in counted if entry[1]), key=lambda entry: -entry[1])
        return _ranked(found[:RESULTS]) if found else nothing


def world(folder: Path, db: Database, task: Mapping[str, Any], variant: str) -> World:
    """Agent and customer over the same books; reading tools the gold actions use are logged."""
    criteria = task.get("evaluation_criteria") or {}
    logged = frozenset(
        str((action.get("arguments") or {}).get("agent_tool_name"))
        for action in criteria.get("actions") or ()
        if action["name"] == "call_discoverable_agent_tool"
    )
    agent = SearchingTools(db, logged, folder, VARIANTS[variant or DEFAULT_VARIANT][1])
    return World(agent, KnowledgeUserTools(agent.db))
