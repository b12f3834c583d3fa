"""Interpretability-guided test-time defense, and the evaluation that tells whether it works.

The data path: model + data -> ranking -> defense -> attacks -> verdicts -> report.
"""

__version__ = "0.1.0"

from igdefense.models.load import load_model  # noqa: I001  (the order of the data path)
from igdefense.models.adapters.robustbench import from_robustbench
from igdefense.models.zoo import card_of, zoo
from igdefense.data.data import Data
from igdefense.data.datasets import load_data
from igdefense.layers import Layer, layers
from igdefense.split import Split, split
from igdefense.rankings.ranking import Ranking
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.rankings.clip_dissect import clip_dissect, clip_dissect_layers
from igdefense.rankings.encoders.encoder import load_encoder
from igdefense.rankings.net_dissect import net_dissect
from igdefense.rankings.controls import inverted, shuffled
from igdefense.rankings.combined import absolute, combined
from igdefense.rankings.compare import Comparison, compare
from igdefense.rankings.explain import Explanation, explain
from igdefense.defenses.ig_defense import IGDefense, defend, load_defense
from igdefense.defenses.averaged import AveragedDefense
from igdefense.defenses.layered import LayeredDefense
from igdefense.defenses.static_head import StaticHead, class_masked, spectral
from igdefense.defenses.smoothing import Smoothed
from igdefense.defenses.tune import Tuning, tune
from igdefense.defenses.rivals.hedge import Hedge
from igdefense.defenses.rivals.anti_adversary import AntiAdversary
from igdefense.defenses.rivals.head import Head, shipped_head
from igdefense.defenses.rivals.sodef import SODEF
from igdefense.deploy.exporting import Export, export
from igdefense.deploy.exported import Exported, load_exported
from igdefense.running.local import Local
from igdefense.running.ray import Ray
from igdefense.verdicts.verdict import Verdict
from igdefense.verdicts.difference import Difference
from igdefense.verdicts.curve import Curve
from igdefense.verdicts.run import Run
from igdefense.verdicts.evaluate import evaluate
from igdefense.verdicts.curves import curves
from igdefense.verdicts.diff import diff_runs
from igdefense.verdicts.verify import verify
from igdefense.family.member import Member
from igdefense.family.probed import Probed
from igdefense.family.outcome import Outcome
from igdefense.family.search import search
from igdefense.analysis.cost import Cost, Costs, cost
from igdefense.analysis.survival import Survival
from igdefense.analysis.class_disparity import ClassDisparity
from igdefense.analysis.activation_shift import ActivationShift, activation_shift
from igdefense.analysis.loss_surface import LossSurface, loss_surface
from igdefense.report.model_info import ModelInfo
from igdefense.errors import IGDefenseError

__all__ = [
    "SODEF",
    "ActivationShift",
    "AntiAdversary",
    "AveragedDefense",
    "ClassDisparity",
    "Comparison",
    "Cost",
    "Costs",
    "Curve",
    "Data",
    "Difference",
    "Explanation",
    "Export",
    "Exported",
    "Head",
    "Hedge",
    "IGDefense",
    "IGDefenseError",
    "Layer",
    "LayeredDefense",
    "Local",
    "LossSurface",
    "Member",
    "ModelInfo",
    "Outcome",
    "Probed",
    "Ranking",
    "Ray",
    "Run",
    "Smoothed",
    "Split",
    "StaticHead",
    "Survival",
    "Tuning",
    "Verdict",
    "__version__",
    "absolute",
    "activation_shift",
    "card_of",
    "class_masked",
    "clip_dissect",
    "clip_dissect_layers",
    "combined",
    "compare",
    "cost",
    "curves",
    "defend",
    "diff_runs",
    "evaluate",
    "explain",
    "export",
    "from_robustbench",
    "inverted",
    "layers",
    "leave_one_out",
    "load_data",
    "load_defense",
    "load_encoder",
    "load_exported",
    "load_model",
    "loss_surface",
    "net_dissect",
    "search",
    "shipped_head",
    "shuffled",
    "spectral",
    "split",
    "tune",
    "verify",
    "zoo",
]
