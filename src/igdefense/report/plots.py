"""Every figure of the evidence, in the order of the page."""

from igdefense.report.analysis_figures import (
    class_overlap_figure,
    ranking_overlap_figure,
    shift_figure,
    surface_figures,
)
from igdefense.report.evidence import Evidence
from igdefense.report.figure import Figure
from igdefense.report.figures import class_figure, cost_figure, keep_figure, survival_figure
from igdefense.report.sweep_figure import sweep_figures


def figures_of(evidence: Evidence) -> dict[str, list[Figure]]:
    """By the tab they stand in; a tab without figures is left out."""
    tabs: dict[str, list[Figure]] = {"results": [survival_figure(evidence.survivals)]}
    if evidence.costs:
        robust = {e.name: e.run.worst_case.share for e in evidence.exhibits}
        tabs["results"].append(cost_figure(evidence.costs, robust))
    if evidence.disparities:
        tabs["classes"] = [class_figure(evidence.disparities)]
    shifts = evidence.shifts.items()
    tabs["shift"] = [shift_figure(name, shift, attack) for name, (shift, attack) in shifts]
    tabs["sensitivity"] = [keep_figure(evidence.tunings)] if evidence.tunings else []
    tabs["sensitivity"] += [f for outcome in evidence.outcomes for f in sweep_figures(outcome)]
    tabs["surface"] = surface_figures(evidence.surfaces) if evidence.surfaces else []
    tabs["neurons"] = [
        class_overlap_figure(
            e.name, e.guided.ranking.masks(e.guided.keep), e.guided.keep, e.data.class_names
        )
        for e in evidence.exhibits
        if e.guided is not None and e.data is not None
    ]
    if evidence.comparison is not None:
        tabs["neurons"].append(ranking_overlap_figure(evidence.comparison))
    return {tab: figures for tab, figures in tabs.items() if figures}
