"""One browser with one context: tabs, actions, observations and what is kept of them.

Everything here is a coroutine of one event loop, and every wait has an end: a call that the
browser does not answer is cancelled by the caller, the loop goes on, the tab is given up.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, TypeVar

from chimera.environments.web.proxy import SiteProxy
from chimera.environments.web.settings import BrowserSettings, LogIn, chromium
from chimera.environments.web.tree import PageText, page_text, snapshot_boxes
from chimera.errors import EnvironmentFault
from chimera.types import JSON

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, CDPSession, Page, Playwright

ResultT = TypeVar("ResultT")

#: No service of the browser's maker is asked for, and nothing goes round the proxy.
ARGUMENTS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--dns-prefetch-disable",
    "--no-first-run",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


class PageStuck(Exception):
    """A tab that does not answer; the browser itself does."""


class ActionFailed(Exception):
    """An action that could not be done, with a reason for the agent."""


class BrowserSession:
    """The browser of one trial."""

    def __init__(self, settings: BrowserSettings) -> None:
        self.settings = settings
        self.proxy = SiteProxy((*settings.sites, *settings.start_urls))
        self.screenshots: list[bytes] = []
        self.notes: list[str] = []  # what happened without being asked for, for the agent
        self.refused_tabs = 0
        self.current: Page | None = None
        self._folder = Path(mkdtemp(prefix="chimera-browser-"))
        self._seen = PageText("", frozenset())
        self._stuck: set[Page] = set()
        self._process = 0
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._context: BrowserContext | None = None
        self._clients: dict[Page, CDPSession] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._grading = False

    # ------------------------------------------------------------------------ start and end

    async def start(self) -> None:
        from playwright.async_api import async_playwright

        await self.proxy.start()
        self._playwright = await async_playwright().start()
        self._browser = await self._playwright.chromium.launch(
            executable_path=chromium(),
            args=[*ARGUMENTS, *self.settings.arguments],
            chromium_sandbox=os.geteuid() != 0,
            proxy={"server": f"http://127.0.0.1:{self.proxy.port}", "bypass": "<-loopback>"},
            downloads_path=self._folder / "downloads",
        )
        self._process = await self._browser_process()
        await self._open_context()
        for log_in in self.settings.log_ins:
            await self._log_in(log_in)
        for index, url in enumerate(self.settings.start_urls):
            page = self.current if index == 0 else await self.new_tab()
            await self._first_visit(page, url)
        if len(self.settings.start_urls) > 1:
            await self.focus(0)

    async def _open_context(self) -> None:
        if self._browser is None:
            raise EnvironmentFault("the browser is closed")
        width, height = self.settings.viewport
        options: dict[str, Any] = {}
        if self.settings.storage_state is not None:
            options["storage_state"] = self.settings.storage_state
        if self.settings.record_network:
            options["record_har_path"] = self._folder / "network.har"
        self._context = await self._browser.new_context(
            viewport={"width": width, "height": height},
            accept_downloads=False,
            service_workers="block",
            locale="en-US",
            **options,
        )
        self._context.set_default_timeout(self.settings.action_timeout * 1000)
        self._context.set_default_navigation_timeout(self.settings.navigation_timeout * 1000)
        self._context.on("page", self._tab_opened)
        await self._context.tracing.start(screenshots=False, snapshots=True, sources=False)
        await self.new_tab()

    async def _browser_process(self) -> int:
        if self._browser is None:
            return 0
        client = await self._browser.new_browser_cdp_session()
        info = await client.send("SystemInfo.getProcessInfo")
        await client.detach()
        return next((p["id"] for p in info["processInfo"] if p["type"] == "browser"), 0)

    async def _first_visit(self, page: Page | None, url: str) -> None:
        from playwright.async_api import Error

        try:
            if page is not None:
                await page.goto(url)
        except Error as error:
            raise EnvironmentFault(
                f"the site does not answer at {url}: {_first_line(error)}", retryable=True
            ) from None

    async def _log_in(self, account: LogIn) -> None:
        """Fill the page's log-in form and see that it is gone afterwards."""
        from playwright.async_api import Error

        secret = "input[type=password]:visible"
        name = "input:is([type=text], [type=email], [type=username], :not([type])):visible"
        try:
            await self.page.goto(account.url)
            form = self.page.locator("form").filter(has=self.page.locator(secret)).first
            await form.locator(name).first.fill(account.user)
            await form.locator(secret).first.fill(account.password)
            await form.locator(secret).first.press("Enter")
            await self.page.locator(secret).first.wait_for(state="detached")
        except Error as error:
            raise EnvironmentFault(
                f"log-in at {account.url} as {account.user} failed: {_first_line(error)}",
                retryable=True,
            ) from None

    async def finish(self) -> Mapping[str, bytes]:
        """Close the context and return its files: the trace and, if recorded, the archive."""
        context, self._context = self._context, None
        if context is None:
            return {}
        trace = self._folder / "trace.zip"
        with suppress(Exception):  # evidence is welcome, but its lack must not cost the verdict
            await asyncio.wait_for(context.tracing.stop(path=trace), 20)
        with suppress(Exception):
            await asyncio.wait_for(context.close(), 20)
        self.current = None
        files = (trace, self._folder / "network.har")
        return {file.name: file.read_bytes() for file in files if file.exists()}

    async def close(self) -> None:
        """End the browser, gently first, then by its process group."""
        if self._browser is not None:
            with suppress(Exception):  # whatever it says, it is killed next
                await asyncio.wait_for(self._browser.close(), 5)
        if self._process:
            with suppress(ProcessLookupError, PermissionError):
                if os.getpgid(self._process) == self._process:
                    os.killpg(self._process, signal.SIGKILL)
        if self._playwright is not None:
            with suppress(Exception):  # its driver ends with the pipe to it in any case
                await asyncio.wait_for(self._playwright.stop(), 5)
        self._browser = self._context = self._playwright = self.current = None
        await self.proxy.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    # ---------------------------------------------------------------------------------- tabs

    @property
    def context(self) -> BrowserContext:
        if self._context is None or self._browser is None or not self._browser.is_connected():
            raise EnvironmentFault("the browser is closed")
        return self._context

    @property
    def page(self) -> Page:
        if self.current is None or self.current.is_closed():
            self.current = self.context.pages[-1] if self.context.pages else None
        if self.current is None:
            raise ActionFailed("there is no open tab; use new_tab")
        return self.current

    def _tab_opened(self, page: Page) -> None:
        if self._grading or self._context is None:
            return
        if len(self.context.pages) > self.settings.max_tabs:
            self.refused_tabs += 1
            closing = asyncio.create_task(self._close_quietly(page))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            return
        page.on("crash", lambda crashed: self._stuck.add(crashed))
        page.on("dialog", self._dialog)
        page.on("download", lambda file: self.notes.append(f"a download was refused: {file.url}"))
        self.current = page

    async def _dialog(self, dialog: Any) -> None:
        """What nobody answers is dismissed, as upstream's browser does; the agent is told."""
        self.notes.append(f"the page showed a {dialog.type} and it was dismissed: {dialog.message}")
        with suppress(Exception):  # the page may be gone before it can be answered
            await (dialog.accept() if dialog.type == "beforeunload" else dialog.dismiss())

    async def _close_quietly(self, page: Page) -> None:
        with suppress(Exception):  # a tab that is gone or stuck is no reason to stop
            await asyncio.wait_for(page.close(), 5)

    async def new_tab(self) -> Page:
        if len(self.context.pages) >= self.settings.max_tabs:
            raise ActionFailed(f"{self.settings.max_tabs} tabs are open, more are not allowed")
        self.current = await self.context.new_page()
        return self.current

    async def focus(self, index: int) -> None:
        if not 0 <= index < len(self.context.pages):
            raise ActionFailed(
                f"there is no tab {index}; open are 0 to {len(self.context.pages) - 1}"
            )
        self.current = self.context.pages[index]
        if self.current not in self._stuck:
            await self.answer(self.current.bring_to_front())

    async def close_tab(self) -> None:
        page = self.page
        remaining = [tab for tab in self.context.pages if tab is not page]
        if not remaining:
            await self.new_tab()
        await self._close_quietly(page)
        self._stuck.discard(page)
        if remaining:
            self.current = remaining[-1]

    async def answer(self, question: Awaitable[ResultT], seconds: float | None = None) -> ResultT:
        """The page's answer, or `PageStuck` when there is none in time."""
        page = self.current
        try:
            return await asyncio.wait_for(question, seconds or self.settings.action_timeout)
        except TimeoutError:
            if page is not None:
                self._stuck.add(page)
            raise PageStuck("the page does not respond") from None

    # --------------------------------------------------------------------------- navigation

    async def goto(self, url: str) -> None:
        """Go to a URL of the configured sites; a stuck tab is replaced by a new one first."""
        if url != "about:blank" and not self.proxy.allows(url):
            raise ActionFailed(f"{url} is not on one of this task's sites")
        if self.page in self._stuck:
            stuck = self.page
            await self._close_quietly(stuck)
            self._stuck.discard(stuck)
            await self.new_tab()
        await self._navigate(self.page.goto(url))

    async def back(self) -> None:
        await self._navigate(self.page.go_back())

    async def forward(self) -> None:
        await self._navigate(self.page.go_forward())

    async def _navigate(self, navigation: Awaitable[Any]) -> None:
        from playwright.async_api import TimeoutError as NavigationTimeout

        try:
            await self.answer(navigation, self.settings.navigation_timeout + 5)
        except NavigationTimeout:
            self.notes.append("the page did not finish loading in time")

    # ------------------------------------------------------------------------------ actions

    async def click(self, element: int) -> None:
        if await self._choose_option(element):
            return
        x, y = await self._point(element)
        await self.answer(self.page.mouse.click(x, y))

    async def hover(self, element: int) -> None:
        x, y = await self._point(element)
        await self.answer(self.page.mouse.move(x, y))

    async def type(self, element: int, text: str, press_enter: bool) -> None:
        await self.click(element)
        await self.answer(self.page.keyboard.type(text), 30)
        if press_enter:
            await self.answer(self.page.keyboard.press("Enter"))

    async def press(self, keys: str) -> None:
        await self.answer(self.page.keyboard.press(keys))

    async def scroll(self, direction: str) -> None:
        sign = -1 if direction == "up" else 1
        script = """sign => {
          const area = document.scrollingElement || document.body;
          area.scrollTop += sign * window.innerHeight;
        }"""
        await self.answer(self.page.evaluate(script, sign))

    async def _point(self, element: int) -> tuple[float, float]:
        """The middle of an element's first visible piece, scrolled into view."""
        from playwright.async_api import Error

        self._known(element)
        client = await self._client()
        node = {"backendNodeId": element}
        try:
            await self.answer(client.send("DOM.scrollIntoViewIfNeeded", node))
            answer = await self.answer(client.send("DOM.getContentQuads", node))
        except Error as error:
            raise ActionFailed(f"[{element}] cannot be reached: {_first_line(error)}") from None
        if not answer["quads"]:
            raise ActionFailed(f"[{element}] is not visible")
        quad = answer["quads"][0]
        return sum(quad[0::2]) / 4, sum(quad[1::2]) / 4

    async def _choose_option(self, element: int) -> bool:
        """Choose an option of a drop-down list, which has no place to click at; else False."""
        from playwright.async_api import Error

        self._known(element)
        client = await self._client()
        script = """function () {
          if (!(this instanceof HTMLOptionElement)) return false;
          const list = this.closest('select');
          if (!list) return false;
          this.selected = list.multiple ? !this.selected : true;
          for (const kind of ['input', 'change'])
            list.dispatchEvent(new Event(kind, {bubbles: true}));
          return true;
        }"""
        try:
            found = await self.answer(client.send("DOM.resolveNode", {"backendNodeId": element}))
            call = {
                "objectId": found["object"]["objectId"],
                "functionDeclaration": script,
                "returnByValue": True,
            }
            answer = await self.answer(client.send("Runtime.callFunctionOn", call))
        except Error as error:
            raise ActionFailed(f"[{element}] is gone: {_first_line(error)}") from None
        return answer["result"].get("value") is True

    def _known(self, element: int) -> None:
        if element not in self._seen.ids:
            raise ActionFailed(f"there is no element [{element}] in the last observation")

    async def _client(self) -> CDPSession:
        page = self.page
        if page not in self._clients:
            self._clients[page] = await self.answer(self.context.new_cdp_session(page))
        return self._clients[page]

    # -------------------------------------------------------------------------- observation

    async def settle(self) -> None:
        """Wait for what an action set going: scripts shortly, a navigation until it is loaded."""
        from playwright.async_api import Error

        await asyncio.sleep(self.settings.settle)
        if self.page in self._stuck:
            return
        with suppress(Error):  # still loading; the agent sees what there is
            await self.page.wait_for_load_state("load", timeout=self.settings.action_timeout * 1000)

    async def observe(self) -> str:
        """The tabs, the URL and the accessibility tree; a screenshot is kept."""
        from playwright.async_api import Error

        try:
            page = self.page
        except ActionFailed as problem:
            return str(problem)
        notes, self.notes = self.notes, []
        lines = [await self._tab_line(), f"URL: {page.url}", *(f"Note: {note}" for note in notes)]
        try:
            if page in self._stuck:
                raise PageStuck("the page does not respond")
            self._seen = await self._read(page)
            await self.keep_screenshot()
            text = self._seen.text
        except (PageStuck, Error) as problem:
            self._seen = PageText("", frozenset())
            text = f"({_first_line(problem)}; go elsewhere with goto, or close the tab)"
        if len(text) > self.settings.max_observation:
            text = text[: self.settings.max_observation] + "\n(cut here: the page is longer)"
        return "\n".join([*lines, "", text])

    async def _tab_line(self) -> str:
        tabs = self.context.pages
        titles = await asyncio.gather(*map(self._title, tabs))
        return " | ".join(
            f"Tab {index}{' (current)' if tab is self.current else ''}: {title}"
            for index, (tab, title) in enumerate(zip(tabs, titles, strict=True))
        )

    async def _title(self, tab: Page) -> str:
        if tab in self._stuck:
            return "not responding"
        try:
            return await asyncio.wait_for(tab.title(), 2)
        except Exception:  # noqa: BLE001 - a tab may be loading, closed, crashed or stuck
            return tab.url

    async def _read(self, page: Page) -> PageText:
        client = await self._client()
        tree = await self.answer(client.send("Accessibility.getFullAXTree"))
        boxes = None
        if self.settings.viewport_only:
            request: dict[str, list[str]] = {"computedStyles": []}
            snapshot = await self.answer(client.send("DOMSnapshot.captureSnapshot", request))
            boxes = snapshot_boxes(snapshot)
        return page_text(tree["nodes"], boxes, self.settings.viewport)

    async def keep_screenshot(self) -> None:
        """Keep a picture of the current tab: the first ones, and always the newest."""
        picture = await self.answer(self.page.screenshot(timeout=5000), 8)
        if len(self.screenshots) >= self.settings.max_screenshots:
            self.screenshots.pop()
        self.screenshots.append(picture)

    # ------------------------------------------------------------------------------ grading

    async def evaluate(self, page: Page, script: str, argument: JSON = None) -> Any:
        return await self._checked(page, page.evaluate(script, argument))

    async def content(self, page: Page) -> str:
        return await self._checked(page, page.content())

    async def _checked(self, page: Page, question: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Like `answer`, of any page and with more patience, for a check happens once."""
        if page in self._stuck:
            question.close()
            raise PageStuck("the page does not respond")
        try:
            return await asyncio.wait_for(question, 3 * self.settings.action_timeout)
        except TimeoutError:
            self._stuck.add(page)
            raise PageStuck("the page does not respond") from None

    async def open_for_grading(self, url: str, wait: float) -> tuple[Page, int]:
        """Another tab at `url` with the HTTP status of its document (0: none)."""
        self._grading = True
        try:
            page = await self.context.new_page()
        finally:
            self._grading = False
        try:
            response = await page.goto(url)
            await asyncio.sleep(wait)
        except BaseException:
            await self._close_quietly(page)
            raise
        return page, response.status if response is not None else 0

    async def close_grading_tab(self, page: Page) -> None:
        await self._close_quietly(page)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
