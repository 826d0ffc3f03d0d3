"""Members of an ensemble: their parameters, training and predictions."""

from __future__ import annotations

from collections.abc import Iterable

from sswim.distributed.processes import ALONE, Processes
from sswim.members.checkpoints import Checkpoints, Step, Training
from sswim.members.density import Correction, OutOfFold, out_of_fold
from sswim.members.exact_members import ExactMembers, ExactRows
from sswim.members.exact_model import ExactKind, ExactModels
from sswim.members.exact_training import ExactTraining, refit_noise
from sswim.members.feature_member import FeatureMember, MeanMember
from sswim.members.kinds import Batch, Draw, Kind, Plan, outside
from sswim.members.linear_regression import Prediction
from sswim.members.member import LeftOut, Member
from sswim.members.model import SSWIM, Architecture
from sswim.members.neighbour_member import NeighbourMember
from sswim.members.objective import EVIDENCE, LEAVE_ONE_OUT, MAP, Objective
from sswim.members.start import enrich, start
from sswim.members.training import Adam, train
from sswim.rows.rows import Rows

__all__ = [
    "EVIDENCE",
    "LEAVE_ONE_OUT",
    "MAP",
    "SSWIM",
    "WAYS",
    "Adam",
    "Architecture",
    "Batch",
    "Checkpoints",
    "Correction",
    "Draw",
    "ExactKind",
    "ExactMembers",
    "ExactModels",
    "ExactRows",
    "ExactTraining",
    "FeatureMember",
    "Kind",
    "LeftOut",
    "MeanMember",
    "Member",
    "NeighbourMember",
    "Objective",
    "OutOfFold",
    "Plan",
    "Prediction",
    "Step",
    "Training",
    "condition",
    "enrich",
    "out_of_fold",
    "outside",
    "refit_noise",
    "start",
    "train",
]

WAYS: dict[str, type[Member]] = {
    member.way: member for member in (FeatureMember, NeighbourMember, MeanMember)
}
"""The ways of being a member, by name."""


def condition(model: SSWIM, rows: Rows | Iterable[Rows], processes: Processes = ALONE) -> Member:
    """Condition a model on rows.

    Later changes of the model do not change the member.

    Args:
        model: A single model, not a batch.
        rows: Rows in memory, or chunks of rows in an iterable that can be started again.
        processes: Processes whose rows are added up. For a model that predicts by neighbours, every
            process has all rows.
    """
    member = NeighbourMember if model.architecture.n_neighbors else FeatureMember
    return member.condition_on(model, rows, processes)
