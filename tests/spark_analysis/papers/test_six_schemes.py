"""The six schemes' set-up: the base is the paper's, and variations differ in one thing each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from nodeapp.pubsub.registry import typed
from nodeapp.routing.aodv_ns2 import NS2
from spark_analysis.papers.cost import preset_cost
from spark_analysis.papers.markdown import write_markdown
from spark_analysis.papers.paper import Preset, Variation
from spark_analysis.papers.reproduction import judgement
from spark_analysis.papers.results import Reproduction
from spark_analysis.papers.six_schemes import PAPER
from spark_analysis.papers.six_schemes.ways import (
    AODV,
    BASE,
    CONTROL,
    ENDED,
    GPSR,
    OVER_AODV,
    PAPER_NAMES,
    PUBLISHED,
    RADIO,
    SCENARIO,
    SCHEMES,
    VARIATIONS,
    settings_of,
)
from spark_analysis.sweeps.spec import SweepSpec, points
from tests.spark_analysis.papers.six_points import as_published
from topologies.catalog import all_parameters


def preset(name: str) -> Preset:
    found = PAPER.preset(name)
    assert found is not None
    return found


def specs(preset: Preset, variation: Variation) -> dict[str, SweepSpec]:
    """Return the sweeps: this paper has nothing else."""
    plan = PAPER.plan(preset, variation)
    return {name: spec for name, spec in plan.items() if isinstance(spec, SweepSpec)}


def variation(key: str) -> Variation:
    return next(each for each in VARIATIONS if each.key == key)


def keys(variation: Variation, study: str, protocol: str) -> set[str]:
    """Return the keys of a protocol's points in runs of equal length: only settings differ."""
    short = replace(preset("quick"), varied=75.0, varied_seeds=2)
    spec = specs(short, variation)[study]
    return {point.key for point in points(spec) if point.protocol == protocol}


def test_the_base_has_every_setting_and_each_is_known() -> None:
    assert BASE.settings == PUBLISHED
    for topology in ("freeway", "manhattan"):
        known = set[str]().union(*(all_parameters(topology, scheme, "") for scheme in SCHEMES))
        assert set(settings_of(topology, PUBLISHED)) <= known
    assert settings_of("manhattan", PUBLISHED)["margin"] == "450"
    assert "one_way" not in settings_of("manhattan", PUBLISHED)


def test_no_setting_of_the_base_is_what_this_testbed_does_anyway() -> None:
    for topology in ("freeway", "manhattan"):
        parameters = {
            key: each
            for scheme in SCHEMES
            for key, each in all_parameters(topology, scheme, "").items()
        }
        for key, value in settings_of(topology, PUBLISHED).items():
            assert parameters[key].convert(value) != parameters[key].default, key


def test_as_deployed_turns_back_all_but_the_scenario() -> None:
    assert set(variation("deployed").settings) == set(SCENARIO)
    assert set(PUBLISHED) == {*AODV, *GPSR, *RADIO, *SCENARIO}


def test_the_bases_aodv_is_ns_2s_and_its_gpsr_that_of_karp_and_kung() -> None:
    aodv = typed("rendezvous-aodv", {**AODV, "withdraw_queue": "true"})
    assert {name: getattr(aodv, name) for name in NS2} == NS2
    gpsr = typed("rendezvous-gpsr", {key: PUBLISHED[key] for key in ("link_feedback", *GPSR)})
    assert gpsr.entry_counts
    assert not gpsr.edges_once


def test_the_second_base_ends_tours_and_is_as_large_as_the_first() -> None:
    changed = {key for key in ENDED.settings if PUBLISHED.get(key) != ENDED.settings[key]}
    assert changed == {"edges_once", "serve_voids"}
    for study, spec in specs(preset("paper"), BASE).items():
        other = specs(preset("paper"), ENDED)[study]
        assert (other.vary, other.seeds, other.duration) == (spec.vary, spec.seeds, spec.duration)
        same = {point.key for point in points(spec)} & {point.key for point in points(other)}
        assert len(same) == len(points(spec)) * len(OVER_AODV) // len(SCHEMES)


@pytest.mark.parametrize("key", ["entry", "no-margin", "closest"])
def test_a_variation_differs_in_one_mechanism(key: str) -> None:
    settings = variation(key).settings
    everything = {**PUBLISHED, **settings}
    assert sum(PUBLISHED.get(name) != settings.get(name) for name in everything) == 1


@pytest.mark.parametrize("key", ["entry", "closest"])
def test_what_is_gpsrs_leaves_runs_over_aodv_as_they_are(key: str) -> None:
    same = keys(BASE, "freeway", "broker-aodv")
    assert keys(variation(key), "freeway", "broker-aodv") == same
    assert not keys(variation(key), "freeway", "broker-gpsr") & keys(BASE, "freeway", "broker-gpsr")


def test_what_is_aodvs_leaves_runs_over_gpsr_as_they_are() -> None:
    same = keys(BASE, "manhattan", "rendezvous-gpsr")
    assert keys(variation("rfc"), "manhattan", "rendezvous-gpsr") == same
    assert not keys(variation("rfc"), "manhattan", "rendezvous-aodv") & keys(
        BASE, "manhattan", "rendezvous-aodv"
    )


def test_variations_are_few_and_have_a_base_of_their_length() -> None:
    assert VARIATIONS[:2] == (ENDED, CONTROL)
    assert len(VARIATIONS) - 1 <= 8
    for study in ("freeway", "manhattan"):
        for scheme in SCHEMES:
            other = "closest" if scheme in OVER_AODV else "rfc"
            assert keys(variation(other), study, scheme) == keys(CONTROL, study, scheme)
        planned = specs(preset("paper"), CONTROL)[study]
        assert (planned.duration, planned.seeds) == (300, 5)


def test_presets_cover_the_published_speeds() -> None:
    for each in PAPER.presets:
        speeds = {study: values.get("speed", ()) for study, values in each.values.items()}
        assert (speeds["freeway"][0], speeds["freeway"][-1]) == (10, 60)
        assert (speeds["manhattan"][0], speeds["manhattan"][-1]) == (1, 20)
    paper = preset("paper")
    assert (paper.duration, paper.seeds, PAPER.seeds) == (900, 10, 3)
    assert paper.values["freeway"]["speed"] == (10, 20, 30, 40, 50, 60)
    assert PAPER.ways(paper) == (BASE, *VARIATIONS)
    assert PAPER.ways(preset("quick")) == (BASE,)


def test_every_scheme_runs_at_every_speed_and_seed_with_draws_of_its_own() -> None:
    wanted = specs(preset("paper"), BASE)
    assert len(points(wanted["freeway"])) == 6 * 6 * 10
    assert wanted["manhattan"].duration == 900
    assert set(wanted["manhattan"].protocols) == set(SCHEMES) == set(PAPER_NAMES)
    assert wanted["freeway"].draws == ("speed",)


def test_variations_run_at_three_speeds_and_where_they_have_a_meaning() -> None:
    margin = specs(preset("paper"), variation("no-margin"))
    assert list(margin) == ["manhattan"]
    assert margin["manhattan"].vary == {"speed": ("1", "10", "20")}
    assert (margin["manhattan"].duration, margin["manhattan"].seeds) == (300, 5)
    assert margin["manhattan"].settings["margin"] == "0"


def test_the_load_of_the_system_is_varied_at_one_speed_with_the_same_draws() -> None:
    load = specs(preset("paper"), BASE)["freeway-load"]
    assert load.vary == {"interval": ("10", "5", "2", "1")}
    assert (load.settings["speed"], load.draws, load.duration) == ("30", (), 300)
    assert "freeway-load" in specs(preset("paper"), ENDED)
    assert "freeway-load" not in specs(preset("paper"), variation("closest"))


def test_the_cost_grows_with_the_load_over_aodv_and_is_minutes_for_the_quick_preset() -> None:
    cost = PAPER.study("freeway-load").cost

    def growth(scheme: str) -> float:
        seldom, often = (cost({"protocol": scheme, "interval": each}, 300.0) for each in (10, 1))
        return often / seldom

    assert growth("broker-aodv") > 1.4
    assert growth("broker-gpsr") == 1.0  # refreshes that tour voids cost most, at any rate
    assert preset_cost(PAPER, preset("quick")).seconds / 2 < 15 * 60
    assert preset_cost(PAPER, preset("paper")).seconds / 2 > 3600


def test_the_page_has_both_bases_and_the_answer(tmp_path: Path) -> None:
    points = pd.concat([as_published(study) for study in ("freeway", "manhattan")])
    main = tuple(figure for figure in PAPER.figures if figure.main)
    paper = replace(PAPER, figures=main)
    base = judgement(paper, BASE, points)
    ended = judgement(paper, ENDED, points.assign(load_mean=300.0), base)
    page = write_markdown(
        Reproduction(paper, preset("quick"), (base, ended), {}), tmp_path / "six.md", "reproduce"
    )
    lines = page.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 120
    answer = "\n".join(lines[: lines.index("## Claims")])
    assert "The broker delivers 93.3 % on `freeway`" in answer
    assert any("taken together (Holm, 5 %): 1, " in line for line in lines)
    head = next(line for line in lines if line.startswith("|  | claim"))
    assert f"| verdict | {ENDED.name} | why" in head
    rows = [line for line in lines if line.startswith("| ")]
    (load,) = (line for line in rows if "load nodes much more" in line)
    assert load.split(" | ")[2:4] == ["✓", "✕"]
    text = "\n".join(lines)
    assert text.count("![") == 4
    assert all(each[:60] in text for each in PAPER.differences)
