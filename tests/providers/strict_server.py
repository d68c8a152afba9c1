"""A model service on loopback that keeps the rules which services keep and refuses what does not.

It plays a model that calls a tool at every step (two at once now and then), thinks before, and ends
with a text. What it hands out to be carried (signatures, encrypted reasoning, reasoning texts) it
remembers and wants back as it came. Each rule names where it is published; none was tried on the
real services.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

STEPS = 30
GOOGLE_TOKEN = "a-token-of-google"
VERTEX = "/projects/p/locations/europe-west1/publishers/"
DONE = "All done."
Body = dict[str, Any]


class Refused(Exception):
    """HTTP 400 with these words."""


def secret(*parts: object) -> str:
    """Something that only this server can have made: a signature, encrypted reasoning."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def calls_of(step: int) -> list[str]:
    """The ids of a step's calls: every fifth step makes two at once."""
    return [f"call-{step}-{index}" for index in range(2 if step % 5 == 4 else 1)]


def demand(holds: object, words: str) -> None:
    if not holds:
        raise Refused(words)


def check_results(expected: Sequence[str], found: Sequence[str]) -> None:
    """Every call of a step is answered, once, before anything else is said.

    https://platform.openai.com/docs/guides/function-calling (all of a turn's calls are answered);
    https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use (results follow
    immediately, in one turn); https://ai.google.dev/gemini-api/docs/function-calling.
    """
    demand(list(expected) == list(found), f"calls {list(expected)} are answered by {list(found)}")


# OpenAI, chat completions


def chat(body: Body) -> Body:
    """The older interface, for models of three makers."""
    model, messages = body["model"], body["messages"]
    # gpt-5.4 and later refuse tools here, whatever effort is sent: litellm pull request 34569.
    demand(
        not (model.startswith("gpt-5") and body.get("tools")),
        "Function tools with reasoning_effort are not supported, use /v1/responses",
    )
    step = 0
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        ids = [call["id"] for call in message["tool_calls"]]
        check_results(calls_of(step), ids)
        if model.startswith("deepseek"):
            check_deepseek(message, step, index)
        if model.startswith("gemini"):
            check_gemini_chat(message, step)
        after = messages[index + 1 : index + 1 + len(ids)]
        check_results(ids, [each.get("tool_call_id") for each in after])
        step += 1
    answer = {"role": "assistant", "content": DONE if step == STEPS else None}
    if model.startswith("deepseek"):
        answer["reasoning_content"] = secret("deepseek", step)
    if step < STEPS:
        answer["tool_calls"] = [chat_call(model, step, i) for i in range(len(calls_of(step)))]
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 40},
        "completion_tokens_details": {"reasoning_tokens": 7},
    }
    reason = "stop" if step == STEPS else "tool_calls"
    choice = {"index": 0, "finish_reason": reason, "message": answer}
    return {"id": "c", "object": "chat.completion", "model": model, "choices": [choice],
            "usage": usage}  # fmt: skip


def chat_call(model: str, step: int, index: int) -> Body:
    function = {"name": "clock", "arguments": json.dumps({"zone": f"z{step}"})}
    call: Body = {"id": calls_of(step)[index], "type": "function", "function": function}
    if model.startswith("gemini") and index == 0:
        call["extra_content"] = {"google": {"thought_signature": secret("gemini", step)}}
    return call


def check_deepseek(message: Body, step: int, index: int) -> None:
    # https://api-docs.deepseek.com/guides/thinking_mode#tool-calls; opencode#24083, qwen-code#3578
    demand(
        message.get("reasoning_content") == secret("deepseek", step),
        f"Missing `reasoning_content` field in the assistant message at message index {index}",
    )


def check_gemini_chat(message: Body, step: int) -> None:
    # https://ai.google.dev/gemini-api/docs/thought-signatures (OpenAI compatibility: it is in
    # extra_content.google); ollama#15785, hermes-agent#15054
    first = message["tool_calls"][0]
    google = (first.get("extra_content") or {}).get("google") or {}
    demand(
        google.get("thought_signature") == secret("gemini", step),
        "Function call is missing a thought_signature in functionCall parts",
    )


# OpenAI, Responses


def responses(body: Body) -> Body:
    """Without state: nothing of a conversation is kept here, so all of it must come along."""
    # https://platform.openai.com/docs/guides/reasoning#encrypted-reasoning-items
    demand(body.get("store") is False, "this organization keeps nothing: store must be false")
    demand("previous_response_id" not in body, "Previous response not found")
    demand(
        "reasoning.encrypted_content" in body.get("include", ()),
        "without include reasoning.encrypted_content its reasoning would be lost",
    )
    for tool in body.get("tools", ()):
        demand(tool.get("name"), "Missing required parameter: 'tools[0].name'")
    items, step = list(body["input"]), 0
    while items:
        item = items.pop(0)
        kind = item.get("type", "message")
        if kind == "message":
            continue
        check_reasoning_item(item, step, items)
        ids = calls_of(step)
        for index, call_id in enumerate(ids):
            check_call_item(items.pop(0), step, index, call_id)
        outputs = [items.pop(0) for _ in ids if items]
        check_results(ids, [each.get("call_id") for each in outputs])
        for each in outputs:
            demand(each.get("type") == "function_call_output", "No tool output found")
        step += 1
    return response_of(step, body["model"])


def check_reasoning_item(item: Body, step: int, rest: Sequence[Body]) -> None:
    kind = item.get("type")
    # cline#12242, continue#10018
    demand(
        kind != "function_call",
        f"Item '{item.get('id')}' of type 'function_call' was provided without its required "
        f"'reasoning' item: 'rs_{step}'.",
    )
    demand(kind == "reasoning", f"No tool call found for the item of type '{kind}'")
    # opencode#8987: what is not stored must bring its encrypted content
    demand(
        item.get("encrypted_content"),
        f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set "
        "to false.",
    )
    demand(item["encrypted_content"] == secret("openai", step), "could not be decrypted")
    demand(item.get("id") == f"rs_{step}", "Invalid 'input[].id'")
    # vercel/ai#7099
    demand(rest, f"Item 'rs_{step}' of type 'reasoning' was provided without its following item.")


def check_call_item(item: Body, step: int, index: int, call_id: str) -> None:
    demand(item.get("type") == "function_call", "the reasoning's following item is missing")
    demand(item.get("call_id") == call_id, f"No function call with the id {call_id}")
    demand(item.get("id") == f"fc_{step}_{index}", "Invalid 'input[].id'")


def response_of(step: int, model: str) -> Body:
    thought = {
        "type": "reasoning",
        "id": f"rs_{step}",
        "summary": [{"type": "summary_text", "text": f"thought {step}"}],
        "encrypted_content": secret("openai", step),
    }
    said = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": DONE, "annotations": []}],
    }
    calls = [
        {
            "type": "function_call",
            "id": f"fc_{step}_{index}",
            "call_id": call_id,
            "name": "clock",
            "arguments": json.dumps({"zone": f"z{step}"}),
            "status": "completed",
        }
        for index, call_id in enumerate(calls_of(step))
    ]
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 7},
        "total_tokens": 120,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": model,
        "output": [thought, *([said] if step == STEPS else calls)],
        "usage": usage,
    }


# Anthropic


def messages(body: Body, beta: str = "") -> Body:
    turns, step = body["messages"], 0
    check_anthropic_fields(body, beta)
    for index, turn in enumerate(turns):
        # https://docs.claude.com/en/api/messages: turns alternate and begin with the user's
        demand(turn["role"] == ("user", "assistant")[index % 2], "roles must alternate")
        for block in turn["content"]:
            empty = block["type"] == "text" and not block["text"].strip()
            demand(not empty, "text content blocks must be non-empty")
        if turn["role"] == "assistant":
            check_thinking(turn["content"], step, index)
            ids = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
            check_results([f"toolu_{each}" for each in calls_of(step)], ids)
            results = turns[index + 1]["content"][: len(ids)] if index + 1 < len(turns) else []
            check_results(ids, [block.get("tool_use_id") for block in results])
            step += 1
    return message_of(step, body["model"])


def check_anthropic_fields(body: Body, beta: str) -> None:
    thinking = body.get("thinking") or {}
    demand(thinking.get("type") == "enabled", "this model is asked to think in these tests")
    # https://docs.claude.com/en/docs/build-with-claude/extended-thinking
    demand(body["max_tokens"] > thinking["budget_tokens"], "max_tokens must be greater than budget")
    demand(thinking["budget_tokens"] >= 1024, "budget_tokens: at least 1024")
    demand("temperature" not in body, "`temperature` may only be set to 1 when thinking is enabled")
    # Thinking between calls needs its beta: the same page, "Interleaved thinking".
    demand("interleaved-thinking-2025-05-14" in beta.split(","), "between calls I do not think")
    # https://docs.claude.com/en/docs/build-with-claude/prompt-caching: four marks at the most
    marks = json.dumps(body).count('"cache_control"')
    demand(marks <= 4, f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")


def check_thinking(blocks: Sequence[Body], step: int, index: int) -> None:
    # https://docs.claude.com/en/docs/build-with-claude/extended-thinking#preserving-thinking-blocks
    # opencode#3077
    first = blocks[0]
    demand(
        first["type"] in ("thinking", "redacted_thinking"),
        f"messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
        f"`{first['type']}`.",
    )
    thoughts = [block for block in blocks if block["type"] in ("thinking", "redacted_thinking")]
    plain = [{k: v for k, v in block.items() if k != "cache_control"} for block in thoughts]
    demand(plain == thinking_of(step), "thinking blocks cannot be modified: invalid `signature`")


def thinking_of(step: int) -> list[Body]:
    thought = {
        "type": "thinking",
        "thinking": f"thought {step}",
        "signature": secret("claude", step),
    }
    hidden = {"type": "redacted_thinking", "data": secret("redacted", step)}
    return [thought, hidden] if step % 3 == 0 else [thought]


def message_of(step: int, model: str) -> Body:
    calls = [
        {"type": "tool_use", "id": f"toolu_{each}", "name": "clock", "input": {"zone": f"z{step}"}}
        for each in calls_of(step)
    ]
    last = [{"type": "text", "text": DONE}] if step == STEPS else calls
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [*thinking_of(step), *last],
        "stop_reason": "end_turn" if step == STEPS else "tool_use",
        "usage": {
            "input_tokens": 10,
            "cache_read_input_tokens": 40,
            "cache_creation_input_tokens": 50,
            "output_tokens": 20,
            "output_tokens_details": {"thinking_tokens": 7},
        },
    }


# Gemini


def gemini(body: Body) -> Body:
    step, contents = 0, body["contents"]
    for index, content in enumerate(contents):
        if content["role"] != "model":
            continue
        parts = [part for part in content["parts"] if "functionCall" in part]
        check_results(calls_of(step), [part["functionCall"].get("id") for part in parts])
        # https://ai.google.dev/gemini-api/docs/thought-signatures: of each step the first call
        demand(
            parts[0].get("thoughtSignature") == secret("gemini", step),
            "Function call is missing a thought_signature in functionCall parts",
        )
        answers = contents[index + 1]["parts"] if index + 1 < len(contents) else []
        results = [part["functionResponse"] for part in answers if "functionResponse" in part]
        # https://ai.google.dev/gemini-api/docs/function-calling: as many responses as calls
        check_results(calls_of(step), [result.get("id") for result in results])
        for result in results:
            demand(result["name"] == "clock", "the name of a response is that of its call")
        step += 1
    thought = {"text": f"thought {step}", "thought": True}
    calls: list[Body] = [
        {"functionCall": {"id": each, "name": "clock", "args": {"zone": f"z{step}"}}}
        for each in calls_of(step)
    ]
    calls[0]["thoughtSignature"] = secret("gemini", step)
    last = [{"text": DONE, "thoughtSignature": secret("end")}] if step == STEPS else calls
    return {
        "candidates": [
            {"content": {"role": "model", "parts": [thought, *last]}, "finishReason": "STOP"}
        ],
        "usageMetadata": {
            "promptTokenCount": 100,
            "cachedContentTokenCount": 40,
            "candidatesTokenCount": 13,
            "thoughtsTokenCount": 7,
            "totalTokenCount": 120,
        },
        "modelVersion": "gemini-3",
    }


def google_token(form: bytes) -> Body:
    """The answer to a service account that has signed for itself.

    https://developers.google.com/identity/protocols/oauth2/service-account#authorizingrequests
    """
    given = parse_qs(form.decode())
    demand(given["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"], "no grant")
    demand(given["assertion"][0].count(".") == 2, "nothing is signed")
    return {"access_token": GOOGLE_TOKEN, "expires_in": 3600, "token_type": "Bearer"}


class StrictServer:
    """Answers on loopback until it is closed; `refusals` are the words it refused with."""

    def __init__(self) -> None:
        self.refusals: list[str] = []
        self.bodies: list[Body] = []
        self.headers: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["content-length"]))
                body = google_token(content) if self.path == "/token" else json.loads(content)
                outer.bodies.append(body)
                outer.headers.append({k.lower(): v for k, v in self.headers.items()})
                status, answer = outer.answer(self.path, body, self.headers)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, path: str, body: Body, headers: Any) -> tuple[int, Body]:
        routes: dict[str, Callable[[Body], Body]] = {
            "/chat/completions": chat,
            "/responses": responses,
            "/messages": lambda body: messages(body, headers.get("anthropic-beta", "")),
            # Amazon Bedrock has the model in the address and the betas in the body.
            "/invoke": lambda body: messages(
                {"model": "claude", **body}, ",".join(body.get("anthropic_beta", ()))
            ),
            ":generateContent": gemini,
            # So has Vertex AI, which wants the version of the interface in the body.
            ":rawPredict": lambda body: messages(
                {"model": body["anthropic_version"], **body}, headers.get("anthropic-beta", "")
            ),
            "/token": lambda body: body,
        }
        if "/publishers/" in path and (
            VERTEX not in path or headers.get("authorization") != f"Bearer {GOOGLE_TOKEN}"
        ):
            return 401, {"error": {"message": f"no right to {path}", "status": "UNAUTHENTICATED"}}
        for ending, route in routes.items():
            if path.partition("?")[0].endswith(ending):
                try:
                    return 200, route(body)
                except (Refused, KeyError, IndexError) as error:
                    self.refusals.append(str(error))
                    return 400, {"type": "error", "error": {"code": 400, "message": str(error)}}
        return 404, {"error": {"message": f"no {path}"}}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
