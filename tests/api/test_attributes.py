"""Attributes that a function reads of modules, classes and objects: constants when traced, noticed when set anew."""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np
import pytest
from numpy import zeros

import symgrad as sg
from symgrad.api.call.captures import Captured
from symgrad.trace.numpy.replaced import installed

X = np.array([1.0, 2.0])

config = types.ModuleType("config")
config.__file__ = __file__
vars(config)["rate"] = 2.0

space = types.SimpleNamespace(rate=2.0, inner=types.SimpleNamespace(rate=2.0))


class Settings:
    rate = 2.0


settings = Settings()


class Model:
    def __init__(self):
        self.rate, self.calls = 2.0, 0

    def loss(self, x):
        self.calls += 1
        return self.scaled(np.sum(x * x))

    def scaled(self, y):
        return self.rate * y


def reads_a_module(x):
    return config.rate * np.sum(x)


def reads_a_class(x):
    return Settings.rate * np.sum(x)


def reads_an_object(x):
    return settings.rate * np.sum(x)


def reads_a_namespace(x):
    return space.rate * np.sum(x)


def reads_an_inner_one(x):
    def scaled(y):
        return space.inner.rate * y

    return scaled(np.sum(x))


def helps(x):
    return reads_an_object(x)


READERS: dict[Any, Any] = {
    reads_a_module: config, reads_a_class: Settings, reads_an_object: settings, reads_a_namespace: space,
    reads_an_inner_one: space.inner, helps: settings,
}


@pytest.mark.parametrize("fun", READERS)
def test_attributes_set_anew_are_noticed(fun, monkeypatch):
    f = sg.value_and_grad(fun)
    assert [f(X)[0] for _ in range(3)] == [6.0] * 3
    monkeypatch.setattr(READERS[fun], "rate", 5.0)
    assert [f(X)[0] for _ in range(3)] == [15.0] * 3
    assert np.array_equal(f(X)[1], [5.0, 5.0])
    assert ".rate has changed, which it reads without taking it" in f.cache_info().reasons[-1]
    monkeypatch.undo()
    assert f(X)[0] == 6.0


def test_an_attribute_of_the_object_before_the_classs():
    f = sg.jit(reads_an_object)
    assert f(X) == 6.0
    settings.rate = 3.0
    assert f(X) == 9.0
    del settings.rate
    assert f(X) == 6.0
    Settings.rate = 4.0
    assert f(X) == 12.0
    Settings.rate = 2.0


@pytest.mark.parametrize("make", [sg.grad, sg.jacrev, lambda f: sg.grad(functools.partial(f))])
def test_bound_methods(make):
    model = Model()
    f = make(model.loss)
    assert np.array_equal(f(X), 4 * X)
    model.rate = 5.0
    assert np.array_equal(f(X), 10 * X)
    assert np.array_equal(f(X), 10 * X)


def test_what_the_function_sets_itself_compiles_nothing_again():
    model = Model()
    f = sg.grad(model.loss)
    for _ in range(5):
        f(X)
    assert f.cache_info().compilations == 1


def test_closed_over_objects():
    mine = types.SimpleNamespace(rate=2.0)
    f = sg.jit(lambda x: mine.rate * x)
    assert np.array_equal(f(X), 2 * X)
    mine.rate = 3.0
    assert np.array_equal(f(X), 3 * X)


def test_a_trace_in_another_thread_changes_nothing():
    """While one is active, names bound to NumPy's functions hold stand-ins, in the module and in the closure."""
    array = np.array

    def fun(x):
        return zeros(2) + array([x[0], x[1]])

    f = sg.jit(fun)
    with installed(fun):
        other = Captured(fun).named()
        assert np.array_equal(f(X), X)
    assert other == Captured(fun).named()
    assert np.array_equal(f(X), X)
    assert (f.cache_info().compilations, f.cache_info().hits) == (1, 0)  # the short call served it


def test_assertions_lead_to_nothing_of_pytests():
    def fun(x):
        assert x > 0
        return x

    assert Captured(fun).named() == []


def test_libraries_are_left_out():
    def fun(x):
        return np.linalg.norm(x) + x.shape[0] + np.pi

    assert Captured(fun).named() == []
