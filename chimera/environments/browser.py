"""A real browser as an environment: the agent sees accessibility trees and acts on their ids.

Playwright lives on an event loop in a thread of its own, so that any thread may call in, and every
call ends: a page that hangs costs its time-out, never the trial.
"""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import re
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from chimera.environments.base import Environment, EnvironmentSpec
from chimera.environments.web import ScriptError
from chimera.environments.web.actions import action, parse_action
from chimera.environments.web.session import ActionFailed, BrowserSession, PageStuck
from chimera.environments.web.settings import BrowserSettings, chromium
from chimera.errors import EnvironmentFault, LimitReached, UsageError
from chimera.types import JSON, Image, ToolResult

if TYPE_CHECKING:
    from playwright.async_api import Page

    from chimera.tools.base import Tool

ResultT = TypeVar("ResultT")

SYSTEM_PROMPT = """\
You work in a web browser. After every action you are shown the open tabs, the URL and the page's \
accessibility tree, one element a line: [id] role 'name' properties. Only what is on the screen is \
listed: scroll for more. Use the ids of the newest tree. Only the sites of the task can be reached.
When you are done, call stop with the answer, or with an empty answer if the task asks for none. \
If the task cannot be done, stop with the answer N/A and the reason.

Without tools, write one action as the last line of your reply between triple backticks, such as \
```click [12]```, ```type [5] [text] [1]``` (1: press Enter afterwards), ```hover [7]```, \
```press [ctrl+a]```, ```scroll [down]```, ```goto [url]```, ```new_tab```, ```tab_focus [0]```, \
```close_tab```, ```go_back```, ```go_forward``` or ```stop [answer]```."""

START_SECONDS = 120.0
#: What an action may take beside the page's own time-outs.
SLACK_SECONDS = 30.0


@dataclass(slots=True)
class BrowserTool:
    """One action of the browser."""

    name: str
    description: str
    parameters: Mapping[str, JSON]

    def execute(self, arguments: Mapping[str, JSON], env: Environment) -> ToolResult:
        if not isinstance(env, BrowserEnvironment):
            return ToolResult("", error=f"{self.name} needs a browser, this is {env.name}")
        return env.act(self.name, arguments)


def _images(pictures: Sequence[bytes]) -> tuple[Image, ...]:
    return tuple(Image("image/png", base64.b64encode(each).decode()) for each in pictures)


def _tool(name: str, description: str, **parameters: tuple[str, str]) -> BrowserTool:
    return BrowserTool(
        name,
        description,
        {
            "type": "object",
            "properties": {
                key: {"type": kind, "description": meaning}
                for key, (kind, meaning) in parameters.items()
            },
            "required": [key for key in parameters if key not in ("press_enter", "answer")],
        },
    )


_ID = ("integer", "the number in brackets before the element")

TOOLS: tuple[BrowserTool, ...] = (
    _tool("click", "Click an element.", id=_ID),
    _tool(
        "type",
        "Click a field and type into it; what it holds already stays.",
        id=_ID,
        text=("string", "what to type"),
        press_enter=("boolean", "press Enter afterwards (default true)"),
    ),
    _tool("hover", "Move the mouse over an element.", id=_ID),
    _tool("press", "Press a key or a combination.", keys=("string", "such as Enter or ctrl+a")),
    _tool("scroll", "Scroll the page by one screen.", direction=("string", "up or down")),
    _tool("new_tab", "Open a new, empty tab."),
    _tool("tab_focus", "Go to another tab.", index=("integer", "the tab's number, from 0")),
    _tool("close_tab", "Close the current tab."),
    _tool("goto", "Go to a URL in the current tab.", url=("string", "the whole URL")),
    _tool("go_back", "Go back to the page before."),
    _tool("go_forward", "Go forward again."),
    _tool("stop", "End the task.", answer=("string", "the answer; empty when none is asked for")),
)


class BrowserEnvironment(Environment):
    """A fresh browser context at the task's first pages. It runs no commands and has no files.

    `answer` is what the agent handed in with `stop`; None while it has not stopped.
    """

    name = "browser"
    capabilities = frozenset({"browser", "network"})

    def __init__(self, settings: BrowserSettings) -> None:
        if lack := self.availability():
            raise UsageError(f"the browser cannot start: {lack}")
        self.settings = settings
        self.answer: str | None = None
        self._files: Mapping[str, bytes] | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._session = BrowserSession(settings)
        self._thread = threading.Thread(target=self._serve, daemon=True, name="chimera-browser")
        self._thread.start()
        try:
            self._call(self._session.start(), START_SECONDS)
            self.system_prompt = f"{SYSTEM_PROMPT}\n\nThe browser shows:\n{self.observe()}"
        except BaseException as error:
            self.close()
            if isinstance(error, (EnvironmentFault, UsageError)):
                raise
            raise EnvironmentFault(f"the browser did not start: {error}", retryable=True) from error

    @classmethod
    def start(cls, spec: EnvironmentSpec) -> Self:
        """A browser at the sites named in the variables BROWSER_SITES and BROWSER_START_URLS."""
        sites, first = (
            tuple(spec.variables.get(name, "").split())
            for name in ("BROWSER_SITES", "BROWSER_START_URLS")
        )
        return cls(BrowserSettings(sites=sites, start_urls=first))

    @classmethod
    def availability(cls) -> str | None:
        if find_spec("playwright") is None:
            return "playwright is not installed: pip install 'chimera-eval[browser]'"
        try:
            chromium()
        except UsageError as error:
            return str(error)
        return None

    # ------------------------------------------------------------------------- the worker

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _call(self, work: Coroutine[Any, Any, ResultT], seconds: float) -> ResultT:
        """Run a coroutine on the browser's own thread and wait for it, at most `seconds`."""
        if self._loop.is_closed() or not self._thread.is_alive():
            work.close()
            raise EnvironmentFault("the browser is closed")
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, seconds), self._loop)
        try:
            return future.result(seconds + 10)
        except (TimeoutError, concurrent.futures.TimeoutError):
            future.cancel()
            raise EnvironmentFault(f"the browser did not answer within {seconds:g} s") from None

    # -------------------------------------------------------------------------- for agents

    def tools(self) -> Sequence[Tool]:
        return TOOLS

    def observe(self) -> str:
        """What the agent sees now."""
        with self._lock:
            return self._call(self._session.observe(), self._patience())

    def act(self, name: str, arguments: Mapping[str, JSON]) -> ToolResult:
        """Do one action and return what the page looks like then."""
        if self.deadline is not None and self.remaining(1.0) <= 0:
            raise LimitReached("time", "the trial's time is used up")
        if name == "stop":
            self.answer = str(arguments.get("answer") or "")
            return ToolResult("stopped", metadata={"submitted": self.answer})
        with self._lock:
            return self._call(self._act(name, arguments), self._patience())

    def _patience(self) -> float:
        settings = self.settings
        return settings.navigation_timeout + 3 * settings.action_timeout + SLACK_SECONDS

    async def _act(self, name: str, arguments: Mapping[str, JSON]) -> ToolResult:
        from playwright.async_api import Error

        session = self._session
        problem = ""
        try:
            await action(session, name, arguments)()
            await session.settle()
        except (ActionFailed, PageStuck) as failure:
            problem = str(failure)
        except Error as failure:
            problem = str(failure).strip().splitlines()[0]
        before = session.screenshots[-1:]
        seen = await session.observe()
        newest = session.screenshots[-1:]
        images = () if newest and before and newest[0] is before[0] else _images(newest)
        return ToolResult(seen, error=problem or None, images=images)

    def reply(self, text: str) -> str | None:
        """The observation after an action written in the official form (```click [3]```).

        None for a text without one, and after `stop`.
        """
        if self.answer is not None:
            return None
        written = re.findall(r"```(.+?)```", text, re.DOTALL)
        if not written or written[-1].removeprefix("json").lstrip().startswith("{"):
            return None
        try:
            name, arguments = parse_action(written[-1])
        except ActionFailed as failure:
            return str(failure)
        result = self.act(name, arguments)
        if name == "stop":
            return None
        return f"{result.error}\n\n{result.output}" if result.error else result.output

    # ------------------------------------------------------------------------- for graders

    @property
    def url(self) -> str:
        """Where the agent left the browser; "" when it has no tab."""
        return "" if (page := self._session.current) is None else page.url

    @property
    def blocked(self) -> Mapping[str, int]:
        """Addresses outside the sites that pages or the agent tried to reach, with counts."""
        return dict(self._session.proxy.blocked)

    def live_page(self, wait: float = 3.0) -> LivePage:
        """The tab the agent left, for checks. `wait`: seconds a page opened for one may settle."""
        with self._lock:
            return LivePage(self, self._session.page, wait)

    def save_storage_state(self, path: Path) -> None:
        """Keep cookies and local storage for `BrowserSettings.storage_state`."""
        with self._lock:
            self._call(self._session.context.storage_state(path=path), self._patience())

    def finish(self) -> Mapping[str, bytes]:
        """End the session and return what is kept: screenshots, the trace, the HTTP archive."""
        with self._lock:
            if self._files is None:
                with suppress(Exception):  # a page that cannot be shown has no picture
                    self._call(self._session.keep_screenshot(), 10)
                recorded = self._call(self._session.finish(), 60)
                pictures = {
                    f"screenshot-{number:02}.png": picture
                    for number, picture in enumerate(self._session.screenshots, 1)
                }
                self._files = {**pictures, **recorded}
            return self._files

    def stop_processes(self) -> None:
        """Nothing an agent starts outlives its action; pages stay, for the checks to look at."""

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self._call(self._session.close(), 30)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
            if not self._thread.is_alive():
                self._loop.close()


class LivePage:
    """A tab of the agent's browser as the checks see it."""

    def __init__(self, env: BrowserEnvironment, page: Page, wait: float) -> None:
        self._env, self._page, self._wait = env, page, wait

    @property
    def url(self) -> str:
        return self._page.url

    def content(self) -> str:
        return self._ask(self._env._session.content(self._page))

    def evaluate(self, script: str, argument: JSON = None) -> Any:
        from playwright.async_api import Error

        try:
            return self._ask(self._env._session.evaluate(self._page, script, argument))
        except Error as error:
            if self._page.is_closed():
                raise EnvironmentFault("the page was closed while it was checked") from None
            raise ScriptError(str(error)) from None

    @contextmanager
    def opened(self, url: str) -> Iterator[LivePage]:
        env = self._env
        from playwright.async_api import Error

        try:
            page, status = self._ask(env._session.open_for_grading(url, self._wait))
        except Error as error:
            reason = str(error).strip().splitlines()[0]
            raise EnvironmentFault(f"{url} cannot be opened: {reason}", retryable=True) from None
        try:
            if status >= 500:
                raise EnvironmentFault(f"the site answers {status} at {url}", retryable=True)
            yield LivePage(env, page, self._wait)
        finally:
            env._call(env._session.close_grading_tab(page), 15)

    def _ask(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        with self._env._lock:
            try:
                return self._env._call(work, self._env._patience())
            except PageStuck as error:
                raise EnvironmentFault(f"{self.url}: {error}") from None
