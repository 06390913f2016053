"""Finding the C compiler, what it is asked, and what is kept of its answers."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import time
from dataclasses import asdict, replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.build.load import build
from symgrad.build.toolchain import capabilities, probe
from symgrad.build.toolchain import find as toolchain
from symgrad.build.toolchain.capabilities import KEEPS_JUMPS
from symgrad.build.toolchain.compiler import LONG_TEXT, flags_for
from symgrad.build.toolchain.find import find
from symgrad.errors import ArgumentValueError, SymgradWarning
from symgrad.ops import math_functions
from symgrad.options import Options
from tests.build.sources import finish, forget, source_of

FLAGS = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fPIC", "-shared", "-std=c11")
KNOWN = capabilities.Capabilities(
    version="cc 1", native=True, openmp=0, fma=True, permutes=True, veclib=False, mvec=False,
    simd_math=("exp", "sin", "cos"), ns_256=9100, ns_512=6500,
)
TIMES = {0: (0, 0), 256: (6500, 9100), 512: (9100, 6500)}


def test_narrow_vectors_where_a_compiler_permutes_wrongly(tools):
    """Where elements of rows of eight are written, or summed, one by one; nowhere else, and for no other compiler."""
    wrong = replace(tools, flags=("-O3", "-mprefer-vector-width=512"), known=replace(KNOWN, permutes=False))
    sums = ", ".join(f"s{k}" for k in range(8))
    for text in ("y[i*8 + 5] = x[i*8 + 7];", "for (; j < 8; ++j) y[i*8 + j] = x[i];", f"reduction(+:{sums})"):
        assert flags_for(text, wrong) == ("-O3", "-mprefer-vector-width=256")
        assert flags_for(text, replace(wrong, known=KNOWN)) == wrong.flags
    for text in ("y[i*4 + 3] = x[i*4];", "for (; j < 50; ++j) y[i*50 + j] = x[i];", "y[i] = x[i*8 + 7];"):
        assert flags_for(text, wrong) == wrong.flags


def test_gcc_leaves_passes_out_of_long_texts(tools):
    """Those that take most of its time; clang has none of these names."""
    for version, fewer in (("gcc (Debian) 12.2.0", ("-fno-gcse", "-fno-gcse-after-reload")), ("clang version 17", ())):
        one = replace(tools, known=replace(KNOWN, version=version))
        assert flags_for("y[i] = 0.0;", one) == one.flags
        assert flags_for("y[i] = 0.0;" * LONG_TEXT, one) == (*fewer, *one.flags)


def no_processes(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError(arguments)

    monkeypatch.setattr(subprocess, "Popen", refuse)


def test_flags_are_the_promised_ones(tools):
    assert set(FLAGS) <= set(tools.flags)
    assert tools.libraries[-1] == "-lm"
    assert not [flag for flag in tools.flags if "fast" in flag or "unsafe" in flag]
    assert tools.target.openmp == ("-fopenmp" in tools.flags)
    assert tools.target.vector_bits in {0, 256, 512}
    assert tools.cpu == toolchain.features()


def test_gcc_with_glibc_has_vector_functions(tools):
    symbols = subprocess.run([*tools.argv, "--version"], capture_output=True, text=True, check=True).stdout
    expected = "Free Software" in symbols and "glibc" in tools.cpu and "x86_64" in tools.cpu
    assert not expected or {"exp", "expf", "log", "sin", "cos", "pow", "powf"} <= tools.target.simd_math


@pytest.mark.parametrize("body", ["y[i] = exp(x[i])", "y[i] = sin(x[i]) * cos(x[i] + 0.0)"], ids=["exp", "sin and cos"])
def test_vector_functions_are_called(tools, body):
    names = [name for name in ("exp", "sin", "cos") if name in body]
    prototypes = "".join(f"#pragma omp declare simd notinbranch\ndouble {name}(double);\n" for name in names)
    text = (
        f"#include <stdint.h>\n{prototypes}int32_t f(const double *restrict x, double *restrict y, const int64_t n)\n"
        f"{{\n#pragma omp simd\n    for (int64_t i = 0; i < n; ++i) {body};\n    return 0;\n}}\n"
    )
    library = build(source_of(text, "f", "int32_t f(const double *x, double *y, const int64_t n);"), tools, Options())
    called = set(re.findall(rb"_ZGV\w+?_(\w+)\0", library.library_path.read_bytes()))
    assert called == {name.encode() for name in names if name in tools.target.simd_math}


def test_none_means_no_compiler_and_no_warning():
    assert find(Options(compiler="none")) is None


@pytest.mark.parametrize("value", ["/bin/false", "/nonexistent/cc", "cc 'unbalanced", "cc --no-such-option"])
@pytest.mark.parametrize("how", ["environment", "option"])
def test_a_broken_compiler_that_the_user_named_is_not_replaced(monkeypatch, value, how):
    if how == "environment":
        monkeypatch.setenv("CC", value)
    options = Options(compiler=value if how == "option" else None)
    with pytest.warns(SymgradWarning, match=re.escape("$CC" if how == "environment" else "compiler names")) as said:
        assert find(options) is None
    assert find(options) is None  # a second warning would be an error here
    assert len(said) == 1
    assert value in str(said[0].message)
    assert "pip install symgrad[zig]" in str(said[0].message)
    assert said[0].filename == __file__


def test_without_any_compiler_the_warning_tells_how_to_get_one(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.warns(SymgradWarning, match="no C compiler") as said:
        assert find(Options()) is None
    assert "NumPy" in str(said[0].message)
    assert "gcc" in str(said[0].message)
    assert "pip install symgrad[zig]" in str(said[0].message)


def test_cc_may_have_several_words_and_spaces(monkeypatch, compiler):
    monkeypatch.setenv("CC", f"env NOTHING=1 '{compiler('', 'a folder/my cc')}'")
    found = find(Options())
    assert found is not None
    assert found.argv[:2] == (shutil.which("env"), "NOTHING=1")
    assert "my cc" in found.identity


def test_cc_may_be_a_relative_path(monkeypatch, compiler, tmp_path):
    compiler("", "tools/mycc")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CC", "tools/mycc")
    found = find(Options())
    assert found is not None
    assert found.argv == (str(tmp_path / "tools" / "mycc"),)


def test_no_shell_reads_cc(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", f"cc; touch {tmp_path / 'made'}; echo $(touch {tmp_path / 'made'})")
    with pytest.warns(SymgradWarning, match="CC"):
        assert find(Options()) is None
    assert not (tmp_path / "made").exists()


def test_the_option_goes_before_cc(monkeypatch, compiler):
    monkeypatch.setenv("CC", "/bin/false")
    mine = compiler("")
    found = find(Options(compiler=mine))
    assert found is not None
    assert found.argv == (mine,)


def test_the_first_of_cc_gcc_clang_that_works_is_taken(monkeypatch, compiler, tmp_path):
    compiler("exit 1", "bin/cc")
    compiler("", "bin/gcc")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    found = find(Options())
    assert found is not None
    assert found.argv == (str(tmp_path / "bin" / "gcc"),)


def test_openmp_and_native_are_dropped_where_the_compiler_has_them_not(compiler, source):
    """As zig's."""
    refuse = 'for word in "$@"; do case "$word" in -fopenmp|-march=native) exit 1;; esac; done'
    found = find(Options(compiler=compiler(refuse)))
    assert found is not None
    assert not found.target.openmp
    assert "-fopenmp-simd" in found.flags
    assert not {"-fopenmp", "-march=native"} & set(found.flags)
    assert build(source, found, Options()).function is not None


def test_openmp_is_not_used_where_its_runtime_does_not_load(compiler):
    lost = 'case "$*" in *"-fopenmp "*) set -- "$@" -Domp_get_max_threads=symgrad_gone;; esac'
    found = find(Options(compiler=compiler(lost)))
    assert found is not None
    assert not found.target.openmp


def test_the_ziglang_package_is_the_last_resort(monkeypatch, tmp_path):
    package = tmp_path / "packages" / "ziglang"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "zig").write_text("the compiler itself")
    real = shutil.which("cc")
    (package / "__main__.py").write_text(
        "import os, sys\nassert sys.argv[1] == 'cc'\nassert '-march=native' not in sys.argv\n"
        f"os.environ['PATH'] = {os.environ['PATH']!r}\nos.execv({real!r}, [{real!r}, *sys.argv[2:]])\n",
    )
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find(Options())
    assert found is not None
    assert found.argv[1:] == ("-m", "ziglang", "cc")
    assert str(package / "zig") in found.identity
    assert "-march=native" not in found.flags


def test_a_compiler_that_hangs_is_passed_over(monkeypatch, compiler):
    monkeypatch.setenv("SYMGRAD_COMPILE_SECONDS", "0.3")
    start = time.monotonic()
    with pytest.warns(SymgradWarning, match="does not compile"):
        assert find(Options(compiler=compiler("sleep 30"))) is None
    assert time.monotonic() - start < 3


def test_further_flags_come_last_and_libraries_behind_the_source():
    found = find(Options(flags=("-DMINE", "-lpthread", "-O2")))
    assert found is not None
    assert found.flags[-2:] == ("-DMINE", "-O2")
    assert found.libraries == ("-lpthread", "-lm")


def test_flags_that_the_compiler_does_not_take_are_an_error():
    with pytest.raises(ArgumentValueError, match="no-such-flag"):
        find(Options(flags=("-fno-such-flag-here",)))


def test_flags_that_change_the_floating_point_mode_are_refused(tmp_path):
    # What gcc's crtfastmath.o holds, which -ffast-math links; the name is what it is known by.
    sets_mode = tmp_path / "mode.c"
    sets_mode.write_text("void set_fast_math(void) {}\n")
    with pytest.raises(ArgumentValueError, match="floating-point mode"):
        find(Options(flags=(str(sets_mode),)))


def test_what_was_found_is_kept_in_the_process_and_on_disk(monkeypatch, tools):
    no_processes(monkeypatch)
    assert find(Options()) is tools
    forget()
    assert find(Options()) == tools


def test_a_compiler_that_changed_is_asked_again(compiler, folder):
    mine = compiler("")
    first = find(Options(compiler=mine))
    forget()
    os.utime(mine, ns=(1, 1))
    second = find(Options(compiler=mine))
    assert first is not None
    assert second is not None
    assert first.identity != second.identity
    assert first.target.simd_math == second.target.simd_math


def test_without_a_cache_it_is_asked_and_nothing_is_written(folder, tools):
    before = sorted(folder.iterdir())
    found = find(Options(cache=False))
    assert found is not None
    assert found.target.simd_math == tools.target.simd_math
    assert sorted(folder.iterdir()) == before


def damaged(record):
    yield record[: len(record) // 2]
    yield b""
    yield record.replace(b"true", b"tru\x65\x01", 1)
    yield bytes([record[0] ^ 1]) + record[1:]


@pytest.mark.parametrize("which", range(4))
def test_a_damaged_record_is_made_again(folder, tools, which):
    path = next(path for path in folder.iterdir() if path.name.startswith("record-"))
    whole = path.read_bytes()
    path.write_bytes(list(damaged(whole))[which])
    forget()
    with pytest.warns(SymgradWarning, match=r"record-\w+ is damaged"):
        found = find(Options())
    assert found is not None
    assert found.target.simd_math == tools.target.simd_math
    assert json.loads(path.read_bytes().partition(b"\n")[2]).keys() == json.loads(whole.partition(b"\n")[2]).keys()


def test_capabilities_come_back():
    assert capabilities.parse(json.dumps(asdict(KNOWN)).encode()) == KNOWN


@pytest.mark.parametrize(
    "change",
    [
        {"flags": ["-fplugin=evil.so"]}, {"openmp": "-fopenmp -fplugin=evil.so"}, {"openmp": 7}, {"openmp": True},
        {"vector_bits": 512}, {"ns_512": -1}, {"ns_512": 6.5}, {"ns_256": True},
        {"simd_math": ["exp", "system"]}, {"simd_math": "exp"}, {"simd_math": [["exp"]]},
        {"native": 1}, {"version": None}, {"version": "x" * 100_000}, {"fma": "yes"},
    ],
    ids=str,
)
def test_a_record_with_the_wrong_content_is_not_believed(change):
    assert capabilities.parse(json.dumps(asdict(KNOWN) | change).encode()) is None


@pytest.mark.parametrize("text", [None, b"", b"null", b"[]", b"{}", b"\xff", b"{", b"1" * 5000, b"[" * 100_000])
def test_a_record_that_is_no_record_is_not_believed(text):
    assert capabilities.parse(text) is None


def test_a_second_process_runs_nothing(python, folder):
    code = (
        "import sys\n"
        "ran = []\n"
        "starts = {'subprocess.Popen', 'os.posix_spawn', 'os.system', 'os.fork', 'os.exec'}\n"
        "sys.addaudithook(lambda event, arguments: ran.append(arguments) if event in starts else None)\n"
        "from symgrad.options import Options\n"
        "from symgrad.render.source import Source\n"
        "from symgrad.build.toolchain.find import find\n"
        "from symgrad.build.load import build\n"
        "text = 'int one(void) { return 1; }'\n"
        "library = build(Source(text, 'one', 'int32_t one(void);'), find(Options()), Options())\n"
        "assert library.function() == 1\n"
        "ours = {'symgrad.build.toolchain.probe', 'symgrad.build.toolchain.process'}\n"
        "unneeded = ours | {'subprocess', 'pycparser', 'cffi'}\n"
        "print(len(ran), *sorted(unneeded & set(sys.modules)))\n"
    )
    assert finish(python(code))[0].split()[0] == "1"
    assert finish(python(code))[0].split() == ["0"]


def test_processor_features_do_not_depend_on_order(monkeypatch):
    before = toolchain.features()
    fields = toolchain._cpuinfo()
    shuffled = {name: " ".join(reversed(value.split())) if name == "flags" else value for name, value in fields.items()}
    monkeypatch.setattr(toolchain, "_cpuinfo", lambda: shuffled)
    assert toolchain.features.__wrapped__() == before
    monkeypatch.setattr(toolchain, "_cpuinfo", lambda: {**fields, "flags": fields.get("flags", "") + " avx1024"})
    assert toolchain.features.__wrapped__() != before


def test_the_lock_of_a_forked_child_is_free():
    with toolchain._lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if toolchain._lock.acquire(timeout=1) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_compiler_that_permutes_wrong_is_kept_from_it():
    assert "-fno-tree-slp-vectorize" not in KNOWN.flags()
    kept = {"-fno-tree-slp-vectorize", "-fno-tree-loop-distribute-patterns"}
    assert kept <= {*replace(KNOWN, permutes=False).flags()}


def test_jumps_are_not_threaded_through_sums():
    assert KEEPS_JUMPS in replace(KNOWN, version="gcc 12.2.0").flags()
    assert KEEPS_JUMPS not in replace(KNOWN, version="clang version 17").flags()


@pytest.mark.parametrize(("steps", "n"), [(12, 64), (12, 199), (12, 208), (3, 65), (1, 700)])
def test_terms_of_equal_conditions_are_all_added(steps, n):
    """A price by regression, early exercise and all: gcc 12.2 with AVX-512 lost terms of its slope, a tenth of it."""
    def value(start, deviation, z):
        paths = start * np.exp(np.cumsum(deviation * z, axis=0))
        cash = np.maximum(100 - paths[-1], 0.0)
        for t in range(steps - 2, -1, -1):
            kept = paths[t] * np.sum(paths[t]) / 10000
            cash = np.where(100 - paths[t] > kept, 100 - paths[t], 0.99 * cash)
        return np.mean(cash)

    at = 100.0, 0.05, np.random.default_rng(0).normal(size=(steps, n))
    wanted = sg.grad(value, argnums=(0, 1), options=sg.Options(compiler="none"))(*at)
    np.testing.assert_allclose(sg.grad(value, argnums=(0, 1))(*at), wanted, rtol=1e-12)


def test_constants_that_begin_alike_are_copied_right():
    """As memcpy of a known constant, gcc 12.2 made of six 0.25 and two 0 eight 0.25 by AVX-512."""
    rows = [np.repeat([0.25, 0.0, 2.0], [k, n, 3]) for k in (2, 6, 8) for n in (2, 6, 31)]
    made, _ = sg.jit(lambda x: ([np.array(row) for row in rows], x * 2))(np.ones(2))
    for row, copied in zip(rows, made, strict=True):
        np.testing.assert_array_equal(copied, row)


def test_no_record_can_bring_a_flag():
    words = {*FLAGS, "-march=native", "-fveclib=libmvec", *capabilities.OPENMP}
    for native, openmp, veclib, width in itertools.product((True, False), range(3), (True, False), TIMES):
        narrow, wide = TIMES[width]
        known = replace(KNOWN, native=native, openmp=openmp, veclib=veclib, ns_256=narrow, ns_512=wide)
        assert known.vector_bits == width
        assert set(known.flags()) <= words | {"-mprefer-vector-width=256", "-mprefer-vector-width=512"}


@pytest.mark.parametrize(("narrow", "wide", "chosen"), [(100, 96, 0), (96, 100, 0), (100, 94, 512), (94, 100, 256)])
def test_the_width_is_chosen_where_one_is_clearly_faster(narrow, wide, chosen):
    assert replace(KNOWN, ns_256=narrow, ns_512=wide).vector_bits == chosen


class Loops:
    """A library whose loop for vectors of 512 bits is slow."""

    def load_function(self, kind, name):
        del kind
        return lambda *_: time.sleep(2e-3 if name.endswith("512") else 1e-4)


def test_widths_are_timed_and_quickly(monkeypatch):
    monkeypatch.setattr(probe, "_REPEATS", 3)
    narrow, wide = probe._time_widths(Loops())
    assert wide > narrow >= 1e5
    assert probe._time_widths(None) == (0, 0)


def test_every_function_that_ops_call_may_run_as_lanes():
    """A function without variants is spelled as a pattern, ``f{f}({0})``: packages count on those with a bare name."""
    offered = probe._offered()
    if not offered:
        pytest.skip("no vector library here")
    assert offered == tuple(math_functions())
