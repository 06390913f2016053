"""`emit --blas`: a package's large products by the CBLAS that is linked, or by its own C."""

from __future__ import annotations

import shutil
import subprocess

import pytest

import symgrad as sg
from symgrad.errors import ArgumentValueError
from tests.emit.conftest import make

HEADER = """#ifndef CBLAS_H
#define CBLAS_H
#ifdef __cplusplus
extern "C" {
#endif
enum CBLAS_ORDER { CblasRowMajor = 101, CblasColMajor = 102 };
enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans = 112 };
void cblas_dgemm(enum CBLAS_ORDER, enum CBLAS_TRANSPOSE, enum CBLAS_TRANSPOSE, int, int, int,
                 double, const double *, int, const double *, int, double, double *, int);
#ifdef __cplusplus
}
#endif
#endif
"""
LIBRARY = """#include "cblas.h"
#include <stdio.h>
#include <stdlib.h>
void cblas_dgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE ta, enum CBLAS_TRANSPOSE tb, int m, int n, int k,
                 double alpha, const double *a, int lda, const double *b, int ldb, double beta, double *c, int ldc)
{
    const int at = ta == CblasTrans, bt = tb == CblasTrans;
    if (order != CblasColMajor || lda < (at ? k : m) || ldb < (bt ? n : k) || ldc < m) abort();
    puts("cblas_dgemm");
    for (long j = 0; j < n; ++j) {
        for (long i = 0; i < m; ++i) {
            double sum = 0;
            for (long p = 0; p < k; ++p) {
                sum += a[at ? p + i * lda : i + p * lda] * b[bt ? j + p * ldb : p + j * ldb];
            }
            c[i + j * ldc] = alpha * sum + (beta == 0 ? 0 : beta * c[i + j * ldc]);
        }
    }
}
"""
"""The reference's product, which says that it was called; the machine may have no BLAS to link."""


def product(a, b):
    """A matrix's product with another's transpose."""
    return a @ b.T


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("cblas") / "product"
    specs = {"a": "f64[132,128]", "b": "f64[130,128]"}
    sg.emit(product, specs, made, what="value", profile="fast", blas=True)
    (made / "cblas.h").write_text(HEADER)
    (made / "mine.c").write_text(LIBRARY)
    subprocess.run(["gcc", "-O2", "-I.", "-c", "mine.c"], cwd=made, check=True)
    return made


def test_a_build_with_a_blas_calls_it(folder):
    ran = make(folder, "CBLAS=-I. mine.o", "check")
    assert ran.returncode == 0, ran.stderr
    assert "cblas_dgemm" in ran.stdout
    assert make(folder, "clean").returncode == 0
    ran = make(folder, "CBLAS=-I. mine.o", "sanitize")
    assert ran.returncode == 0, ran.stderr
    assert "cblas_dgemm" in ran.stdout


def test_a_build_without_one_is_complete(folder):
    make(folder, "clean")
    ran = make(folder, "check")
    assert ran.returncode == 0, ran.stderr
    assert "cblas_dgemm" not in ran.stdout


def test_the_installed_package_links_it(folder, tmp_path):
    assert make(folder, "CBLAS=-I. mine.o", "all").returncode == 0
    ran = make(folder, "CBLAS=-lopenblas", f"PREFIX={tmp_path}", "-o", "all", "install")
    assert ran.returncode == 0, ran.stderr
    text = (tmp_path / "lib/pkgconfig/product.pc").read_text()
    assert "-lproduct -lopenblas -lm" in text


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
def test_cmake_links_it(folder):
    configured = ["cmake", "-B", "b", f"-DPRODUCT_CBLAS={folder}/mine.o"]
    for command in (configured, ["cmake", "--build", "b"], ["ctest", "--test-dir", "b", "-V"]):
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "cblas_dgemm" in ran.stdout


def test_single_precision_has_no_double_in_it(tmp_path):
    sg.emit(product, {"a": "f32[n,k]", "b": "f32[m,k]"}, tmp_path / "p", what="value", profile="fast", blas=True)
    text = (tmp_path / "p" / "p.c").read_text()
    assert "cblas_sgemm" in text
    assert "double" not in text


def test_the_embedded_profile_has_none(tmp_path):
    with pytest.raises(ArgumentValueError, match="'embedded' is C and nothing else") as caught:
        sg.emit(product, {"a": "f64[3,2]", "b": "f64[4,2]"}, tmp_path / "p", what="value", blas=True)
    assert "profile='fast'" in str(caught.value)


def test_without_it_nothing_is_said_of_a_blas(tmp_path):
    sg.emit(product, {"a": "f64[n,k]", "b": "f64[m,k]"}, tmp_path / "p", what="value", profile="fast")
    assert not any("CBLAS" in path.read_text() for path in (tmp_path / "p").iterdir())


def test_small_extents_and_none(tmp_path):
    """The recorded calls have small extents: the module's own product does those."""
    specs = {"a": "f64[n,k]", "b": "f64[m,k]"}
    sg.emit(product, specs, tmp_path / "p", what=("value", "jvp"), profile="fast", blas=True)
    assert make(tmp_path / "p", "check").returncode == 0
