"""A page as text: its accessibility tree, one element a line, with the ids that actions use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Node = Mapping[str, Any]  # of Chromium's accessibility tree
Box = tuple[float, float, float, float]  # left, top, width, height

#: Say nothing to an agent that it could act on.
_HIDDEN_PROPERTIES = frozenset(
    {"focusable", "editable", "readonly", "level", "settable", "multiline", "invalid", "url"}
)
#: Structure only: left out when they have neither a name nor a property.
_STRUCTURE = frozenset(
    {
        *("generic", "none", "presentation", "RootWebArea", "Section", "banner", "navigation"),
        *("list", "listitem", "paragraph", "strong", "img", "image", "LabelText", "Legend"),
    }
)
#: Have no place of their own on the page, but can be chosen.
_WITHOUT_BOX = frozenset({"option", "MenuListOption", "menuitem"})
_NEAR_LINES = 3


@dataclass(frozen=True, slots=True)
class PageText:
    """What an agent reads, and the DOM node behind each id in it."""

    text: str
    ids: frozenset[int]


def page_text(
    nodes: Sequence[Node], boxes: Mapping[int, Box] | None, viewport: tuple[int, int]
) -> PageText:
    """Render the tree CDP gives; with `boxes`, only what the viewport shows.

    An id is the element's backend node id: it stays the same while the element exists.
    """
    by_id = {node["nodeId"]: node for node in nodes}
    roots = [node for node in nodes if node.get("parentId") not in by_id]
    lines: list[str] = []
    ids: set[int] = set()
    for depth, node in _walk(by_id, roots, lambda node: _on_screen(node, by_id, boxes, viewport)):
        dom_id = node.get("backendDOMNodeId")
        role, name = _value(node, "role"), _value(node, "name")
        if role == "StaticText" and any(name in line for line in lines[-_NEAR_LINES:]):
            continue
        label = f"[{dom_id}] " if dom_id is not None else ""
        lines.append("\t" * depth + f"{label}{role} {name!r}{_properties(node)}")
        if dom_id is not None:
            ids.add(dom_id)
    return PageText("\n".join(lines), frozenset(ids))


def snapshot_boxes(snapshot: Mapping[str, Any]) -> dict[int, Box]:
    """Where each node of the main document is in the viewport, from a DOM snapshot."""
    document = snapshot["documents"][0]
    left, top = document.get("scrollOffsetX", 0.0), document.get("scrollOffsetY", 0.0)
    dom_ids = document["nodes"]["backendNodeId"]
    layout = document["layout"]
    return {
        dom_ids[index]: (x - left, y - top, width, height)
        for index, (x, y, width, height) in zip(layout["nodeIndex"], layout["bounds"], strict=True)
    }


def _walk(
    by_id: Mapping[str, Node], roots: Sequence[Node], shown: Callable[[Node], bool]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Nodes worth a line, in document order; children of one that is not take its depth."""
    stack = [(0, node) for node in reversed(roots)]
    seen: set[str] = set()
    while stack:
        depth, node = stack.pop()
        if node["nodeId"] in seen:
            continue
        seen.add(node["nodeId"])
        worth = _is_worth_a_line(node) and shown(node)
        if worth:
            yield depth, node
        for child in reversed(node.get("childIds", ())):
            if child in by_id:
                stack.append((depth + worth, by_id[child]))


def _is_worth_a_line(node: Node) -> bool:
    role, name = _value(node, "role"), _value(node, "name")
    if node.get("ignored") or role in ("InlineTextBox", ""):
        return False
    if role == "StaticText":
        return bool(name.strip())
    return bool(name.strip()) or role not in _STRUCTURE or bool(_properties(node))


def _properties(node: Node) -> str:
    shown = [
        (item["name"], item["value"].get("value"))
        for item in node.get("properties", ())
        if item["name"] not in _HIDDEN_PROPERTIES and "value" in item["value"]
    ]
    value = node.get("value", {}).get("value")
    if value not in (None, "", _value(node, "name")):
        shown.append(("value", value))
    return "".join(f" {name}: {value}" for name, value in shown)


def _value(node: Node, key: str) -> str:
    return str(node.get(key, {}).get("value", ""))


def _on_screen(
    node: Node,
    by_id: Mapping[str, Node],
    boxes: Mapping[int, Box] | None,
    viewport: tuple[int, int],
) -> bool:
    """Whether the viewport shows a node; an option is where its list is."""
    if boxes is None or _value(node, "role") == "RootWebArea":
        return True
    if _value(node, "role") in _WITHOUT_BOX:
        while node.get("backendDOMNodeId") not in boxes and node.get("parentId") in by_id:
            node = by_id[node["parentId"]]
    box = boxes.get(node.get("backendDOMNodeId", 0))
    return box is not None and _shows(box, viewport)


def _shows(box: Box, viewport: tuple[int, int]) -> bool:
    left, top, width, height = box
    if width <= 0 or height <= 0:
        return False
    return left < viewport[0] and top < viewport[1] and left + width > 0 and top + height > 0
