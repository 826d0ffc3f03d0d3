"""Methods by their names: settings, versions and libraries."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from lab_builders.peers import skip_without_libraries
from sswim_lab.bench.methods import ABLATIONS, METHODS, NEIGHBOURS, require_method, versions
from sswim_lab.peers.protocol import Method
from sswim_lab.peers.sswim_method import SSWIM


@pytest.mark.parametrize("name", METHODS)
def test_methods_have_settings_and_versions(name: str) -> None:
    skip_without_libraries(name)
    method = require_method(name)
    assert isinstance(method, Method)
    assert method.device("cpu") == "cpu"
    settings = dict(method.settings())
    assert json.loads(json.dumps(settings)).keys() == settings.keys()
    if "gpytorch" in method.libraries:
        assert {"kernel", "ard", "dtype"} < settings.keys()
        assert (settings["optimiser"] == "adam") == ("learning_rate" in settings)
        assert vars(method).items() <= settings.items()
    if name in NEIGHBOURS:
        assert f"neighbours{method.settings()['depth']}" in name
    elif isinstance(method, SSWIM):
        assert len(method.settings()) == (1 if name in ABLATIONS else 0)
    else:
        assert method.settings()
    assert all(library in versions(method) for library in ("sswim 0", *method.libraries))
    most = {"exact-gp": 5000, "exact-gp-well-trained": 10_000}
    most |= dict.fromkeys(("gp", "bwgp", "mlwgp3", "mlwgp20"), 5000)
    assert method.max_rows == most.get(name)


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        *((name, "peers") for name in ("lightgbm", "catboost", "exact-gp", "gpboost-vecchia")),
        *((name, "strong-peers") for name in ("lgbm-td", "realmlp-td", "ngboost", "tabm-d")),
    ],
)
def test_missing_libraries_and_methods_raise(
    name: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"must be one of sswim, .*mlwgp20\. Got 'xgboost'"):
        require_method("xgboost")
    library = METHODS[name].libraries[0]
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ValueError, match=rf"needs {library}, .* pip install 'sswim-lab\[{extra}\]"):
        require_method(name)


def test_no_library_of_a_peer_is_imported_before_a_fit() -> None:
    libraries = ("catboost", "gpboost", "gpytorch", "lightgbm", "ngboost", "pytabkit", "xrfm")
    code = f"import sys, sswim_lab.bench.methods; assert not {{*{libraries}}} & {{*sys.modules}}"
    subprocess.run([sys.executable, "-c", code], check=True)
