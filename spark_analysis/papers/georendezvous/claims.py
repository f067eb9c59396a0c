"""What the paper claims, each with the rule that its words are taken to mean (`rules`)."""

from __future__ import annotations

from typing import Final

from spark_analysis.papers.claims import Claim
from spark_analysis.papers.georendezvous import rules

CLAIMS: Final = (
    Claim(
        "eight-suffice",
        "The benefits of using more than 8 rendezvous cells are limited",
        "section 4, figure 3(a)",
        rules.limited,
        ("graph", "plane"),
        f"From 8 to 32 cells, at most {rules.LIMITED:g} of what is gained from 1 to 8.  If each "
        "doubling brought the same, it would be 0.67.",
        joint=True,
    ),
    Claim(
        "similar",
        "With fewer than 8 rendezvous cells latencies are similar to those of a direct path",
        "section 4",
        rules.similar,
        ("graph", "plane"),
        "With 7 cells at most 4/3 of the direct one, at every size: two thirds of the detour over "
        "one random cell are saved.  Ratios with 4 and with 8 stand beside.",
        joint=True,
    ),
    Claim(
        "size",
        "The ratio is largely independent of the network's size",
        "section 4, figure 3(b)",
        rules.independent,
        ("graph",),
        f"With each number of cells, at each size, it is within {rules.LARGELY:g} of that of the "
        "largest networks: a fifth of the detour over one random cell.",
    ),
    Claim(
        "dictate",
        "Performance is dictated by the number of rendezvous cells, not by the network's size",
        "section 4, figure 3(b)",
        rules.dictate,
        ("graph",),
        "From 1 to 8 cells the ratio changes by more than 4 times of what it does from the "
        "smallest to the largest networks (slope on the logarithm of the size).",
    ),
    Claim(
        "needed",
        "The number of rendezvous cells that a performance needs does not depend on the size",
        "section 1",
        rules.needed,
        ("graph",),
        "Cells for a ratio of 4/3, interpolated on the logarithm of their number in each network, "
        "are at each size within a factor of 1.5 of those of the largest networks.",
    ),
    Claim(
        "two-nearest",
        "With only the 2 nearest of 8 the way stays close to the direct one, and to that of all 8",
        "section 4, figure 3(c)",
        rules.two_are_close,
        ("nearest", "plane-nearest"),
        f"Within {rules.LITTLE:g} of that of all 8, and at most 4/3 of the direct one.",
        joint=True,
    ),
    Claim(
        "hints",
        "Positions are hints on which rendezvous cells serve a subscriber well",
        "sections 1 and 2.4",
        rules.hints,
        ("graph", "nearest"),
        "The ways over the 2 nearest of 8 are shorter than those over 2 random cells, in the same "
        "networks.",
        joint=True,
    ),
    Claim(
        "trees-few",
        "With fewer than 8 subscribers trees over 8 cells, 2 tried, are shorter than over 1, and "
        "their cost grows as the subscribers approach 8",
        "section 4, figure 3(d)",
        rules.few,
        ("trees",),
        "The ratio of the lengths is below 1 with 1, 2 and 4, and rises at each doubling up to 8.  "
        "A tree's length is its distinct transmissions; all transmissions stand beside.",
    ),
    Claim(
        "trees-eight",
        "With 8 subscribers the trees cost nearly the same",
        "section 4, figure 3(d)",
        rules.eight,
        ("trees",),
        f"The ratio of the lengths is within {rules.LITTLE:g} of 1; all transmissions stand "
        "beside.",
    ),
    Claim(
        "trees-many",
        "With more subscribers 8 cells become increasingly better than 1",
        "section 4, figure 3(d)",
        rules.many,
        ("trees",),
        "The ratio is below 1 with 16 and 32 subscribers, and falls at each doubling from 8 on.",
    ),
    Claim(
        "unnecessary",
        "Rendezvous cells that are not chosen cost 3(n-1) unnecessary messages",
        "section 4",
        rules.unnecessary,
        ("stable",),
        "Where a publisher notifies all cells already: all messages that a new subscriber causes "
        "but a subscription and a notification, demands and prunes towards publishers included, "
        f"within {rules.SLACK:.0%}: messages within a node are not on the air.  Broadcasts inside "
        "cells stand in the appendix.",
    ),
    Claim(
        "savings",
        "Trying only the nearest cells saves significantly, especially for large n",
        "section 2.4",
        rules.savings,
        ("savings",),
        "Frames of a new subscriber that tries 2 of n cells, beside those of one that tries all: "
        "what is saved grows with n, and is more than half with 8.",
    ),
    Claim(
        "impact",
        "Several cells have only a limited impact on signalling cost and state",
        "section 2",
        rules.impact,
        ("cells", "systems"),
        "With 8 cells, of which subscribers try the 2 nearest, transmissions and entries are at "
        f"most {rules.COSTS:g} times those with 1.",
        joint=True,
    ),
    Claim(
        "three-more",
        "Latencies are close to a direct path with only 3 additional messages",
        "section 6",
        rules.three_more,
        ("stable", "nearest"),
        "A subscriber that tries the 2 nearest of 8, where all are notified: 3 unnecessary "
        "messages, and at most 4/3 of the direct way.",
        joint=True,
    ),
    Claim(
        "bound",
        "The probability of a rendezvous node on a way of at most l + 2kl is bounded from below",
        "theorem 3.1",
        rules.bounded,
        ("theorem",),
        "It is above Delta^(log2(k epsilon) - 1), with the growth bound Delta and epsilon = E[l]/L "
        "of the same networks.",
    ),
    Claim(
        "vanish",
        "That probability does not vanish with the size of the network",
        "section 6",
        rules.vanish,
        ("theorem",),
        "At each k, with the largest networks it is more than half of what it is with the "
        "smallest, which have a fortieth of the nodes.",
    ),
    Claim(
        "constant",
        "For the sizes that were tested that probability is nearly constant",
        "section 6",
        rules.constant,
        ("theorem",),
        f"At each size and k it is within {rules.LITTLE:g} of that of the largest networks.",
    ),
    Claim(
        "shorter-than-one",
        "Several rendezvous cells reduce the latency, compared to a single one",
        "section 6",
        rules.one_longer,
        ("systems",),
        "Hops of the deliveries of whole runs, beacons and refreshes included: 1 cell above 8.",
    ),
    Claim(
        "same-ways",
        "The protocol takes the ways that the graph computation says",
        "a check of this reproduction, not of the paper",
        rules.same_ways,
        ("graph", "protocol", "trees", "protocol-trees"),
        "On networks that both did, the mean ways of each number of cells and the lengths of the "
        "trees are equal.",
        joint=True,
        own=True,
    ),
)
