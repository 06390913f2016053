"""Loading: cffi's types, the floating-point mode, the GIL, folders that allow no execution."""

from __future__ import annotations

import sys
import threading
import time
from array import array

import _cffi_backend  # type: ignore[import-untyped]
import pytest

from symgrad.build import load
from symgrad.build.load import build, function_type
from symgrad.build.toolchain.find import find
from symgrad.errors import SymgradWarning, ToolchainError
from symgrad.options import Options
from tests.build.sources import source_of, works


@pytest.mark.parametrize(
    ("prototype", "kind"),
    [
        ("int32_t f(void);", "int32_t(*)()"),
        ("int32_t f(const double *x, float *restrict y)", "int32_t(*)(double *, float *)"),
        ("int32_t f(const double *restrict w_bar,\n    const int64_t n, const int32_t threads,\n    char *workspace);",
         "int32_t(*)(double *, int64_t, int32_t, char *)"),
        ("int32_t f(void *const *pointers, const int64_t *dims)", "int32_t(*)(void * *, int64_t *)"),
        ("int32_t f(const uint8_t *mask, const _Bool *b, int8_t*c)", "int32_t(*)(uint8_t *, _Bool *, int8_t *)"),
    ],
)
def test_prototypes(prototype, kind):
    assert function_type(prototype, "f") is load.ffi.typeof(kind)


@pytest.mark.parametrize(
    "prototype",
    [
        "int32_t g(void);", "float f(void);", "int32_t f(struct s *x);", "int32_t f(double *x); int32_t g(void);", "",
        "int32_t f(int32_t (*callback)(void));", "int32_t f(double x y);",
    ],
)
def test_prototypes_that_are_refused(prototype):
    with pytest.raises(ValueError, match=r"prototype|parameter"):
        function_type(prototype, "f")


def test_arrays_from_python(tools, source):
    library = build(source, tools, Options())
    x = array("d", [1.0, 5e-324])
    assert library.function(library.ffi.from_buffer("double[]", x), 2) == 0
    assert list(x) == [2.0, 1e-323]


def test_a_wrong_type_of_array_is_refused(tools, source):
    library = build(source, tools, Options())
    with pytest.raises(TypeError):
        library.function(library.ffi.new("float[]", 2), 2)


def test_subnormals_survive_probing_and_loading(tools, source):
    tiny = sys.float_info.min
    find(Options(cache=False))  # probes
    assert tiny / 4 > 0
    assert build(source, tools, Options()).function is not None
    assert tiny / 4 > 0
    assert tiny / 4 * 4 == tiny


def constant(k):
    return source_of(f"int f(void) {{ return {k}; }}", "f", "int32_t f(void);")


def test_the_function_outlives_the_library(tools):
    functions = [build(constant(k), tools, Options()).function for k in range(3)]
    assert [function() for function in functions] == [0, 1, 2]


def test_the_gil_is_released(tools):
    text = "int32_t wait(volatile int32_t *flag)\n{\n    while (!*flag) {\n    }\n    return 0;\n}\n"
    text = "#include <stdint.h>\n" + text
    library = build(source_of(text, "wait", "int32_t wait(volatile int32_t *flag);"), tools, Options())
    flag = library.ffi.new("int32_t *", 0)
    waiting = threading.Thread(target=library.function, args=(flag,))
    waiting.start()
    time.sleep(0.05)  # with the GIL held, this thread would never come here
    assert waiting.is_alive()
    flag[0] = 1
    waiting.join(timeout=10)
    assert not waiting.is_alive()


def refusing(monkeypatch, allowed):
    """Make the system load libraries only from paths that `allowed` takes, as mounts with noexec do."""
    real = _cffi_backend.load_library

    class Backend:
        @staticmethod
        def load_library(path, flags):
            if not allowed(path):
                message = f"cannot load library '{path}': failed to map segment from shared object"
                raise OSError(message)
            return real(path, flags)

    monkeypatch.setattr(load, "_cffi_backend", Backend)


def test_a_cache_that_allows_no_execution(tools, source, folder, monkeypatch):
    refusing(monkeypatch, lambda path: not path.startswith(str(folder)))
    with pytest.warns(SymgradWarning, match=r"does not load libraries from .*cache") as said:
        library = build(source, tools, Options())
    assert works(library)
    assert works(build(source, tools, Options()))
    assert folder not in library.library_path.parents
    assert folder in library.c_path.parents
    assert len(said) == 1


def test_no_folder_that_allows_execution(tools, monkeypatch):
    refusing(monkeypatch, lambda path: path.startswith("/proc/self/fd/"))
    with pytest.warns(SymgradWarning, match="does not load"):
        libraries = [build(constant(k), tools, Options()) for k in range(3)]
    assert [library.function() for library in libraries] == [0, 1, 2]


def test_no_execution_anywhere_is_an_error(tools, source, monkeypatch):
    refusing(monkeypatch, lambda _: False)
    with pytest.raises(ToolchainError, match=r"does not load.*failed to map"):
        build(source, tools, Options())


def test_a_missing_symbol_is_an_error_at_loading_not_at_the_call(tools):
    text = "int nowhere(void);\nint f(int x) { return x ? nowhere() : 0; }\n"
    with pytest.raises(ToolchainError, match="nowhere"):
        build(source_of(text, "f", "int32_t f(int32_t x);"), tools, Options())
