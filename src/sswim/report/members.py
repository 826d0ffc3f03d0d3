"""The members of a fitted ensemble with the kinds that they belong to."""

from __future__ import annotations

from dataclasses import dataclass

from sswim.estimator.regressor import SSWIMRegressor


@dataclass(frozen=True)
class MemberKind:
    """Where a member belongs."""

    name: str
    """Name of its kind."""
    colour: int
    """Colour of its kind in charts, from 1 on."""


def member_kinds(regressor: SSWIMRegressor) -> list[MemberKind]:
    """Return the kind of each member, in the order of ``members_``.

    Members stand in the order of their kinds; kinds of no weight have none.
    """
    kept = [kind for kind in regressor.recipe_ if kind.weight > 0]
    found = [
        MemberKind(kind.name, 1 + place % 6)
        for place, kind in enumerate(kept)
        for _ in range(kind.n_members)
    ]
    n_members = len(regressor.members_)
    return found if len(found) == n_members else [MemberKind("member", 1)] * n_members
