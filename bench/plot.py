"""Bar charts as one SVG that reads on light and dark pages."""

from __future__ import annotations

from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, LABELS, FIGURES = 760, 210, 70  # pixels: in all, left of the bars, right of them
BAR, STEP, TITLE, EDGE = 14, 20, 34, 14
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 13px }
rect { fill: #8c959f } .ours { fill: #0969da } .mark { stroke: #cf222e; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } rect { fill: #6e7681 } .ours { fill: #4493f8 } .mark { stroke: #f85149 }
}"""


@dataclass
class Bar:
    """A labelled length; ours stand out."""

    label: str
    value: float
    ours: bool = False
    wanted: float | None = None  # a mark on the bar


@dataclass
class Chart:
    """Bars that compare with each other."""

    title: str
    bars: list[Bar]


def svg(title: str, charts: list[Chart]) -> str:
    """Draw the charts one below the other."""
    parts, top = [], EDGE
    for chart in charts:
        parts += _chart(chart, top)
        top += TITLE + STEP * len(chart.bars)
    box = f'viewBox="0 0 {WIDTH} {top + EDGE}" width="{WIDTH}" height="{top + EDGE}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img">'
    lines = [head, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *parts, "</svg>"]
    return "\n".join(lines) + "\n"


def _chart(chart: Chart, top: int) -> list[str]:
    most = max(max(bar.value, bar.wanted or 0) for bar in chart.bars) or 1
    scale = (WIDTH - LABELS - FIGURES) / most
    parts = [f'<text class="title" x="{EDGE}" y="{top + 14}">{escape(chart.title)}</text>']
    for index, bar in enumerate(chart.bars):
        parts += _bar(bar, top + TITLE - 8 + STEP * index, scale)
    return parts


def _bar(bar: Bar, y: int, scale: float) -> list[str]:
    length, base = max(1.0, bar.value * scale), y + BAR - 3
    kind = ' class="ours"' if bar.ours else ""
    figure = f"{bar.value:.2f}" if bar.value < 10 else f"{bar.value:,.1f}"
    parts = [f'<text x="{LABELS - 8}" y="{base}" text-anchor="end">{escape(bar.label)}</text>']
    parts += [f'<rect{kind} x="{LABELS}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2"/>']
    end = LABELS + max(length, (bar.wanted or 0) * scale)
    parts += [f'<text x="{end + 6:.1f}" y="{base}">{figure}</text>']
    if bar.wanted is not None:
        x = LABELS + bar.wanted * scale
        parts += [f'<path class="mark" d="M{x:.1f} {y - 2}v{BAR + 4}"/>']
    return parts
