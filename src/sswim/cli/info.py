"""The command ``sswim info``."""

from __future__ import annotations

from sswim.cli.console import output, print_facts, user_errors
from sswim.cli.models import table_schema
from sswim.cli.options import ModelPath


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
        if regressor.keeps_rows_:
            facts["rows inside"] = "yes: the model predicts from the rows it was trained on"
            if not regressor.n_samples_seen_:
                facts["rows inside"] = "none: saved without them; partial_fit gives it rows"
        else:
            facts["rows inside"] = "none"
            facts["log evidence"] = f"{regressor.log_marginal_likelihood_:.6g}"
        facts["training steps"] = regressor.n_iter_
        settings = regressor.get_params()
        facts |= {name: settings[name] for name in settings if name not in ("callback", "verbose")}
    print_facts(output, str(model), facts)
