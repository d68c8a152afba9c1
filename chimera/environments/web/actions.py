"""The official actions: their written form, and what each does to a session."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping

from chimera.environments.web.session import ActionFailed, BrowserSession
from chimera.types import JSON

#: name → the form it is written in
FORMS: Mapping[str, str] = {
    "click": r"\[(?P<id>\d+)\]",
    "hover": r"\[(?P<id>\d+)\]",
    "type": r"\[(?P<id>\d+)\]\s*\[(?P<text>.*?)\](?:\s*\[(?P<press_enter>[01])\])?",
    "press": r"\[(?P<keys>.+)\]",
    "scroll": r"\[?(?P<direction>up|down)\]?",
    "goto": r"\[(?P<url>.+)\]",
    "tab_focus": r"\[(?P<index>\d+)\]",
    "new_tab": "",
    "close_tab": "",
    "go_back": "",
    "go_forward": "",
    "stop": r"(?:\[(?P<answer>.*)\])?",
}


def parse_action(text: str) -> tuple[str, dict[str, JSON]]:
    """`type [5] [milk] [1]` as a name and arguments; `ActionFailed` when it is none."""
    match = re.match(r"\s*([a-z_]+)\s*", text)
    name = match[1] if match else ""
    if match is None or name not in FORMS:
        raise ActionFailed(f"not an action: {text.strip()[:100]!r}; there are {', '.join(FORMS)}")
    found = re.fullmatch(FORMS[name], text[match.end() :].strip(), re.DOTALL)
    if found is None:
        raise ActionFailed(f"not a valid {name} action: {text.strip()[:100]!r}")
    arguments: dict[str, JSON] = {k: v for k, v in found.groupdict().items() if v is not None}
    if "press_enter" in arguments:
        arguments["press_enter"] = arguments["press_enter"] == "1"
    return name, arguments


def action(
    session: BrowserSession, name: str, arguments: Mapping[str, JSON]
) -> Callable[[], Awaitable[object]]:
    """What to do for an action, its arguments checked."""
    match name:
        case "click":
            element = _number(arguments, "id")
            return lambda: session.click(element)
        case "hover":
            element = _number(arguments, "id")
            return lambda: session.hover(element)
        case "type":
            element, text = _number(arguments, "id"), _text(arguments, "text")
            enter = arguments.get("press_enter", True) not in (False, 0, "0", "false")
            return lambda: session.type(element, text, enter)
        case "press":
            keys = key_combination(_text(arguments, "keys"))
            return lambda: session.press(keys)
        case "scroll":
            direction = _text(arguments, "direction")
            if direction not in ("up", "down"):
                raise ActionFailed(f"scroll goes up or down, not {direction!r}")
            return lambda: session.scroll(direction)
        case "goto":
            url = _text(arguments, "url")
            return lambda: session.goto(
                url if "://" in url or url == "about:blank" else f"http://{url}"
            )
        case "tab_focus":
            index = _number(arguments, "index")
            return lambda: session.focus(index)
        case "new_tab":
            return session.new_tab
        case "close_tab":
            return session.close_tab
        case "go_back":
            return session.back
        case "go_forward":
            return session.forward
    raise ActionFailed(f"there is no action {name!r}")


def _number(arguments: Mapping[str, JSON], key: str) -> int:
    value = str(arguments.get(key, "")).strip().strip("[]")
    if not value.isdecimal() or len(value) > 9:
        raise ActionFailed(f"{key} must be a number, not {value[:80]!r}")
    return int(value)


def _text(arguments: Mapping[str, JSON], key: str) -> str:
    value = arguments.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ActionFailed(f"{key} must be a text that is not empty")
    return value


_KEYS = {
    "ctrl": "Control", "control": "Control", "cmd": "Control", "command": "Control",
    "meta": "Control", "alt": "Alt", "option": "Alt", "shift": "Shift", "enter": "Enter",
    "return": "Enter", "esc": "Escape", "escape": "Escape", "tab": "Tab", "del": "Delete",
    "delete": "Delete", "backspace": "Backspace", "space": "Space", "up": "ArrowUp",
    "down": "ArrowDown", "left": "ArrowLeft", "right": "ArrowRight", "pageup": "PageUp",
    "pagedown": "PageDown", "home": "Home", "end": "End",
}  # fmt: skip


def key_combination(written: str) -> str:
    """`ctrl+a` as the browser names it: Control+a."""
    parts = [part.strip() for part in written.split("+")]
    return "+".join(_KEYS.get(part.lower().removeprefix("arrow"), part) for part in parts)
