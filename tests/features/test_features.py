"""Columns of tables: TensorFlow's own examples, fingerprints of the library, gradients, refusals."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad import features as ft
from symgrad import nn
from symgrad.errors import ArgumentError, ArgumentValueError, IndexOutOfBounds
from symgrad.features.fingerprint import joined

# -- fingerprints: of FarmHash's library

PRINTS = {
    0: 0x9AE16A3B2F90404F, 1: 0xA49305F87C6B774D, 4: 0xAC59EA5B8252A98F, 8: 0xEBBD6996B7C63CF2, 16: 0x3D9283E788F22937,
    17: 0xDF26CDFD4A432EBC, 32: 0x26ABFEF2D7CD41ED, 33: 0x2BDBE8FCED062B35, 64: 0x89DF9E1D97296455,
    65: 0x3C4BE7707D649385, 128: 0x54A72611B01C78C2, 129: 0xD62E8206616E62C2, 300: 0x532C347DBE28BFF3,
}


@pytest.mark.parametrize("length", PRINTS)
def test_fingerprints_are_farmhashs(length):
    assert ft.fingerprint64((b"symgrad and " * 30)[:length]) == PRINTS[length]


def test_fingerprints_of_others():
    assert ft.fingerprint64(b"hello world") == 6381520714923946011
    assert [ft.fingerprint64(word) % 3 for word in (b"Hello", b"TensorFlow", b"2.x")] == [0, 2, 2]  # TensorFlow's page


# -- what columns make of tables

PETS = ft.vocabulary("pets", ["bob", "eve", "sam"])
X = ft.numeric("x", 2)
IDS = ft.identity("ids", 3)
WEIGHTED = ft.weighted(ft.identity("ids", 3), "w")
TABLE = np.array([[1.0, 2.0], [3.0, 5.0], [7.0, 11.0]])
ROWS = {"ids": [[2], [0, 1], [], [1]]}


def made(column, data, **tables):
    return ft.dense([column], tables, ft.encode([column], data))


DENSE: dict[str, tuple[Any, Any]] = {
    "numeric": (lambda: made(X, {"x": [[1, 2], [3, 4]]}), [[1, 2], [3, 4]]),
    "numeric, no axes": (lambda: made(ft.numeric("p"), {"p": np.array([1, 2])}), [[1], [2]]),
    "bucketized": (
        lambda: made(ft.bucketized(X, [0, 10, 100]), {"x": [[-5, 10000], [150, 10]]}),
        [[1, 0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 1, 0, 0, 1, 0]],
    ),
    "indicator of buckets": (
        lambda: made(ft.indicator(ft.bucketized(X, [0, 10, 100])), {"x": [[-5, 10000], [150, 10]]}),
        [[1, 0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 1, 0, 0, 1, 0]],
    ),
    "embedding of buckets": (
        lambda: made(ft.embedding(ft.bucketized(X, [0]), 1, "sum"), {"x": [[-5, 5], [1, 1]]},
                     x_bucketized_embedding=np.array([[1.0], [10.0], [100.0], [1000.0]])), [[1001], [1010]],
    ),
    "indicator": (lambda: made(ft.indicator(PETS), {"pets": [["bob", "bob"], ["eve", "ann"], []]}),
                  [[2, 0, 0], [0, 1, 0], [0, 0, 0]]),
    "indicator of one word each": (lambda: made(ft.indicator(PETS), {"pets": np.array(["sam", "bob"])}),
                                   [[0, 0, 1], [1, 0, 0]]),
    "weighted indicator": (
        lambda: made(ft.indicator(WEIGHTED), {"ids": [[2, 2], [0]], "w": [[0.5, 2.0], [3.0]]}),
        [[0, 0, 2.5], [3, 0, 0]],
    ),
    "mean": (lambda: made(ft.embedding(IDS, 2), ROWS, ids_embedding=TABLE), [[7, 11], [2, 3.5], [0, 0], [3, 5]]),
    "sum": (lambda: made(ft.embedding(IDS, 2, "sum"), ROWS, ids_embedding=TABLE), [[7, 11], [4, 7], [0, 0], [3, 5]]),
    "sqrtn": (lambda: made(ft.embedding(IDS, 2, "sqrtn"), ROWS, ids_embedding=TABLE),
              [[7, 11], [4 / 2**0.5, 7 / 2**0.5], [0, 0], [3, 5]]),
    "weights that are not positive are left out": (
        lambda: made(ft.embedding(WEIGHTED, 2), {"ids": [[0, 1, 2], [-1, 1]], "w": [[1.0, 3.0, -2.0], [9.0, 0.0]]},
                     ids_weighted_by_w_embedding=TABLE), [[2.5, 4.25], [0, 0]],
    ),
}


@pytest.mark.parametrize("name", DENSE)
def test_columns_side_by_side(name):
    call, want = DENSE[name]
    np.testing.assert_allclose(call(), want, rtol=1e-15)


def test_ids_of_buckets_hashes_and_crosses():
    data = {"x": [[-5, 10000], [150, 10], [5, 100]], "a": ["u", "v"], "b": [["p", "q"], []], "n": [3, 4]}
    batch = ft.encode([ft.indicator(ft.bucketized(X, [0, 10, 100]))], data)
    np.testing.assert_array_equal(batch["x_bucketized"], [[0, 7], [3, 6], [1, 7]])
    (words,) = ft.encode([ft.indicator(ft.hashed("a", 7))], data).values()
    np.testing.assert_array_equal(words, [[ft.fingerprint64(b"u") % 7], [ft.fingerprint64(b"v") % 7]])
    (numbers,) = ft.encode([ft.indicator(ft.hashed("n", 7))], data).values()
    np.testing.assert_array_equal(numbers, [[ft.fingerprint64(b"3") % 7], [ft.fingerprint64(b"4") % 7]])
    (crosses,) = ft.encode([ft.indicator(ft.crossed(["a", "b", ft.identity("n", 9)], 11))], data).values()
    want = [
        joined(joined(joined(0xDECAFCAFFE, ft.fingerprint64(b"u")), ft.fingerprint64(other)), 3) % 11
        for other in (b"p", b"q")
    ]
    np.testing.assert_array_equal(crosses, [want, [-1, -1]])


def ids_of(column, data):
    (found,) = ft.encode([ft.indicator(column)], data).values()
    return [[one for one in row if one >= 0] for row in found.tolist()]


def test_a_cross_of_buckets_is_tensorflows(monkeypatch):
    """Of its own test, with the hash key 5: each of two numbers has buckets of its own."""
    monkeypatch.setattr("symgrad.features.columns.CROSS", 5)
    data = {"a": [[-1.0, 0.5], [0.5, 1.0]], "c": [["cA"], ["cB", "cC"]]}
    cross = ft.crossed([ft.bucketized(ft.numeric("a", 2), [0, 1]), "c"], 5)
    assert ids_of(cross, data) == [[1, 0], [1, 3, 4, 2]]


def test_what_goes_into_a_cross_is_tensorflows():
    """Words by their fingerprint, integers and ids as they are: a word that is not in a vocabulary is -1."""
    def crossed(*parts):
        found = 0xDECAFCAFFE
        for part in parts:
            found = joined(found, part if isinstance(part, int) else ft.fingerprint64(part))
        return found % 1000

    def made(first, values, other=("u",) * 3):
        return ids_of(ft.crossed([first, "b"], 1000), {"a": values, "b": other})

    for values in ([3, -7, 2**63], [np.int8(3), -7, np.uint64(2**63)], [[3], (-7,), [2**63, None]]):
        assert made("a", values) == [[crossed(one, b"u")] for one in (3, -7, 2**63)]
    assert made("a", np.array([True, False, True])) == [[crossed(one, b"u")] for one in (1, 0, 1)]
    assert made("a", ["3", b"3", b"\xff"]) == [[crossed(one, b"u")] for one in (b"3", b"3", b"\xff")]
    words, numbers = ft.vocabulary("a", ["x", "y"]), ft.identity("a", 9)
    assert made(words, ["y", "z", None]) == [[crossed(1, b"u")], [crossed(-1, b"u")], []]
    assert made(numbers, [4, -1, None]) == [[crossed(4, b"u")], [], []]


def test_none_and_what_is_masked_is_not_there():
    masked = np.ma.array([1, 2, 1], mask=[False, True, False])
    for column in (ft.identity("k", 3), ft.vocabulary("k", [0, 1, 2])):
        assert ids_of(column, {"k": masked}) == ids_of(column, {"k": [[1, None], None, [None, 1]]}) == [[1], [], [1]]
    one, two = ids_of(ft.hashed("k", 1000), {"k": [["a", None], [None]]})
    assert (one, two) == ([ft.fingerprint64(b"a") % 1000], [])
    for found in (masked.astype(float), [1.0, None, 1.0]):
        np.testing.assert_array_equal(ft.encode([ft.numeric("x")], {"x": found})["x"], [1.0, np.nan, 1.0])
    rows = np.ma.array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    for found in (rows, [*rows]):
        np.testing.assert_array_equal(ft.encode([X], {"x": found})["x"], [[1.0, np.nan], [3.0, 4.0]])


def test_words_of_bytes_that_are_no_text():
    assert ids_of(ft.hashed("k", 1000), {"k": [b"\xff\xfe", "\xe4", b"\xc3\xa4"]}) == [
        [ft.fingerprint64(word) % 1000] for word in (b"\xff\xfe", b"\xc3\xa4", b"\xc3\xa4")]
    assert ids_of(ft.vocabulary("k", [b"\xff", "a"]), {"k": [b"a", b"\xff"]}) == [[1], [0]]


def test_columns_are_sorted_by_name_and_values():
    price, pets = ft.numeric("price"), ft.indicator(PETS)
    data = {"price": [2.0, 3.0], "pets": ["eve", "bob"]}
    first = ft.dense([price, pets], {}, ft.encode([price, pets], data))
    np.testing.assert_array_equal(first, [[0, 1, 0, 2], [1, 0, 0, 3]])
    np.testing.assert_array_equal(ft.dense([pets, price], {}, ft.encode([pets, price], data)), first)
    again = pickle.loads(pickle.dumps(pets))
    assert again == ft.indicator(ft.vocabulary("pets", ["bob", "eve", "sam"]))
    assert hash(again) == hash(pets)


def test_a_vocabulary_of_a_file(tmp_path):
    (tmp_path / "words").write_text("bob\neve\nsam\n", encoding="utf-8")
    assert ft.vocabulary_file("pets", tmp_path / "words") == PETS
    (tmp_path / "marked").write_text("bob\r\neve\r\nsam", encoding="utf-8-sig", newline="")
    assert ft.vocabulary_file("pets", tmp_path / "marked") == PETS


@pytest.mark.parametrize(
    ("combiner", "want"),
    [("mean", [[0.5, 0.5], [1.5, 1.5], [1.0, 1.0]]), ("sum", [[1.0, 1.0], [2.0, 2.0], [1.0, 1.0]]),
     ("sqrtn", [[0.7071067811865475] * 2, [1.7071067811865475] * 2, [1.0, 1.0]])],
)
def test_gradients_of_tables(combiner, want):
    columns = [ft.embedding(IDS, 2, combiner)]
    batch = ft.encode(columns, ROWS)
    grads = sg.grad(lambda tables: np.sum(ft.dense(columns, tables, batch)))({"ids_embedding": TABLE})
    np.testing.assert_allclose(grads["ids_embedding"], want, rtol=1e-15)
    sg.check_grads(lambda tables: np.sum(np.sin(ft.dense(columns, tables, batch))), ({"ids_embedding": TABLE},))


def test_what_is_left_out_is_no_row_of_the_batch():
    """What is behind the last id, negative ids, weights that are not positive: a lazy step leaves other rows alone."""
    columns = [ft.embedding(ft.weighted(ft.identity("ids", 6), "w"), 2)]
    lazy, params = sg.optim.adam(0.1, sparse="lazy"), ft.init(columns, 0)
    state = lazy.init(params)
    step = sg.compile_step(lambda params, batch: np.sum(ft.dense(columns, params, batch) ** 2), lazy)
    (name,) = params
    for ids, weights in (
        ([[0, 1], [2]], [[1, 1], [1]]), ([[3, -1, 5], [4, 0]], [[1, 1, 2], [1, 0]]), ([[-1], []], [[1], []]),
    ):
        batch, before = ft.encode(columns, {"ids": ids, "w": weights}), params[name]
        params, state, _ = step(params, state, batch)
        taken = {k for row, of in zip(ids, weights, strict=True) for k, w in zip(row, of, strict=True) if k >= 0 < w}
        assert step.touched_rows == {name: len(taken)}
        assert {*np.flatnonzero(np.any(params[name] != before, axis=1))} == taken
    params[name][0] = np.nan
    assert np.isfinite(ft.dense(columns, params, ft.encode(columns, {"ids": [[1, 2], []], "w": [[1, 1], []]}))).all()


def test_tables_begin_alike_whatever_columns_there_are():
    words = ft.embedding(ft.hashed("words", 500), 16)
    one, two = ft.init([words], seed=3), ft.init([ft.embedding(IDS, 2), words], seed=3)
    np.testing.assert_array_equal(one["words_embedding"], two["words_embedding"])
    assert sorted(two) == ["ids_embedding", "words_embedding"]
    assert abs(one["words_embedding"].std() - 0.8796 / 4.0) < 5e-3
    assert not np.array_equal(one["words_embedding"], ft.init([words], seed=4)["words_embedding"])


def test_a_network_on_prices_and_words_learns():
    columns = [ft.numeric("price"), ft.embedding(ft.hashed("words", 100), 4)]
    rng = np.random.default_rng(0)
    words = [[f"w{k}" for k in rng.integers(0, 20, size=rng.integers(1, 5))] for _ in range(60)]
    price = rng.normal(size=60)
    y = (price + np.array(["w3" in row or "w7" in row for row in words]) > 0.5).astype(float)
    batch = ft.encode(columns, {"price": price, "words": words})
    params = ft.init(columns, 0) | {"one": nn.init.dense(0, 5, 16), "two": nn.init.dense(1, 16, 1)}

    def logits(params):
        return nn.dense(params["two"], np.tanh(nn.dense(params["one"], ft.dense(columns, params, batch))))[:, 0]

    step = sg.value_and_grad(lambda params: np.mean(nn.sigmoid_cross_entropy(logits(params), y)))
    adam = sg.optim.adam(0.05)
    state = adam.init(params)
    for _ in range(150):
        _, grads = step(params)
        params, state = adam.update(params, grads, state)
    assert np.mean((logits(params) > 0) == (y > 0.5)) == 1.0


def test_a_number_that_several_columns_read_is_encoded_once():
    price = ft.numeric("price")
    columns = [price, ft.bucketized(price, [0.0, 1.0]), ft.indicator(ft.crossed([ft.bucketized(price, [0.5]), "k"], 5))]
    batch = ft.encode(columns, {"price": [0.2, 2.0], "k": ["a", "b"]})
    assert sorted(batch) == ["k_X_price_bucketized", "price"]


TWO_OF_A_NAME: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "words and hashes": (
        [ft.indicator(ft.vocabulary("k", ["b", "a"])), ft.embedding(ft.hashed("k", 10), 2)], {"k": ["a", "b", "c"]}),
    "numbers and words": ([ft.numeric("k"), ft.indicator(ft.vocabulary("k", [10, 20]))], {"k": [20, 10, 30]}),
    "crosses": (
        [ft.indicator(ft.crossed(["a", "b"], 7)), ft.embedding(ft.crossed(["a", "b"], 1000), 2)],
        {"a": ["u", "v"], "b": ["p", "q"]}),
    "weighted": (
        [ft.indicator(ft.weighted(ft.identity("k", 4), "w")), ft.embedding(ft.weighted(ft.hashed("k", 9), "w"), 2)],
        {"k": [[1, 3], [2]], "w": [[1.0, 2.0], [3.0]]}),
    "buckets": (
        [ft.indicator(ft.bucketized(ft.numeric("x"), [0.0])), ft.embedding(ft.bucketized(ft.numeric("x"), [1, 2]), 2)],
        {"x": [0.5, 3.0]}),
}


@pytest.mark.parametrize("name", TWO_OF_A_NAME)
def test_columns_of_one_name_have_ids_of_their_own(name):
    columns, data = TWO_OF_A_NAME[name]
    params, batch = ft.init(columns, 0), ft.encode(columns, data)
    apart = [ft.dense([one], params, ft.encode([one], data)) for one in sorted(columns, key=lambda one: one.name)]
    np.testing.assert_array_equal(ft.dense(columns, params, batch), np.concatenate(apart, axis=1))
    for one in columns:  # a wide part of a model, and a deep one
        np.testing.assert_array_equal(ft.dense([one], params, batch), ft.dense([one], params, ft.encode([one], data)))
    again = pickle.loads(pickle.dumps(columns))
    np.testing.assert_array_equal(ft.dense(again, params, batch), np.concatenate(apart, axis=1))


@pytest.mark.parametrize("column", [X, ft.numeric("n"), ft.bucketized(X, [0, 1]), ft.indicator(PETS),
                                    ft.indicator(ft.bucketized(X, [0, 1])), ft.embedding(WEIGHTED, 2)], ids=str)
def test_no_examples(column):
    data = {"x": [], "n": np.zeros(0), "pets": [], "ids": [], "w": []}
    some = ft.encode([column], {"x": [[1, 2]], "n": [1], "pets": ["bob"], "ids": [1], "w": [1.0]})
    params, none = ft.init([column], 0), ft.encode([column], data)
    width = ft.dense([column], params, some).shape[1]
    assert ft.dense([column], params, none).shape == (0, width)
    assert sg.jit(lambda batch: ft.dense([column], params, batch))(none).shape == (0, width)


# -- refusals

REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "a field": (lambda: ft.encode([X], {"y": [1]}), ArgumentError, "there is no field 'x'; the fields are 'y'"),
    "a shape": (lambda: ft.encode([X], {"x": [[1, 2, 3]]}), ArgumentValueError,
                r"the field 'x' has the shape \(1, 3\)\n  instead: \(examples, 2\)"),
    "examples": (lambda: ft.encode([X, ft.numeric("y")], {"x": [[1, 2]], "y": [1, 2]}), ArgumentValueError,
                 "columns differ in how many examples they have: 'x' 1, 'y' 2"),
    "examples of a cross": (lambda: ft.encode([ft.indicator(ft.crossed(["a", "b"], 5))], {"a": ["u"], "b": ["v", "w"]}),
                            ArgumentValueError, r"the fields of 'a_X_b' have \[1, 2\] examples"),
    "an id": (lambda: ft.encode([ft.indicator(IDS)], {"ids": [1, 3]}), IndexOutOfBounds,
              "3 in the field 'ids' is none of 3 ids"),
    "weights": (lambda: ft.encode([ft.indicator(WEIGHTED)], {"ids": [[1, 2]], "w": [[1.0]]}), ArgumentValueError,
                "the field 'w' has 1 weights in example 0, and 'ids' has 2 values"),
    "weights of other examples": (
        lambda: ft.encode([ft.indicator(WEIGHTED)], {"ids": [[1, 2], [0]], "w": [[1.0], [1.0, 2.0]]}),
        ArgumentValueError, "the field 'w' has 1 weights in example 0, and 'ids' has 2 values"),
    "weights of more": (lambda: ft.encode([ft.indicator(WEIGHTED)], {"ids": [1], "w": [1.0, 2.0]}), ArgumentValueError,
                        "'ids_weighted_by_w' 1, 'ids_weighted_by_w:weights' 2"),
    "weights of words": (lambda: ft.encode([ft.indicator(WEIGHTED)], {"ids": [1], "w": ["a"]}), ArgumentValueError,
                         "the field 'w' holds other than numbers"),
    "words for numbers": (lambda: ft.encode([X], {"x": [["a", "b"]]}), ArgumentValueError, "the field 'x' holds other"),
    "a word for an id": (lambda: ft.encode([ft.indicator(IDS)], {"ids": ["a"]}), IndexOutOfBounds, "'a' in the field"),
    "no number for an id": (lambda: ft.encode([ft.indicator(IDS)], {"ids": [np.nan]}), IndexOutOfBounds, "nan in the"),
    "a text": (lambda: ft.encode([ft.indicator(ft.vocabulary("k", ["a"]))], {"k": "ab"}), ArgumentError,
               "the field 'k' is 'ab'(.|\n)*a list with what each example has"),
    "no field": (lambda: ft.encode([ft.indicator(IDS)], {"ids": None}), ArgumentError,
                 "the field 'ids' is None\n  instead: a list"),
    "one number": (lambda: ft.encode([X], {"x": np.int64(5)}), ArgumentError,
                   r"the field 'x' is np.int64\(5\)\n  instead: a list"),
    "a set": (lambda: ft.encode([ft.indicator(IDS)], {"ids": {1, 2}}), ArgumentError, "the field 'ids' is {1, 2}\n"),
    "lists in lists": (lambda: ft.encode([ft.indicator(PETS)], {"pets": ["bob", [["eve"]]]}), ArgumentError,
                       r"the field 'pets' holds \[\['eve'\]\] in example 1\n  instead: a value, or a list of values"),
    "three axes": (lambda: ft.encode([ft.indicator(ft.hashed("k", 9))], {"k": np.full((1, 2, 2), "a")}), ArgumentError,
                   r"the field 'k' holds \[\['a', 'a'\], \['a', 'a'\]\] in example 0"),
    "a set in a list": (lambda: ft.encode([ft.indicator(ft.crossed(["k", "b"], 9))], {"k": [{"a"}], "b": ["c"]}),
                        ArgumentError, "the field 'k' holds {'a'} in example 0"),
    "lists of weights": (lambda: ft.encode([ft.indicator(WEIGHTED)], {"ids": [1], "w": [[[1.0]]]}), ArgumentError,
                         r"the field 'w' holds \[\[1.0\]\] in example 0"),
    "half a character": (
        lambda: ft.encode([ft.indicator(ft.hashed("k", 9))], {"k": ["a", ["b", "\ud800"]]}), ArgumentValueError,
        r"the field 'k' holds \['b', '\\ud800'\] in example 1, which has no bytes in UTF-8\n.*surrogatepass"),
    "one column": (lambda: ft.encode(X, {"x": [[1, 2]]}), ArgumentError, "is one column(.|\n)*a list"),  # type: ignore[arg-type]
    "a seed": (lambda: ft.init([ft.embedding(IDS, 2)], -1), ArgumentValueError, r"init\(seed=-1\)"),
    "no table": (lambda: ft.dense([ft.embedding(IDS, 2)], {}, {"ids": np.array([[0]])}), ArgumentError,
                 r"the table 'ids_embedding' is to have the shape \(3, 2\); there is of \[\] none"),
    "another table": (
        lambda: ft.dense([ft.embedding(IDS, 2)], {"ids_embedding": np.ones((2, 2))}, {"ids": np.array([[0]])}),
        ArgumentError, r"the table 'ids_embedding' is to have the shape \(3, 2\); there is one of \(2, 2\)"),
    "boundaries": (lambda: ft.bucketized(X, [1, 1]), ArgumentValueError, "a numeric column, and numbers that rise"),
    "boundaries that are none": (lambda: ft.bucketized(X, [0, np.nan]), ArgumentValueError, "numbers that rise"),
    "a boundary that is none": (lambda: ft.bucketized(X, [np.nan]), ArgumentValueError, "numbers that rise"),
    "words": (lambda: ft.vocabulary("k", ["a", "a"]), ArgumentValueError, "the vocabulary of 'k' is empty"),
    "a cross of hashes": (lambda: ft.crossed(["a", ft.hashed("b", 3)], 5), ArgumentValueError,
                          r"crossed\(\[\.\.\.\]\) of Categorical\(name='b', kind='hashed'(.|\n)*fields, vocabularies"),
    "a cross of numbers": (lambda: ft.crossed([X, "b"], 5), ArgumentValueError,  # type: ignore[list-item]
                           r"of Numeric\(name='x', shape=\(2,\)\)(.|\n)*bucketized columns"),
    "a cross of counts": (lambda: ft.crossed([ft.indicator(IDS), "b"], 5), ArgumentValueError,  # type: ignore[list-item]
                          r"of Indicator\(name='ids_indicator'(.|\n)*bucketized columns"),
    "a cross of letters": (lambda: ft.crossed("ab", 5), ArgumentValueError, r"crossed\('ab'\)(.|\n)*a list of two"),
    "a cross of one": (lambda: ft.crossed(["a"], 5), ArgumentValueError, r"crossed\(\['a'\]\)(.|\n)*a list of two"),
    "no id at all": (lambda: ft.encode([ft.indicator(IDS)], {"ids": [-np.inf]}), IndexOutOfBounds, "-inf in the field"),
    "another batch": (lambda: ft.dense([X], {}, {"y": np.ones(2)}), ArgumentError,
                      r"the batch holds nothing for 'x', but 'y'(.|\n)*encode\(columns, data\)"),
    "a combiner": (lambda: ft.embedding(IDS, 2, "max"), ArgumentValueError, r"embedding\(combiner='max'\)"),  # type: ignore[arg-type]
    "a size": (lambda: ft.hashed("k", 0), ArgumentValueError, "a column of 0 ids"),
    "no categories": (lambda: ft.embedding(X, 2), ArgumentError, "embedding takes a categorical column, not Num"),  # type: ignore[arg-type]
    "no numbers": (lambda: ft.encode([IDS], {"ids": [1]}), ArgumentError, "has no numbers of its own"),
    "one name": (lambda: ft.encode([X, X], {"x": [[1, 2]]}), ArgumentValueError, "two columns are called 'x'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_the_field(case):
    call, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_numbers_tables_and_all_that_is_made_of_them_have_one_type(kind):
    ids = ft.identity("k", 3)
    columns = [ft.numeric("x"), ft.indicator(ft.weighted(ids, "w")), ft.embedding(ids, 2, "sqrtn")]
    data = {"x": [5.0, 20.0, 0.1], "k": [[0, 1], [2], []], "w": [[0.5, 1.0], [2.0], []]}
    batch, tables = ft.encode(columns, data, kind), ft.init(columns, 0, kind)
    assert {array.dtype for array in [*batch.values(), *tables.values()]} == {np.dtype(np.int64), np.dtype(kind)}
    wide = ft.dense(columns, ft.init(columns, 0), ft.encode(columns, data))
    for found in (ft.dense(columns, tables, batch), sg.jit(lambda t, b: ft.dense(columns, t, b))(tables, batch)):
        assert found.dtype == kind
        np.testing.assert_allclose(found, wide, rtol=1e-6)
    slopes = sg.grad(lambda t: np.sum(ft.dense(columns, t, batch) ** 2))(tables)
    assert slopes["k_embedding"].dtype == kind


def test_numbers_of_other_types_are_refused():
    columns = [ft.embedding(ft.identity("k", 3), 2)]
    with pytest.raises(ArgumentValueError, match=r"init\(dtype=<class 'int'>\)(.|\n)*np.float32 or np.float64"):
        ft.init(columns, 0, int)
    with pytest.raises(ArgumentValueError, match=r"encode\(dtype='f2'\)"):
        ft.encode(columns, {"k": [[1]]}, "f2")
