"""Gemini's generateContent and its streamed twin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from chimera.gateway.wires.base import (
    Asked,
    Event,
    Medium,
    OfferedTool,
    Wire,
    cut_off,
    limit,
    mapping,
    real,
    texts,
)
from chimera.providers.wire import gemini
from chimera.providers.wire.common import objects
from chimera.types import JSON, Response

STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 402: "FAILED_PRECONDITION",
          404: "NOT_FOUND"}  # fmt: skip

#: In the one spelling that is read here: the service knows another of each.
FIELDS = frozenset({"contents", "systemInstruction", "tools", "toolConfig", "safetySettings",
                    "generationConfig", "labels"})  # fmt: skip
SETTINGS = frozenset({
    "temperature", "topP", "topK", "maxOutputTokens", "stopSequences", "seed",
    "presencePenalty", "frequencyPenalty", "responseMimeType", "responseSchema",
    "responseJsonSchema", "responseLogprobs", "logprobs", "thinkingConfig", "mediaResolution",
})  # fmt: skip


class GeminiWire(Wire):
    """The model and whether to stream stand in the address, not in the body."""

    name = "gemini"
    codec: ClassVar[Any] = gemini
    conversation = "contents"
    fields = FIELDS
    refused = ("cachedContent", "cached_content")
    instructions = ("systemInstruction",)
    own_data = frozenset({"args", "response"})

    def settings(self, body: Mapping[str, Any]) -> Asked:
        settings = mapping(body.get("generationConfig"))
        return Asked(
            tools=tuple(
                OfferedTool(
                    str(declared.get("name")),
                    str(declared.get("description") or ""),
                    _schema(declared.get("parametersJsonSchema") or declared.get("parameters")),
                )
                for tool in objects(body.get("tools"))
                for declared in objects(tool.get("functionDeclarations"))
            ),
            max_tokens=limit(settings.get("maxOutputTokens")),
            temperature=real(settings.get("temperature")),
            stop=texts(settings.get("stopSequences")),
        )

    def is_reference(self, part: dict[str, Any]) -> bool:
        return "fileData" in part or "file_data" in part

    def medium(self, part: dict[str, Any]) -> Medium | None:
        """Each name has two spellings: what one of them says is not all that the service reads."""
        found = [part[name] for name in ("inlineData", "inline_data") if part.get(name) is not None]
        if not found:
            return None
        named = [mapping(data).get(name) for data in found for name in ("mimeType", "mime_type")]
        kinds = [str(kind) for kind in named if kind is not None]
        pictures = kinds and all(kind.startswith("image/") for kind in kinds)
        return "picture" if pictures and len(found) == 1 else "other"

    def runs_at_client(self, tool: dict[str, Any]) -> bool:
        return set(tool) == {"functionDeclarations"}

    def passed(self, body: Mapping[str, Any]) -> tuple[dict[str, JSON], list[str]]:
        kept, withheld = super().passed(body)
        settings = mapping(kept.get("generationConfig"))
        withheld += [f"generationConfig.{name}" for name in settings if name not in SETTINGS]
        if settings:
            settings = {name: settings[name] for name in settings if name in SETTINGS}
            kept["generationConfig"] = settings
        return kept, withheld

    def bounded(self, body: dict[str, JSON], most: int) -> dict[str, JSON]:
        settings = mapping(body.get("generationConfig"))
        return {**body, "generationConfig": {**settings, "maxOutputTokens": most}}

    def prepared(self, body: dict[str, JSON], model: str) -> dict[str, JSON]:
        return body

    def whole(self, events: Iterable[JSON]) -> dict[str, JSON]:
        body: dict[str, JSON] = {}
        parts: list[JSON] = []
        reason = None
        for event in events:
            data = mapping(event)
            body |= {key: value for key, value in data.items() if key != "candidates"}
            for candidate in objects(data.get("candidates"))[:1]:
                parts += objects(mapping(candidate.get("content")).get("parts"))
                reason = candidate.get("finishReason") or reason
        if reason is None and not body.keys() & {"promptFeedback", "error"}:
            raise cut_off()
        content = {"role": "model", "parts": parts}
        return {**body, "candidates": [{"content": content, "finishReason": reason, "index": 0}]}

    def reply(self, response: Response, asked: Asked, model: str) -> dict[str, JSON]:
        parts: list[JSON] = [{"text": response.content}] if response.content else []
        parts += [
            {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments or {}}}
            for call in response.tool_calls
        ]
        usage = response.usage
        reason = "MAX_TOKENS" if response.stop_reason == "length" else "STOP"
        content = {"role": "model", "parts": parts or [{"text": ""}]}
        return {
            "candidates": [{"content": content, "finishReason": reason, "index": 0}],
            "usageMetadata": {
                "promptTokenCount": usage.input_tokens,
                "candidatesTokenCount": usage.output_tokens,
                "cachedContentTokenCount": usage.cached_tokens,
                "totalTokenCount": usage.total_tokens,
            },
            "modelVersion": model,
        }

    def events(self, reply: Mapping[str, Any]) -> Iterator[Event]:
        yield "", dict(reply)

    def error(self, status: int, kind: str, message: str) -> dict[str, JSON]:
        name = STATUS.get(status, "INTERNAL")
        return {"error": {"code": status, "message": message, "status": name}}


def _schema(value: object) -> dict[str, JSON]:
    """A JSON schema: the service's own dialect writes the names of types in capitals."""
    if not isinstance(value, dict):
        return {"type": "object", "properties": {}}
    schema: dict[str, JSON] = {}
    for key, inner in value.items():
        if key == "type" and isinstance(inner, str):
            schema[key] = inner.lower()
        elif key == "properties" and isinstance(inner, dict):
            schema[key] = {name: _schema(each) for name, each in inner.items()}
        else:
            schema[key] = _schema(inner) if isinstance(inner, dict) else inner
    return schema
