"""Pictures of results as SVG, drawn on the server: no scripts, no style of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chimera.types import JSON

if TYPE_CHECKING:
    from markupsafe import Markup

WIDE, HIGH = 420, 190
LEFT, RIGHT, TOP, BOTTOM = 40, 8, 10, 26


def _markup(template: str, **values: Any) -> Markup:
    from markupsafe import Markup

    return Markup(template).format(**values)


def _joined(parts: Sequence[Any]) -> Markup:
    from markupsafe import Markup

    return Markup("").join(parts)


def whisker(rate: float, interval: Sequence[float], *, width: int = 160, label: str = "") -> Markup:
    """A rate as a dot on the line of its interval, from 0 to 100 %."""
    low, high = (4 + (width - 8) * share for share in interval)
    return _markup(
        '<svg class="whisker" viewBox="0 0 {w} 16" width="{w}" height="16" role="img" '
        'aria-label="{label}"><line class="rail" x1="4" x2="{end}" y1="8" y2="8"/>'
        '<line class="span" x1="{low:.1f}" x2="{high:.1f}" y1="8" y2="8"/>'
        '<circle class="dot" cx="{dot:.1f}" cy="8" r="4"/></svg>',
        w=width, end=width - 4, low=low, high=high, dot=4 + (width - 8) * rate, label=label,
    )  # fmt: skip


def difference(value: float, interval: Sequence[float], *, label: str = "") -> Markup:
    """A difference on the line of its interval, around zero; the scale fits the interval."""
    width, most = 320, max(0.05, *(abs(end) * 1.1 for end in interval))

    def place(share: float) -> float:
        return width / 2 + (width / 2 - 6) * share / most

    return _markup(
        '<svg class="whisker difference" viewBox="0 0 {w} 34" role="img" aria-label="{label}">'
        '<line class="rail" x1="6" x2="{end}" y1="12" y2="12"/>'
        '<line class="zero" x1="{zero}" x2="{zero}" y1="2" y2="22"/>'
        '<line class="span" x1="{low:.1f}" x2="{high:.1f}" y1="12" y2="12"/>'
        '<circle class="dot" cx="{dot:.1f}" cy="12" r="5"/>'
        '<text class="tick" x="6" y="32">−{most:.0f}</text>'
        '<text class="tick middle" x="{zero}" y="32">0</text>'
        '<text class="tick end" x="{end}" y="32">+{most:.0f} points</text></svg>',
        w=width, end=width - 6, zero=width / 2, low=place(interval[0]), high=place(interval[1]),
        dot=place(value), most=most * 100, label=label,
    )  # fmt: skip


def coverage(passed: int, failed: int, errors: int, not_run: int) -> Markup:
    """What came of all planned trials, as parts of one bar."""
    total, x, bars = max(1, passed + failed + errors + not_run), 0.0, []
    for kind, number in (("pass", passed), ("fail", failed), ("error", errors), ("rest", not_run)):
        width = 600 * number / total
        if number:
            bars.append(
                _markup('<rect class="{k}" x="{x:.2f}" y="0" width="{w:.2f}" height="10"/>',
                        k=kind, x=x, w=width)
            )  # fmt: skip
        x += width
    label = f"{passed} passed, {failed} failed, {errors} without verdict, {not_run} not run"
    return _markup(
        '<svg class="coverage" viewBox="0 0 600 10" preserveAspectRatio="none" role="img" '
        'aria-label="{label}">{bars}</svg>',
        label=label, bars=_joined(bars),
    )  # fmt: skip


def _frame(label: str, body: Sequence[Any], *, wide: int = WIDE, high: int = HIGH) -> Markup:
    return _markup(
        '<svg class="plot" viewBox="0 0 {w} {h}" role="img" aria-label="{label}">{body}</svg>',
        w=wide, h=high, label=label, body=_joined(body),
    )  # fmt: skip


def _y(share: float) -> float:
    return TOP + (HIGH - TOP - BOTTOM) * (1 - share)


def _rates() -> list[Markup]:
    """The lines of 0, 25, 50, 75 and 100 %."""
    return [
        _markup(
            '<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            '<text class="tick end" x="{tick}" y="{text:.1f}">{n} %</text>',
            left=LEFT, right=WIDE - RIGHT, y=_y(n / 100), tick=LEFT - 6, text=_y(n / 100) + 4, n=n,
        )
        for n in (0, 25, 50, 75, 100)
    ]  # fmt: skip


def curves(points: Sequence[JSON]) -> Markup:
    """pass@k above, pass^k below, for each k."""
    most = max(2, len(points))

    def x(k: int) -> float:
        return LEFT + 12 + (WIDE - LEFT - RIGHT - 60) * (k - 1) / (most - 1)

    body: list[Any] = _rates()
    for name, title in (("at", "pass@k"), ("hat", "pass^k")):
        path = " ".join(f"{x(p['k']):.1f},{_y(p[name]):.1f}" for p in points)
        body.append(_markup('<polyline class="line {n}" points="{p}"/>', n=name, p=path))
        body += [
            _markup('<circle class="dot {n}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>',
                    n=name, x=x(p["k"]), y=_y(p[name]))
            for p in points
        ]  # fmt: skip
        last = points[-1]
        body.append(
            _markup('<text class="name" x="{x:.1f}" y="{y:.1f}">{t}</text>',
                    x=x(last["k"]) + 7, y=_y(last[name]) + 4, t=title)
        )  # fmt: skip
    every = max(1, len(points) // 8)
    body += [
        _markup('<text class="tick middle" x="{x:.1f}" y="{y}">k = {k}</text>' if p["k"] == 1 else
                '<text class="tick middle" x="{x:.1f}" y="{y}">{k}</text>',
                x=x(p["k"]), y=HIGH - 8, k=p["k"])
        for p in points[::every]
    ]  # fmt: skip
    first, last = points[0], points[-1]
    return _frame(
        f"pass@1 {first['at']:.1%}; pass@{last['k']} {last['at']:.1%}; "
        f"pass^{last['k']} {last['hat']:.1%}",
        body,
    )


def by_cost(parts: Sequence[JSON]) -> Markup:
    """The pass rate of trials from the cheapest part to the dearest, with intervals."""
    step = (WIDE - LEFT - RIGHT) / max(1, len(parts))
    body: list[Any] = _rates()
    for number, part in enumerate(parts):
        x, (low, high) = LEFT + step * (number + 0.5), part["interval"]
        body.append(
            _markup('<line class="span" x1="{x:.1f}" x2="{x:.1f}" y1="{a:.1f}" y2="{b:.1f}"/>'
                    '<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
                    '<text class="tick middle" x="{x:.1f}" y="{t}">{cost}</text>',
                    x=x, a=_y(low), b=_y(high), y=_y(part["rate"]), t=HIGH - 8,
                    cost=_price(part["cost"]))
        )  # fmt: skip
    return _frame("pass rate by cost of the trial, from the cheapest to the dearest", body)


def _price(cost: float) -> str:
    return f"${cost:.2f}" if cost >= 0.1 else f"{cost * 100:.2g}¢"


def timeline(parts: Sequence[JSON], first: float, last: float, buckets: int) -> Markup:
    """How many trials ended in each part of the run's time, stacked by what came of them."""
    most = max(p["passed"] + p["failed"] + p["errors"] for p in parts)
    width = (WIDE - LEFT - RIGHT) / buckets
    high = HIGH - TOP - BOTTOM
    body: list[Any] = [
        _markup('<line class="grid" x1="{a}" x2="{b}" y1="{y}" y2="{y}"/>'
                '<text class="tick end" x="{t}" y="{top}">{most}</text>'
                '<text class="tick end" x="{t}" y="{y}">0</text>',
                a=LEFT, b=WIDE - RIGHT, y=HIGH - BOTTOM, t=LEFT - 6, top=TOP + 8, most=most)
    ]  # fmt: skip
    for part in parts:
        place = min(buckets - 1, int((part["from"] - first) / (last - first) * buckets + 0.5))
        y = float(HIGH - BOTTOM)
        for kind, number in (
            ("pass", part["passed"]), ("fail", part["failed"]), ("error", part["errors"])
        ):  # fmt: skip
            tall = high * number / most
            y -= tall
            if number:
                body.append(
                    _markup('<rect class="{k}" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" '
                            'height="{h:.1f}"/>',
                            k=kind, x=LEFT + place * width, y=y, w=max(1.0, width - 1), h=tall)
                )  # fmt: skip
    from chimera.view.markup import duration

    body.append(
        _markup('<text class="tick" x="{a}" y="{y}">start</text>'
                '<text class="tick end" x="{b}" y="{y}">{t}</text>',
                a=LEFT, b=WIDE - RIGHT, y=HIGH - 8, t=duration(last - first))
    )  # fmt: skip
    return _frame("trials that ended, over the time of the run", body)


def cost_and_rate(runs: Sequence[tuple[str, float, float, Sequence[float]]]) -> Markup:
    """Runs by what a trial cost and how many passed: (name, cost, rate, interval)."""
    most = max(cost for _, cost, _, _ in runs) * 1.15 or 1.0
    body: list[Any] = _rates()
    written: list[tuple[float, float]] = []
    for name, cost, rate, (low, high) in runs:
        x = LEFT + 12 + (WIDE - LEFT - RIGHT - 40) * cost / most
        label, line = (_y(high) - 7, -12) if _y(high) > 2 * TOP else (_y(low) + 14, 12)
        while any(abs(x - a) < 14 and abs(label - b) < 12 for a, b in written):
            label += line
        written.append((x, label))
        body.append(
            _markup('<line class="span" x1="{x:.1f}" x2="{x:.1f}" y1="{a:.1f}" y2="{b:.1f}"/>'
                    '<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
                    '<text class="name middle" x="{x:.1f}" y="{u:.1f}">{name}</text>',
                    x=x, a=_y(low), b=_y(high), y=_y(rate), u=label, name=name)
        )  # fmt: skip
    body.append(
        _markup('<text class="tick" x="{a}" y="{y}">$0 a trial</text>'
                '<text class="tick end" x="{b}" y="{y}">{p}</text>',
                a=LEFT, b=WIDE - RIGHT, y=HIGH - 8, p=_price(most))
    )  # fmt: skip
    return _frame("runs by cost of a trial and pass rate", body)
