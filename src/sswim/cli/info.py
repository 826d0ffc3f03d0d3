"""The command ``sswim info``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sswim.cli.console import output, print_facts, user_errors
from sswim.cli.models import table_schema
from sswim.cli.options import ModelPath

if TYPE_CHECKING:
    from sswim.recipe.fitted_kind import FittedKind


def info(model: ModelPath) -> None:
    """Show what a model file holds."""
    from sswim.estimator.regressor import SSWIMRegressor

    with user_errors():
        regressor = SSWIMRegressor.load(model)
        facts: dict[str, object] = {"number of inputs": regressor.n_features_in_}
        if hasattr(regressor, "table_schema_"):
            schema = table_schema(regressor)
            facts["target"] = schema.target
            facts["columns"] = ", ".join(f"{each.name} ({each.kind})" for each in schema.columns)
        facts["rows seen"] = f"{regressor.n_samples_seen_:,.10g}"
        facts["rows inside"] = "none"
        if regressor.keeps_rows_:
            facts["rows inside"] = "yes: the model predicts from the rows it was trained on"
            if not regressor.n_samples_seen_:
                facts["rows inside"] = "none: saved without them; partial_fit gives it rows"
        if hasattr(regressor, "log_marginal_likelihood_"):
            facts["log evidence"] = f"{regressor.log_marginal_likelihood_:.6g}"
        facts["training steps"] = regressor.n_iter_
        for kind in regressor.recipe_:
            facts[f"kind {kind.name}"] = _describe(kind)
        settings = regressor.get_params()
        facts |= {name: settings[name] for name in settings if name not in ("callback", "verbose")}
    print_facts(output, str(model), facts)


def _describe(kind: FittedKind) -> str:
    """Say in one line what became of a kind of members."""
    members = "1 member" if kind.n_members == 1 else f"{kind.n_members} members"
    rows = f"{kind.n_neighbors} neighbours" if kind.n_neighbors else f"{kind.n_features} features"
    weight = f"weight {kind.weight:.3f}" if kind.weight else "left out"
    if kind.name == "mean":
        return f"{weight}; the mean of all rows, everywhere"
    warps = "1 warp" if kind.depth == 1 else f"{kind.depth} warps"
    return (
        f"{weight}; {members}, {rows}, {warps}, {kind.kernel}, inputs {kind.inputs}, "
        f"output warp {kind.output_warp}, {kind.n_steps} steps"
    )
