"""The map of a run: where nodes start, how they move, who hears whom, who publishes and subscribes.

Positions come from the scenario, links from HELLO beacons in radio captures, roles from loopback
captures.  Beyond `VECTOR_SHAPES` links or legs these are drawn as one picture at twice the
resolution of the page, which keeps the page small; nodes always stay shapes with a tooltip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle

from spark_analysis.report import svg
from spark_analysis.report.figures import Array, Drawing
from spark_analysis.report.quantities import count, number, printable

VECTOR_SHAPES: Final = 1500
NAMED_NODES: Final = 60
RINGS: Final = 150
"""Most nodes for which the ends of trajectories have rings: more would hide the nodes."""
WIDTH: Final = 700
HEIGHT: Final = 560
STRENGTHS: Final = ((0.9, "90 % and more"), (0.5, "50 to 90 %"), (0.0, "less"))
"""Links are drawn in three classes of the share of beacons heard, each wider and darker."""
_LINE: Final = ((2.4, 0.85), (1.4, 0.5), (0.8, 0.28))
ROLES: Final = (
    ("node", "o", svg.MUTED, 1.0),
    ("publisher", "^", svg.VERMILION, 1.5),
    ("subscriber", "s", svg.BLUE, 1.2),
    ("publisher and subscriber", "D", svg.PURPLE, 1.25),
)


FONT_SIZE: Final = 10
_SIDES: Final = (
    (0, 1, "center", "bottom"),
    (0, -1, "center", "top"),
    (1, 0, "left", "center"),
    (-1, 0, "right", "center"),
)
"""Where a name may stand: direction from its mark, and which end of the name is there."""


@dataclass(frozen=True)
class MapNode:
    """One node: `track` is an array (waypoints, 2) of metres, at least one row."""

    name: str
    track: Array
    publishes: bool = False
    subscribes: bool = False
    note: str = ""


@dataclass(frozen=True)
class HeardLink:
    """Nodes `a` and `b` (their indices in the list of nodes) heard `share` of their beacons."""

    a: int
    b: int
    share: float


def node_map(
    nodes: Sequence[MapNode],
    links: Sequence[HeardLink],
    area: tuple[float, float, float, float],
    radio_range: float | None,
    links_are: str,
    waypoints: Sequence[tuple[float, float]] = (),
) -> Drawing:
    """Draw the map; `area` is x0, y0, x1, y1 in metres, `links_are` says which links are drawn.

    `waypoints` are those of the road map, metres; empty if there is none.
    """
    moving = any(np.ptp(node.track, axis=0).any() for node in nodes)
    everything = np.vstack([node.track for node in nodes])
    low = np.minimum(everything.min(axis=0), area[:2])
    high = np.maximum(everything.max(axis=0), area[2:])
    size = np.maximum(high - low, 1.0)
    margin = 0.04 * float(size.max())
    frame = size + 2 * margin
    pixels = frame * min(WIDTH / frame[0], HEIGHT / frame[1])
    with svg.style():
        figure = svg.new_figure(max(pixels[0], 480) + 60, max(pixels[1], 120) + 100)
        axes = figure.add_subplot()
        axes.set_aspect("equal")
        axes.set_xlim(low[0] - margin, high[0] + margin)
        axes.set_ylim(low[1] - margin, high[1] + margin)
        axes.set_xlabel("x, m")
        axes.set_ylabel("y, m")
        handles = _draw_roads(axes, waypoints) if waypoints else []
        handles += _draw_links(axes, nodes, links)
        if moving:
            handles += _draw_tracks(axes, nodes)
        # A circle that encloses the whole map cannot be seen.
        visible = radio_range is not None and radio_range < float(np.hypot(*frame)) / 2
        if radio_range and visible:
            handles += _draw_range(axes, low + size / 2, nodes, radio_range)
        tooltips, marks = _draw_nodes(axes, nodes)
        figure.legend(handles=marks + handles, loc="outside lower center", ncols=3)
        if len(nodes) <= NAMED_NODES:
            _draw_names(figure, axes, nodes)
    return Drawing(
        figure,
        "Map of nodes and links",
        _caption(moving, links_are, radio_range, visible, bool(waypoints))
        + crowded(len(nodes), rings=moving),
        f"{count(len(nodes))} nodes, of which {sum(node.publishes for node in nodes)} publish and "
        f"{sum(node.subscribes for node in nodes)} subscribe; {count(len(links))} links.",
        tooltips,
    )


def _caption(
    moving: bool, links_are: str, radio_range: float | None, visible: bool, roads: bool
) -> str:
    parts = ["Start positions of the nodes in the scenario, metres."]
    if roads:
        parts.append("Pale dots: the waypoints of the road map.")
    if moving:
        parts.append("Thin lines: their trajectories, from the mark to the end of the run.")
    parts.append(links_are)
    if radio_range and visible:
        parts.append(
            f"The dotted circle shows the radio range of {number(radio_range)} m about one node."
        )
    elif radio_range:
        parts.append(f"The radio range, {number(radio_range)} m, is wider than the map.")
    parts.append("Publishers and subscribers as in the loopback captures.")
    return " ".join(parts)


def crowded(nodes: int, *, rings: bool = False) -> str:
    """Return what a map of so many nodes leaves out, and how to read that; empty if nothing.

    `rings`: one of fewer nodes has rings at the ends of trajectories.
    """
    if nodes <= NAMED_NODES:
        return ""
    no_rings = " and the ends of trajectories no rings" if rings and nodes > RINGS else ""
    return (
        f" With more than {NAMED_NODES} nodes, marks have no names{no_rings}: point at one to see "
        "its name."
    )


def _segments(pairs: Sequence[tuple[Array, Array]]) -> Array:
    return np.array([[start, end] for start, end in pairs]).reshape(-1, 2, 2)


def _draw_roads(axes: Axes, waypoints: Sequence[tuple[float, float]]) -> list[Line2D]:
    """Draw the waypoints: on a road they are close enough to be seen as the road."""
    look = {
        "linestyle": "none", "marker": "s", "markersize": 3.5, "markerfacecolor": svg.MUTED,
        "markeredgecolor": "none", "alpha": 0.35,
    }  # fmt: skip
    x, y = np.array(waypoints).T
    dense = len(waypoints) > VECTOR_SHAPES
    axes.plot(x, y, zorder=0, rasterized=dense, label="road map", **look)  # type: ignore[arg-type]
    return [Line2D([], [], label="road map", **look)]  # type: ignore[arg-type]


def _draw_links(axes: Axes, nodes: Sequence[MapNode], links: Sequence[HeardLink]) -> list[Line2D]:
    handles = []
    upper = np.inf
    thinner = 1.0 if len(links) <= VECTOR_SHAPES else 0.5
    for (lower, text), (full_width, opacity) in zip(STRENGTHS, _LINE, strict=True):
        width = full_width * thinner
        chosen = [link for link in links if lower <= link.share < upper]
        upper = lower
        if not chosen:
            continue
        ends = [(nodes[link.a].track[0], nodes[link.b].track[0]) for link in chosen]
        axes.add_collection(
            LineCollection(
                list(_segments(ends)), colors=svg.SKY, linewidths=width, alpha=opacity,
                rasterized=len(links) > VECTOR_SHAPES, zorder=1, label=f"link, {text}",
            ),
            autolim=False,
        )  # fmt: skip
        handles.append(
            Line2D([], [], color=svg.SKY, linewidth=width, alpha=opacity, label=f"link, {text}")
        )
    return handles


def _draw_tracks(axes: Axes, nodes: Sequence[MapNode]) -> list[Line2D]:
    moving = [node.track for node in nodes if np.ptp(node.track, axis=0).any()]
    dense = sum(len(track) for track in moving) > VECTOR_SHAPES
    axes.add_collection(
        LineCollection(
            moving, colors=svg.MUTED, linewidths=0.9, alpha=0.45, rasterized=dense, zorder=2,
            label="trajectory",
        ),
        autolim=False,
    )  # fmt: skip
    end = {
        "linestyle": "none", "marker": "o", "markersize": 4.5, "markerfacecolor": "none",
        "markeredgecolor": svg.MUTED, "zorder": 2,
    }  # fmt: skip
    trajectory = Line2D([], [], color=svg.MUTED, linewidth=0.9, alpha=0.6, label="trajectory")
    if len(nodes) > RINGS:
        return [trajectory]
    ends = np.array([track[-1] for track in moving]).T
    axes.plot(*ends, label="end", **end)  # type: ignore[arg-type]
    return [trajectory, Line2D([], [], label="end", **end)]  # type: ignore[arg-type]


def _draw_range(
    axes: Axes, centre: Array, nodes: Sequence[MapNode], radio_range: float
) -> list[Line2D]:
    """Draw the range about the node nearest the centre, where most of the circle is visible."""
    starts = np.array([node.track[0] for node in nodes])
    nearest = starts[int(np.argmin(np.hypot(*(starts - centre).T)))]
    look = {"color": svg.INK, "linewidth": 1.1, "linestyle": (0, (1.5, 2.5))}
    axes.add_patch(Circle((nearest[0], nearest[1]), radio_range, fill=False, zorder=3, **look))
    label = f"radio range, {number(radio_range)} m"
    return [Line2D([], [], label=label, **look)]  # type: ignore[arg-type]


def _mark_size(nodes: Sequence[MapNode]) -> float:
    return float(np.clip(60 / np.sqrt(len(nodes)), 4.5, 9))


def _draw_nodes(axes: Axes, nodes: Sequence[MapNode]) -> tuple[dict[str, str], list[Line2D]]:
    """Draw every node as an element of its own, so that each can carry its tooltip."""
    size = _mark_size(nodes)
    tooltips, used = {}, set()
    for index, node in enumerate(nodes):
        role = ROLES[node.publishes + 2 * node.subscribes]
        used.add(role)
        label, marker, colour, scale = role
        x, y = node.track[0]
        axes.plot(
            [x], [y], linestyle="none", marker=marker, markersize=size * scale,
            markerfacecolor=colour, markeredgecolor=svg.PAPER, markeredgewidth=0.8,
            gid=f"node{index}", zorder=4 + (label != "node"), label=label,
        )  # fmt: skip
        tooltips[f"node{index}"] = (
            f"{printable(node.name)} ({label}) at {x:.0f}, {y:.0f} m{node.note}"
        )
    handles = [
        Line2D([], [], linestyle="none", marker=marker, markersize=8, markerfacecolor=colour,
               markeredgecolor=svg.PAPER, label=label)
        for label, marker, colour, scale in ROLES
        if (label, marker, colour, scale) in used
    ]  # fmt: skip
    return tooltips, handles


def _draw_names(figure: Figure, axes: Axes, nodes: Sequence[MapNode]) -> None:
    """Write every node's name on the side of its mark where it covers least."""
    svg.settle(figure)  # positions depend on pixels
    marks = axes.transData.transform(np.array([node.track[0] for node in nodes]))
    marks = marks * 72 / figure.get_dpi()
    size = _mark_size(nodes)
    reach = 0.75 * size + 2
    taken = [(*(mark - size / 2), *(mark + size / 2)) for mark in marks]
    for node, mark in zip(nodes, marks, strict=True):
        name = printable(node.name)
        width, height = 0.62 * FONT_SIZE * len(name), float(FONT_SIZE)
        best: tuple[float, int] | None = None
        for index, (x, y, *_) in enumerate(_SIDES):
            left = mark[0] + x * reach + (x - 1) * width / 2
            low = mark[1] + y * reach + (y - 1) * height / 2
            covered = sum(
                max(0.0, min(left + width, box[2]) - max(left, box[0]))
                * max(0.0, min(low + height, box[3]) - max(low, box[1]))
                for box in taken
            )
            if best is None or covered < best[0] - 1e-9:
                best, box_taken = (covered, index), (left, low, left + width, low + height)
        assert best is not None
        taken.append(box_taken)
        x, y, horizontal, vertical = _SIDES[best[1]]
        axes.annotate(
            name, node.track[0], xytext=(x * reach, y * reach), textcoords="offset points",
            ha=horizontal, va=vertical, fontsize=FONT_SIZE, zorder=6, annotation_clip=False,
        )  # fmt: skip
