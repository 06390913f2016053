"""The benchmarks run, compare results, and say so when one is wrong; no test looks at a time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import symgrad as sg
from benchmarks import __main__ as command
from benchmarks import ablation, formulations, limits, page, peers, run, table, training
from benchmarks.programs.rewritten import REWRITTEN
from benchmarks.workload import Workload
from benchmarks.workloads import OTHERS, PROMISED
from symgrad.pipeline import passes

ROOT = Path(__file__).parents[2]
ALONE = ["--no-jax", "--no-torch", "--no-drjit"]


def bench(*arguments):
    return CliRunner().invoke(command.main, [*arguments, *ALONE], catch_exceptions=False)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """The command sets a cache folder of its own."""
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", os.environ["SYMGRAD_CACHE_DIR"])


def test_quick_measures_the_small_workloads(tmp_path):
    path = tmp_path / "figures.json"
    done = bench("--quick", "--json", str(path))
    assert done.exit_code == 0, done.output
    small = [work.name for work in PROMISED if work.small]
    for name in small:
        assert re.search(rf"^{re.escape(name)} +\d", done.output, re.MULTILINE)
    assert "no peer to compare with" in done.output
    figures = json.loads(path.read_text())
    assert [row["name"] for row in figures["promised"]] == small
    assert {row["agrees"] for row in figures["promised"]} == {True}
    assert set(figures["promised"][0]["seconds"]) == {"symgrad", "c"}
    assert figures["machine"]["threads"] >= 1


@pytest.mark.nightly
def test_first_calls_are_made_in_processes_of_their_own():
    done = bench("--first", "1", "--only", "rosenbrock n=2")
    assert done.exit_code == 0, done.output
    head, row, summary = done.output.splitlines()
    assert head.split()[-6:] == ["traced", "stable", "derived", "optimized", "loops", "c"]
    assert row.startswith("rosenbrock n=2 ")
    assert summary.endswith("of 1 miss their bounds")


def test_passes_are_left_out_one_by_one(monkeypatch):
    chosen = [one for one in passes() if one.name in {"safer", "triangles", "contract", "inline"}]
    monkeypatch.setattr(ablation, "passes", lambda: chosen)
    done = bench("--ablate", "--quick", "--only", "rosenbrock n=2")
    assert done.exit_code == 0, done.output
    rows = dict(re.findall(r"^\| (\w+) (.*) \|$", done.output, re.MULTILINE))
    assert [*rows] == ["pass", "safer", "triangles", "contract"]
    assert rows["triangles"].startswith("* | time | 0 | 1.00 | 1.00 |  | +0 | 1 |"), "it changes no program"
    assert rows["safer"].startswith("| digits | 5 |")
    purpose, _, _, _, name, *_ = rows["contract"].strip("*| ").split(" | ")  # the star depends on times
    assert (purpose, name.split(",")[0]) == ("time", "rosenbrock n=2")
    assert "rosenbrock n=2" in bench("--ablate", "--quick", "--list").output


def test_rewritings_have_the_same_results():
    done = bench("--formulations", "--quick", "--only", "rosenbrock n=2", "--only", "eight schools")
    assert done.exit_code == 0, done.output
    first, second = re.findall(r"^\| (?:rosenbrock n=2|eight schools) .*", done.output, re.MULTILINE)
    assert first.count("rosenbrock_") == second.count("eight_schools_") == 3
    assert {work.function for work in (*PROMISED, *OTHERS)} == REWRITTEN.keys()
    assert {len(found) for found in REWRITTEN.values()} == {3}


@pytest.mark.nightly
@pytest.mark.parametrize("work", [w for w in (*PROMISED, *OTHERS) if not w.small], ids=lambda w: w.name)
def test_every_rewriting_has_the_same_results(work):
    assert formulations.measured(work, 0.0).agrees


def test_a_pass_that_fails_when_left_out_is_said(monkeypatch):
    def broken(options):
        if options.without:
            raise sg.SymgradError("no loops\nat all")
        return sg.jit(np.sin, options=options)

    monkeypatch.setattr(ablation, "variants", lambda work: [ablation.Variant(work.name, broken, (1.0,))])
    worths = ablation.ablate([PROMISED[0]], 0.01, lambda _: None)
    assert ablation.table(worths).splitlines()[-1] == f"{worths[-1].found.name} failed on {PROMISED[0].name}: no loops"


def test_the_c_that_a_change_altered_is_shown(tmp_path):
    folder, few = tmp_path / "c", ("--only", "rosenbrock n=2", "--only", "eight schools")
    assert bench("--c", str(folder), *few).output == "4 files\n"
    assert sorted(path.name for path in folder.iterdir()) == [
        "eight_schools.c", "eight_schools_jvp.c", "rosenbrock_n_2.c", "rosenbrock_n_2_jvp.c"]
    assert bench("--c-against", str(folder), *few).output == "0 files differ\n"
    path = folder / "eight_schools.c"
    path.write_text(path.read_text().replace("double tau = ", "double sigma = "))
    shown = bench("--c-against", str(folder), *few).output
    assert shown.startswith("eight_schools.c: 2 lines\n-    const double sigma = exp(log_tau[0]);\n+    const double ")
    assert shown.endswith("1 files differ\n")


def test_only_and_list():
    assert bench("--list", "--set", "promised").output.split("\n")[:-1] == [work.name for work in PROMISED]
    done = bench("--only", "GMM", "--list")
    assert done.output.split("\n")[:-1] == ["gmm d10 K25", "gmm d32 K50", "gmm d64 K100"]
    assert bench("--only", "nothing like it").exit_code == 2


@pytest.mark.parametrize("work", [w for w in (*PROMISED, *OTHERS) if w.limit or w in OTHERS], ids=lambda w: w.name)
def test_names_are_told_apart(work):
    assert sum(work.name == other.name for other in (*PROMISED, *OTHERS)) == 1
    assert work.limit is None or work.limit in limits.PROTOTYPES


SMALLER: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "rosenbrock": lambda rng: (rng.normal(size=1001),),
    "logistic": lambda rng: (rng.normal(size=7), rng.normal(size=(203, 7)), np.sign(rng.normal(size=203))),
    "black_scholes": lambda rng: (rng.uniform(80, 120, 1003), rng.uniform(0.1, 0.5, 1003)),
    "tanh_loss": lambda rng: (np.array(0.7), np.array(0.1), rng.normal(size=1003), rng.normal(size=1003)),
    "n_body": lambda rng: (rng.normal(size=(53, 3)), rng.uniform(size=53)),
    "softmax": lambda rng: (
        rng.normal(size=(64, 10)), rng.normal(size=10), rng.normal(size=(77, 64)), rng.integers(0, 10, size=77)),
    "product": lambda rng: tuple(rng.normal(size=(2, 64, 64))),
    "gmm": lambda rng: (
        rng.normal(size=5), rng.normal(size=(5, 10)), rng.normal(size=(5, 10)) / 4, rng.normal(size=(5, 10, 10)),
        rng.normal(size=(37, 10))),
}


@pytest.mark.parametrize("name", limits.PROTOTYPES)
def test_hand_written_c_computes_the_same(name):
    """Odd extents: the last tile of each has a remainder."""
    draw = SMALLER[name]
    arguments = draw(np.random.default_rng(3))
    (work,) = {w.function: w for w in PROMISED if w.limit == name}.values()
    ours = peers.leaves(peers.symgrad(work, arguments)[0].call())
    theirs = peers.leaves(limits.make(name, arguments, 2)())
    assert run.distance(ours, theirs) < 1e-12


@pytest.mark.parametrize("work", [w for w in OTHERS if "Fortran" not in w.name], ids=lambda w: w.name)
def test_formulations_have_the_value_of_numpy(work):
    """At a tenth of the size: what the table times is what a person wrote."""
    arguments = [smaller(a) for a in work.arguments()]
    value = peers.leaves(peers.symgrad(work, tuple(arguments))[0].call())[:1]
    assert run.distance(value, peers.leaves(work.function(*arguments))) <= max(work.tolerance, 1e-12)


def smaller(array):
    """Cut off what is beyond 64 along each axis, or what was drawn to be looked up there."""
    cut = array[tuple(slice(0, n if n in {998, 1000} else 64 if n > 100 else n) for n in array.shape)]
    return np.ascontiguousarray(cut % 64 if cut.dtype.kind == "i" else cut).reshape(cut.shape)


def test_a_wrong_result_is_told_and_ends_with_1(monkeypatch):
    real = peers.symgrad

    def wrong(work, arguments):
        peer, function = real(work, arguments)
        return peers.Peer(peer.call, lambda r: [a + 1e-3 for a in peers.leaves(r)]), function

    monkeypatch.setattr(peers, "symgrad", wrong)
    done = bench("--quick", "--only", "rosenbrock n=2", "--no-c")
    assert done.exit_code == 1
    assert "WRONG*" in done.output


def test_a_workload_that_fails_is_a_line_of_the_table(monkeypatch):
    def refuses(work, arguments):
        raise ValueError("no such thing")

    monkeypatch.setattr(peers, "symgrad", refuses)
    done = bench("--quick", "--only", "rosenbrock n=2")
    assert done.exit_code == 1
    assert re.search(r"^rosenbrock n=2 +- .*failed\*", done.output, re.MULTILINE)
    assert "rosenbrock n=2: symgrad: ValueError: no such thing" in done.output


def test_distance_sees_what_is_not_a_number():
    one = [np.array([1.0, 2.0])]
    assert run.distance(one, [np.array([1.0, 2.0 + 2e-6])]) == pytest.approx(1e-6, rel=1e-5)
    assert run.distance([np.array([1.0, np.nan])], one) == float("inf")
    assert run.distance([np.array([1.0])], one) == float("inf")
    assert run.distance([np.zeros(2)], [np.zeros(2)]) == 0.0


def test_names_are_bound_anew_in_all_of_a_module():
    from benchmarks.programs import classics

    class Half:
        @staticmethod
        def erf(x):
            return 0.0 * x

    assert peers.rebound(classics.normal, {"special": Half})(np.array(3.0)) == 0.5
    assert peers.rebound(classics.black_scholes, {"special": Half})(np.array(100.0), np.array(0.2)) == pytest.approx(
        50.0 - 50.0 * np.exp(-0.03))
    assert classics.normal(np.array(0.0)) == 0.5


def test_a_busy_machine_is_remarked():
    busy = run.Row("w", {"symgrad": 1.0}, notes={"torch": "eager, as compile fails: no"}, others=0.52)
    assert table.remarks([busy, run.Row("v", notes={"torch": "compile"}, others=0.01)]) == [
        "w: torch: eager, as compile fails: no",
        "w: other programs used 0.5 cores meanwhile: measure again",
    ]


def test_the_page_is_made_of_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "PAGE", tmp_path / "benchmarks.md")
    page.PAGE.write_text((ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8"), encoding="utf-8")
    slow = run.Row("rosenbrock n=2", {"symgrad": 2.0, "jax": 1.0}, error=0.0, least=4.0)
    busy = run.Row("eight schools", {"symgrad": 2.0, "jax": 1.0}, error=0.0, others=0.9)
    table.write_json(tmp_path / "figures.json", {"promised": [busy, slow], "others": []})
    done = CliRunner().invoke(page.main, [str(tmp_path / "figures.json"), "--write"], catch_exceptions=False)
    assert done.exit_code == 0
    first, second = re.findall(r"^\| (?:rosenbrock n=2|eight schools) .*", page.PAGE.read_text(), re.MULTILINE)
    assert first.split(" | ")[1:5] == ["2.00 s", "1.00 s", "**0.50**", "4"]
    assert second.endswith(" | 0.9 |")


@pytest.mark.slow
def test_installed_peers_agree(tmp_path):
    """In a process of its own: they start threads, after which forking is no longer safe."""
    installed = {name for name in ("jax", "torch", "drjit") if peers.there(name)}
    if not installed:
        pytest.skip("no peer is installed")
    path = tmp_path / "figures.json"
    arguments = ["--quick", "--only", "rosenbrock n=100,000", "--json", str(path)]
    subprocess.run([sys.executable, "-W", "ignore", "-m", "benchmarks", *arguments], check=True, cwd=ROOT)
    (row,) = json.loads(path.read_text())["promised"]
    assert set(row["seconds"]) == installed | {"symgrad", "c"}
    assert row["error"] < 1e-12
    assert [note for note in row["notes"].values() if "differs" in note] == []


def test_summary_and_marks():
    slow = run.Row("slow", {"symgrad": 2.0, "jax": 1.0, "c": 1.0}, error=0.0, least=4.0)
    fast = run.Row("fast", {"symgrad": 1.0, "jax": 8.0, "c": 1.0}, error=0.0, least=4.0)
    assert table.misses(slow) == {"JAX/sg", "sg/C"}
    assert table.misses(fast) == set()
    assert "mean 2.00, minimum 0.50, of 2" in table.summary([slow, fast])
    assert Workload("w", np.sum, lambda rng: (rng.normal(size=3),)).arguments()[0].shape == (3,)


def test_ctrl_c_prints_what_was_measured(monkeypatch):
    real = run.measured

    def interrupted(work, *further):
        if work.name != "rosenbrock n=2":
            raise KeyboardInterrupt
        return real(work, *further)

    monkeypatch.setattr(run, "measured", interrupted)
    done = bench("--quick")
    assert done.exit_code == 130
    assert "rosenbrock n=2" in done.output
    assert "rosenbrock n=100,000" not in done.output


def test_steps_of_training_are_timed():
    done = CliRunner().invoke(training.main, ["--quick", "--only", "regression"], catch_exceptions=False)
    assert re.match(r"softmax regression 784-10, batch 100, SGD, f64: \d+\.\d us\n", done.output)
    names = [name for name, _, calls in training.workloads(small=True) if "symgrad" in calls]
    assert len(names) == 6
