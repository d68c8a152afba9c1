"""Runs in the Python of libwebarena: decides cases from stdin with the official evaluators.

One JSON object a line in, one out: {"score": …} or {"error": "ExceptionName"}. The judge models are
replaced by fixed replies, and the tokeniser works without its sentence model, which is no package.
"""

import json
import os
import sys
import tempfile
import types
import warnings

warnings.simplefilter("ignore")
for site in ("REDDIT", "SHOPPING", "SHOPPING_ADMIN", "GITLAB", "WIKIPEDIA", "MAP", "HOMEPAGE"):
    os.environ.setdefault(site, f"http://{site.lower()}.test")
language_models = types.ModuleType("webarena.llms.providers.openai_utils")
for name in (
    "generate_from_openai_chat_completion",
    "generate_from_openai_completion",
    "generate_with_api",
):
    setattr(language_models, name, None)
sys.modules["webarena.llms.providers.openai_utils"] = language_models

from webarena.evaluation_harness import evaluators  # noqa: E402


def main() -> None:
    tokenize = evaluators.word_tokenize
    evaluators.word_tokenize = lambda text: tokenize(text, preserve_line=True)
    evaluators.time.sleep = lambda seconds: None
    stub = {}
    evaluators.llm_fuzzy_match = lambda *arguments: stub.get("fuzzy", 1.0)
    evaluators.llm_ua_match = lambda *arguments: stub.get("ua", 0.0)
    pages = connected_pages()
    for line in sys.stdin:
        case = json.loads(line)
        stub.clear()
        stub.update(case.get("stub", {}))
        try:
            result = {"score": decide(case, pages)}
        except Exception as error:  # noqa: BLE001 - whatever it raises is its answer
            result = {"error": type(error).__name__}
        print(json.dumps(result), flush=True)


def connected_pages():
    if len(sys.argv) < 2:
        return lambda: []
    from playwright.sync_api import sync_playwright

    browser = sync_playwright().start().chromium.connect_over_cdp(sys.argv[1])
    return lambda: [page for context in browser.contexts for page in context.pages]


def decide(case, pages):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(case["config"], file)
        file.flush()
        if case["kind"] == "string_match":
            trajectory = [{"answer": case["answer"]}]
            return evaluators.StringEvaluator()(trajectory, file.name, None, None)
        if case["kind"] == "url_match":
            from webarena.evaluation_harness.helper_functions import PseudoPage

            return evaluators.URLEvaluator()([], file.name, PseudoPage(None, case["url"]), None)
        page = page_at(case["url"], pages)
        return evaluators.HTMLContentEvaluator()([], file.name, page, None)


def page_at(url, pages):
    """The tab at `url`; events of the browser arrive only while it is waited for."""
    for _ in range(100):
        for page in pages():
            if page.url == url:
                return page
        pages()[0].wait_for_timeout(100)
    raise LookupError(url)


main()
