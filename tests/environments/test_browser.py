"""The browser environment in a real Chromium, on pages served on loopback."""

from __future__ import annotations

import os
import re
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from chimera.environments.browser import TOOLS, BrowserEnvironment
from chimera.environments.web.actions import key_combination, parse_action
from chimera.environments.web.proxy import address
from chimera.environments.web.session import ActionFailed
from chimera.environments.web.settings import BrowserSettings, LogIn
from chimera.environments.web.tree import page_text
from chimera.errors import EnvironmentFault, LimitReached

pytestmark = pytest.mark.xdist_group("browser")  # one Chromium for all of them
PAGES = {
    "/": """<title>Shop</title><h1>Things</h1><a href="/thing">A thing</a>
        <form action="/search"><input name="q" placeholder="Search">
        <select name="order"><option value="p">Price<option value="n">Name</select>
        <button>Find</button></form>
        <div onmouseover="this.textContent='opened'">Menu</div>
        <button onclick="alert('sure?'); document.title='asked'">Ask</button>
        <div style="height:1500px"></div><a href="/far">Far below</a>""",
    "/thing": "<title>Thing</title><p>It costs 5 &amp; more</p>",
    "/popup": "<title>Opener</title><a href='/thing' target='_blank'>Open</a>",
    "/hang": "<title>Hang</title><p>soon<script>setTimeout(() => {while (true) {}}, 100)</script>",
    "/storm": "<title>Storm</title><script>"
    "for (let i = 0; i < 50; i++) window.open('/thing?' + i)</script>",
    "/private": "<title>Private</title>",
    "/login": "<title>Log in</title><form method='post'><input name='user'>"
    "<input name='password' type='password'><button>Enter</button></form>",
}


class Site(BaseHTTPRequestHandler):
    """A small shop, and a neighbour that must not be reached."""

    server: Any

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self.server.requests.append(self.path)
        neighbour = self.server.neighbour
        if path == "/redirect":
            self._head(302, ("Location", f"{neighbour}/stolen"))
        elif path == "/file":
            self._page("content", ("Content-Disposition", "attachment; filename=f.bin"))
        elif path == "/leaks":
            self._page(_leaks(neighbour))
        elif path == "/never":
            self.server.released.wait(60)
        elif path == "/broken":
            self._page("out of order", ("Content-Type", "text/html"), status=503)
        elif path == "/private" and "session=alice" not in self.headers.get("Cookie", ""):
            self._head(302, ("Location", "/login"))
        else:
            self._page(PAGES.get(path, f"<title>{path}</title><p>query {query}"))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if body == "user=alice&password=secret":
            self._head(303, ("Location", "/private"), ("Set-Cookie", "session=alice; Path=/"))
        else:
            self._page(PAGES["/login"])

    def _head(self, status: int, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", "0")):
            self.send_header(name, value)
        self.end_headers()

    def _page(self, text: str, *headers: tuple[str, str], status: int = 200) -> None:
        content = text.encode()
        self.send_response(status)
        for name, value in headers or (("Content-Type", "text/html; charset=utf-8"),):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        pass


def _leaks(url: str) -> str:
    socket = url.replace("http", "ws", 1)
    return f"""<title>Leaks</title><p id=done>trying</p><img src="{url}/image">
      <script src="{url}/script"></script><link rel=stylesheet href="{url}/style">
      <link rel=dns-prefetch href="//other.invalid"><iframe src="{url}/frame"></iframe><script>
      navigator.sendBeacon("{url}/beacon", "x"); new WebSocket("{socket}/socket");
      new EventSource("{url}/events"); window.open("{url}/window");
      new Worker(URL.createObjectURL(new Blob(["fetch('{url}/worker')"])));
      fetch("{url}/fetch", {{mode: "no-cors"}}).catch(() => 0)
        .then(() => done.textContent = "tried");
      </script>"""


@contextmanager
def serve() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.daemon_threads = True
    server.requests, server.released, server.neighbour = [], threading.Event(), ""
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def site() -> Iterator[Any]:
    with serve() as server, serve() as neighbour:
        server.neighbour = neighbour.url
        server.other = neighbour
        yield server


@pytest.fixture(scope="module")
def shared(site: Any, require: Any) -> Iterator[BrowserEnvironment]:
    if not os.environ.get("CHIMERA_CHROMIUM"):
        require("chromium")
    pytest.importorskip("playwright")
    settings = BrowserSettings(
        sites=(site.url,),
        start_urls=(f"{site.url}/",),
        max_tabs=6,
    )
    with BrowserEnvironment(settings) as env:
        yield env


@pytest.fixture(scope="module")
def hasty(site: Any, shared: BrowserEnvironment) -> Iterator[BrowserEnvironment]:
    """A browser of little patience, for what never answers."""
    settings = BrowserSettings(sites=(site.url,), action_timeout=3, navigation_timeout=4)
    with BrowserEnvironment(settings) as env:
        yield env


@pytest.fixture
def browser(shared: BrowserEnvironment, site: Any) -> BrowserEnvironment:
    """The shared browser, at the first page again."""
    while len(shared._session.context.pages) > 1:
        shared.act("close_tab", {})
    shared.answer = None
    assert shared.act("goto", {"url": f"{site.url}/"}).error is None
    return shared


def element(observation: str, pattern: str) -> int:
    found = re.search(rf"\[(\d+)\] {pattern}", observation)
    assert found, f"{pattern} is not in:\n{observation}"
    return int(found[1])


def test_an_agent_is_told_what_the_browser_shows(shared: BrowserEnvironment, site: Any) -> None:
    assert "Tab 0 (current): Shop" in shared.system_prompt
    assert f"URL: {site.url}/" in shared.system_prompt
    assert re.search(r"\[\d+\] link 'A thing'", shared.system_prompt)


def loaded(browser: BrowserEnvironment, text: str) -> str:
    """What the page shows once it has this text; a busy machine takes its time."""
    for _ in range(100):
        if text in (page := browser.observe()):
            break
        time.sleep(0.1)
    return page


def test_click_type_and_go_back(browser: BrowserEnvironment, site: Any) -> None:
    page = browser.observe()

    seen = browser.act("click", {"id": element(page, "link 'A thing'")})
    assert seen.error is None
    assert browser.url == f"{site.url}/thing"
    assert "It costs 5 & more" in seen.output

    back = browser.act("go_back", {}).output
    field = element(back, "textbox 'Search'")
    browser.act("type", {"id": field, "text": "tea & milk", "press_enter": True})
    assert "query q=tea" in loaded(browser, "query q=tea")
    assert browser.url == f"{site.url}/search?q=tea+%26+milk&order=p"

    browser.act("go_back", {})
    assert browser.act("go_forward", {}).error is None
    assert browser.url.startswith(f"{site.url}/search")


def test_an_option_of_a_list_is_chosen_by_clicking_it(browser: BrowserEnvironment) -> None:
    page = browser.act("click", {"id": element(browser.observe(), "option 'Name'")}).output
    browser.act("click", {"id": element(page, "button 'Find'")})

    assert browser.url.endswith("order=n")


def test_only_the_screen_is_shown_and_scrolling_moves_it(browser: BrowserEnvironment) -> None:
    assert "Far below" not in browser.observe()

    below = browser.act("scroll", {"direction": "down"}).output
    below = browser.act("scroll", {"direction": "down"}).output

    assert "Far below" in below
    assert "Things" not in below
    assert "Things" in browser.act("press", {"keys": "ctrl+home"}).output


def test_hover_and_dialogs(browser: BrowserEnvironment) -> None:
    page = browser.observe()

    assert "opened" in browser.act("hover", {"id": element(page, "StaticText 'Menu'")}).output
    asked = browser.act("click", {"id": element(page, "button 'Ask'")}).output
    assert "Note: the page showed a alert and it was dismissed: sure?" in asked
    assert "Tab 0 (current): asked" in asked


def test_tabs(browser: BrowserEnvironment, site: Any) -> None:
    browser.act("goto", {"url": f"{site.url}/popup"})
    page = browser.observe()

    opened = browser.act("click", {"id": element(page, "link 'Open'")}).output
    for _ in range(50):
        if "Tab 1 (current): Thing" in opened:
            break
        time.sleep(0.1)
        opened = browser.observe()
    assert "Tab 0: Opener | Tab 1 (current): Thing" in opened

    assert "Tab 0 (current): Opener" in browser.act("tab_focus", {"index": 0}).output
    assert browser.act("tab_focus", {"index": 7}).error == "there is no tab 7; open are 0 to 1"
    browser.act("new_tab", {})
    assert browser.url == "about:blank"
    browser.act("close_tab", {})
    last = browser.act("close_tab", {}).output
    assert last.startswith("Tab 0 (current): Opener\n")
    assert browser.act("close_tab", {}).error is None
    assert browser.url == "about:blank"


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("click", {"id": 999999}, "no element [999999]"),
        ("click", {"id": "link"}, "must be a number"),
        ("click", {"id": "9" * 5000}, "must be a number"),
        ("type", {"id": 1}, "text must be"),
        ("scroll", {"direction": "sideways"}, "up or down"),
        ("press", {"keys": "nonsense+x"}, "Unknown key"),
        ("fly", {}, "no action 'fly'"),
        ("goto", {"url": "http://example.com/"}, "not on one of this task's sites"),
        ("goto", {"url": "file:///etc/passwd"}, "not on one of this task's sites"),
        ("goto", {"url": "javascript://x/%0aalert(1)"}, "not on one of this task's sites"),
        ("goto", {"url": "http://127.0.0.1:1/"}, "not on one of this task's sites"),
    ],
)
def test_what_cannot_be_done_is_said(
    browser: BrowserEnvironment, name: str, arguments: Any, problem: str
) -> None:
    result = browser.act(name, arguments)

    assert problem in (result.error or "")
    assert "Tab 0 (current): Shop" in result.output


def test_no_page_reaches_another_host(browser: BrowserEnvironment, site: Any) -> None:
    assert browser.act("goto", {"url": f"{site.url}/redirect"}).error is not None
    browser.act("goto", {"url": f"{site.url}/leaks"})
    browser.act("tab_focus", {"index": 0})
    browser.act("scroll", {"direction": "down"})

    assert "'tried'" in browser.act("tab_focus", {"index": 0}).output
    assert site.other.requests == []
    blocked = " ".join(browser.blocked)
    neighbour = site.neighbour.removeprefix("http://")
    for path in ("stolen", "image", "script", "style", "frame", "beacon", "window", "fetch"):
        assert f"{neighbour}/{path}" in blocked
    assert browser.blocked[neighbour] >= 1  # the websocket asks for a tunnel


def test_fifty_tabs_do_no_harm(browser: BrowserEnvironment, site: Any) -> None:
    browser.act("goto", {"url": f"{site.url}/storm"})
    session = browser._session
    for _ in range(600):
        if session.refused_tabs >= 40 and len(session.context.pages) <= 6:
            break
        time.sleep(0.1)

    assert session.refused_tabs >= 40
    assert len(session.context.pages) <= 6
    assert "are not allowed" in (browser.act("new_tab", {}).error or "")
    browser.act("tab_focus", {"index": 0})
    assert browser.act("goto", {"url": f"{site.url}/thing"}).error is None


def test_a_download_is_refused(browser: BrowserEnvironment, site: Any) -> None:
    result = browser.act("goto", {"url": f"{site.url}/file"})

    assert "Download" in (result.error or "")
    assert "a download was refused" in result.output
    downloads = browser._session._folder / "downloads"
    assert not downloads.exists() or not any(downloads.iterdir())


def test_a_page_that_hangs_costs_its_timeout(hasty: BrowserEnvironment, site: Any) -> None:
    hasty.act("goto", {"url": f"{site.url}/hang"})
    stuck = hasty.act("scroll", {"direction": "down"})
    assert "does not respond" in f"{stuck.error}{stuck.output}"

    with pytest.raises(EnvironmentFault, match="does not respond"):
        hasty.live_page().content()
    hasty.act("goto", {"url": f"{site.url}/thing"})
    assert hasty.url == f"{site.url}/thing"


def test_a_server_that_never_answers_costs_its_timeout(
    hasty: BrowserEnvironment, site: Any
) -> None:
    result = hasty.act("goto", {"url": f"{site.url}/never"})

    assert "did not finish loading in time" in result.output
    hasty.act("goto", {"url": f"{site.url}/thing"})
    assert hasty.url == f"{site.url}/thing"


def test_any_thread_may_call(browser: BrowserEnvironment, site: Any) -> None:
    urls: list[str] = []

    def visit(number: int) -> None:
        browser.act("goto", {"url": f"{site.url}/page{number}"})
        urls.append(browser.live_page().evaluate("() => document.title"))

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(urls) == 3
    assert set(urls) <= {"/page0", "/page1", "/page2"}


def test_the_written_form_of_actions(browser: BrowserEnvironment, site: Any) -> None:
    shown = browser.reply(f"I look at it. ```goto [{site.url}/thing]```")
    assert shown is not None
    assert "It costs 5 & more" in shown
    assert "not an action" in (browser.reply("```dance [3]```") or "")
    assert browser.reply("Let me think.") is None
    assert browser.reply('```json\n{"answer": "5"}\n```') is None
    assert browser.reply("In summary: ```stop [5]```") is None
    assert browser.answer == "5"


def test_stop_hands_in(browser: BrowserEnvironment) -> None:
    result = browser.act("stop", {"answer": "42"})

    assert result.metadata["submitted"] == "42"
    assert browser.answer == "42"


def test_checks_see_the_page_and_open_others_beside_it(
    browser: BrowserEnvironment, site: Any
) -> None:
    page = browser.live_page(wait=0)

    with page.opened(f"{site.url}/thing") as other:
        assert "It costs 5 &amp; more" in other.content()
        assert other.evaluate("() => document.querySelector('p').outerText") == "It costs 5 & more"
    assert page.url == browser.url == f"{site.url}/"
    with pytest.raises(EnvironmentFault, match="503"), page.opened(f"{site.url}/broken"):
        pass


def test_time_that_is_up_ends_the_work(browser: BrowserEnvironment) -> None:
    browser.deadline = 0.0
    try:
        with pytest.raises(LimitReached):
            browser.act("go_back", {})
    finally:
        browser.deadline = None


def test_log_in_state_is_kept_and_evidence_is_left(site: Any, require: Any, tmp_path: Path) -> None:
    settings = BrowserSettings(
        sites=(site.url,),
        start_urls=(f"{site.url}/private", f"{site.url}/thing"),
        log_ins=(LogIn(f"{site.url}/login", "alice", "secret"),),
        record_network=True,
    )
    with BrowserEnvironment(settings) as env:
        assert "Tab 0 (current): Private | Tab 1: Thing" in env.observe()
        state = tmp_path / "state.json"
        env.save_storage_state(state)
        files = env.finish()
        folder = env._session._folder
    assert files["screenshot-01.png"].startswith(b"\x89PNG")
    assert b"/private" in files["network.har"]
    assert "trace.network" in zipfile.ZipFile(BytesIO(files["trace.zip"])).namelist()
    assert not folder.exists()
    env.close()  # safe to call twice
    with pytest.raises(EnvironmentFault, match="closed"):
        env.act("go_back", {})

    stored = BrowserSettings(
        sites=(site.url,), start_urls=(f"{site.url}/private",), storage_state=state
    )
    with BrowserEnvironment(stored) as env:
        assert env.url == f"{site.url}/private"


def test_a_site_that_is_down_or_refuses_the_log_in_is_a_fault(site: Any) -> None:
    with serve() as gone:
        down = gone.url
    with pytest.raises(EnvironmentFault, match=r"does not answer|502"):
        BrowserEnvironment(BrowserSettings(sites=(down,), start_urls=(down,)))
    account = LogIn(f"{site.url}/login", "alice", "wrong")
    with pytest.raises(EnvironmentFault, match="log-in"):
        BrowserEnvironment(BrowserSettings(sites=(site.url,), log_ins=(account,), action_timeout=2))


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("click [12]", "click", {"id": "12"}),
        ("type [3] [a [b] c] [0]", "type", {"id": "3", "text": "a [b] c", "press_enter": False}),
        ("type [3] [milk]", "type", {"id": "3", "text": "milk"}),
        ("press [ctrl+v]", "press", {"keys": "ctrl+v"}),
        ("scroll down", "scroll", {"direction": "down"}),
        ("stop", "stop", {}),
        ("stop [a [nested] answer]", "stop", {"answer": "a [nested] answer"}),
        ("tab_focus [2]", "tab_focus", {"index": "2"}),
    ],
)
def test_written_actions(text: str, name: str, arguments: Any) -> None:
    assert parse_action(text) == (name, arguments)


@pytest.mark.parametrize("text", ["click 12", "click [x]", "type [1]", "", "stop it", "rm -rf /"])
def test_what_is_no_action(text: str) -> None:
    with pytest.raises(ActionFailed):
        parse_action(text)


def test_key_names() -> None:
    assert key_combination("ctrl+A") == "Control+A"
    assert key_combination("cmd + ArrowDown") == "Control+ArrowDown"


def test_every_official_action_is_a_tool() -> None:
    names = "click type hover press scroll new_tab tab_focus close_tab goto go_back go_forward stop"

    assert [tool.name for tool in TOOLS] == names.split()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://A.example./x", ("a.example", 80)),
        ("https://a:444", ("a", 444)),
        ("wss://a/", ("a", 443)),
        ("http://[::1]:8/", ("::1", 8)),
        ("http://user@a@b/", ("b", 80)),
        ("http://a:99999/", None),
        ("ftp://a/", None),
        ("a.example", None),
        ("http://", None),
    ],
)
def test_addresses(url: str, expected: Any) -> None:
    assert address(url) == expected


def test_structure_without_a_name_is_left_out() -> None:
    def node(number: int, role: str, name: str, children: tuple[int, ...] = ()) -> dict[str, Any]:
        return {
            "nodeId": str(number),
            "backendDOMNodeId": number,
            "role": {"value": role},
            "name": {"value": name},
            "childIds": [str(child) for child in children],
            **({"parentId": "1"} if number > 1 else {}),
        }

    nodes = [
        node(1, "RootWebArea", "Page", (2, 5)),
        node(2, "generic", "", (3, 4)),
        {**node(3, "link", "Go"), "parentId": "2"},
        {**node(4, "StaticText", "Go"), "parentId": "2"},
        {**node(5, "button", "Hidden"), "ignored": True},
    ]

    found = page_text(nodes, None, (100, 100))

    assert found.text == "[1] RootWebArea 'Page'\n\t[3] link 'Go'"
    assert found.ids == {1, 3}
