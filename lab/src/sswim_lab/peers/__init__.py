"""Peers: other methods of regression, and SSWIM itself, behind one protocol."""

from sswim_lab.peers.bayesian_warped_gp import BWGP
from sswim_lab.peers.dense_gp import GP
from sswim_lab.peers.gpboost_vecchia import GPBoost
from sswim_lab.peers.gpytorch_peers import DKL, DSDGP, SGPR, SVGP, ExactGP, WellTrainedGP
from sswim_lab.peers.protocol import Fitted, Gaussian, Method, Predictive
from sswim_lab.peers.published_sswim import RFFNS, RFFS, PublishedSSWIM
from sswim_lab.peers.sswim_method import SSWIM, sswim
from sswim_lab.peers.trees import CatBoost, HistGradientBoosting, LightGBM, NGBoost, Pytabkit
from sswim_lab.peers.warped_gp import MLWGP

__all__ = [
    "BWGP",
    "DKL",
    "DSDGP",
    "GP",
    "MLWGP",
    "RFFNS",
    "RFFS",
    "SGPR",
    "SSWIM",
    "SVGP",
    "CatBoost",
    "ExactGP",
    "Fitted",
    "GPBoost",
    "Gaussian",
    "HistGradientBoosting",
    "LightGBM",
    "Method",
    "NGBoost",
    "Predictive",
    "PublishedSSWIM",
    "Pytabkit",
    "WellTrainedGP",
    "sswim",
]
