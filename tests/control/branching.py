"""Random programs with Python's own conditions: ifs, loops that end early, whiles, states, modes within.

A condition stands between ``«`` and ``»``: NumPy's side of a test notes there which way it goes, and how far the sides
of each comparison are apart; symgrad's reads the source without them. So a path of NumPy's is known, and for each of
its conditions arguments are searched for that leave it there.
"""

from __future__ import annotations

import ast
import linecache
import re
from contextlib import suppress
from functools import cache
from itertools import combinations, pairwise
from random import Random
from typing import Any, NamedTuple

import numpy as np

import symgrad as sg

UNARY = ("np.sin({})", "0.7 * {}", "np.tanh({}) + 0.2", "np.cos({} * 1.5)", "{} / (1.0 + {} * {})", "-{}", "abs({})")
BINARY = ("0.6 * {} - 0.5 * {}", "np.tanh({} * {})", "np.sin({} + {})", "min({}, {})", "max({}, {}, 0.1)",
          "sorted([{}, {}])[0]", "np.where({} > {}, 0.3, 0.8)", "{} * 0.5 + np.cos({})")
VECTORS = ("np.sin({v})", "0.5 * {v} + {s}", "{v}[::-1] * 0.7", "np.tanh({v} * {v2})", "np.maximum({v}, {s})",
           "np.cumsum({v}) * 0.4", "A[{k}] * {s}", "np.array([{s}, {s2}, 0.3])", "0.8 * {v} - 0.3 * {v2}")
SCALARS = ("np.sum({v}) * 0.4", "{v}[{j}]", "np.max({v})", "{v} @ {v2} * 0.5", "x[{j}]", "np.prod({v})", "A[{k}, {j}]")
CONDITIONS = (
    "{s} > {c}", "{s} < {s2}", "not {s} > {c}", "{s} >= {c} and {s2} < 0.4", "{s} > 0.5 or {s2} > {c}",
    "-0.3 < {s} < 0.5",
    "np.sum({v}) > {c}", "np.any({v} > 0.7)", "np.all({v} < 0.6)", "np.max({v}) > {s}", "{v}[0] > {v2}[{j}]",
    "n > 2", "n % 2 == 0", "i[{j}] == 1", "i[{j}] in (0, 2)", "{s} > 0.2 and not ({s2} > {c} or n == 3)",
    "abs({s}) <= 0.5", "min({s}, {s2}) < {c}", "i[{j}]", "({s} > 0) == ({s2} > 0)", "np.argmax({v}) == {j}",
    "{v}[{j}] * {s} > {c} > -0.4", "np.sum({v} > 0.1) >= 2", "{s} != {s}",
)
INNER = (  # a function of one number, and its derivative
    ("u * u * 0.5 if «u > {c}» else np.sin(u)", "u if u > {c} else np.cos(u)"),
    ("np.exp(-u) if «abs(u) < 0.6» else 0.3 * u", "-np.exp(-u) if abs(u) < 0.6 else 0.3 + 0 * u"),
    ("max(u * u, u)", "2 * u if u * u > u else 1 + 0 * u"),
)
CHANGES = (  # of plain numbers: a counter, a flag and a float, {n}, {e} and {w}
    "{n} = {n} + 1", "{n} += 2", "{n} = ({n} + 2) % 5", "{n} = {n} - 1", "{n} = -{n} // 2", "{n} = {n} * 3 % 7",
    "{n} = {n} + (1 if «{v} > {c}» else -1)", "{n} = ({n} + (2 if «{v} > {c}» else -1)) % 5",
    "{n} = {n} + {e}", "{n} = {n} ** 2 % 11", "{n} = 1 << ({n} % 4)", "{n} = {n} & 3", "{n} = abs({n} - 2)",
    "{n} = {e} + {e}", "{n}, {w} = 0, {w} + 0.25", "{n} = int({n} > 1)", "{n} = divmod({n}, 3)[0]",
    "{e} = not {e}", "{e} = True", "{e} = False", "{e} = {n} > 2", "{e} = {e} ^ True", "{e} = {e} or {n} > 1",
    "{e}, {n} = {n} == 1, {n} + 1", "{w} = 0.5 * {w}", "{w} = -{w}", "{w} = 0.0", "{w} = ({w} + 1) / 2",
    "{w} = {w} + {n}", "{w} = {v}", "{w} = 1", "{w} = {w} % 0.7 - 0.1", "{w} = 0.5 ** {n}", "{w} = 1 if {e} else -0.5",
)
ASKS = ("{v} > {c}", "{v} < {c}", "{n} > 2", "{e}", "not {e}", "{v} > {w}", "{v} * {w} > {c}", "{n} % 2",
        "{e} and {v} > {c}", "{v} > {c} or {n} > 3", "{n} == 1 and {v} < 0.4", "0 <= {n} < 3", "a > {c} + 0.2 * {n}")
USES = ("a = np.sin(a + 0.1 * {n})", "a = 0.9 * a + {v} * ({e} + 1)", "b = 0.9 * b + {w} * {v}", "a = a + x[{n} % 4]",
        "b = 0.5 * b + {v} * ({n} // 2 - {n} % 3)", "b = b + 0.1 * np.copysign({v}, {w})", "a = a + {n} / 7",
        "a = 0.5 * a + ({v} if {e} else 0.3 * {w})", "a = 0.5 * a + {v} * ({e} + ({n} > 1))", "b = b + 0.01 * {n} ** 2",
        "a = 0.7 * a - 0.1 * (-{e}) + 0.1 * ({e} * {e})", "many[0] = 0.5 * many[0] + {w} * {v}")
AFTER = ("a = a + 0.01 * {n}", "b = b * (1 + {e})", "p = p + {w}", "if «{n} > 3»: a = a * 0.5", "a = a + x[{n} % 4]",
         "a = a + 1e-3 * ({n} ** 9 % 101)", "if «{e}»: b = b + 0.1 * {w}",
         "a = a + 1e-17 * ({n} * 10 ** 17)", "b = b + 0.1 * np.copysign(a, {w})", "a = a + 0.01 * ({e} + {e})", "pass")
HIDDEN = (  # what rounds change that is no variable of the loop's: how it begins, a change of it, and what it is
    ("global hidden\nhidden = 0", "hidden = hidden + 1", "hidden"),
    ("global hidden\nhidden = x[0]", "hidden = 0.5 * hidden + v", "hidden"),
    ("box = Box()\nbox.n = 0", "box.n = box.n + 1", "box.n"),
    ("box = Box()\nbox.h = 0.0 * x[0]", "box.h = 0.7 * box.h + v", "box.h"),
    ("box = {'n': 0, 'h': x[1]}", "box['n'] += 1; box['h'] = box['h'] * 0.5 + v", "(box['n'] + box['h'])"),
    ("box = [1, 0.5]", "box[0] = box[0] % 4 + 1; box[1] = v", "box[0] * box[1]"),
    ("turns = 0\ndef turn():\n    nonlocal turns\n    turns += 1", "turn()", "turns"),
    ("turns = 0.0 * x[0]\ndef turn(u):\n    nonlocal turns\n    turns = turns * 0.5 + u", "turn(v)", "turns"),
    ("def turn(u): turn.n = turn.n + u\nturn.n = 0.0", "turn(v)", "turn.n"),
    ("def turn(u, seen=[]):\n    seen.append(u)\n    return sum(seen)", "h = h + 0.01 * turn(v)", "turn(0.0)"),
    ("ahead = iter(range(99))", "h = h + 0.01 * next(ahead)", "next(ahead)"),
    ("n = 0\nglobals()['hidden'] = 0", "globals()['hidden'] += 1", "globals()['hidden']"),
    ("word = 'up'", "word = 'down' if word == 'up' else 'up'", "(2.0 if word == 'up' else -0.5)"),
    ("seen = set()", "seen.add(k % 5)", "len(seen)"), *[("pass", "pass", "0.0")] * 4,
)
EXITS = ("if «h > {c} + 2.0»: break", "if «v > 1.1» and «h > {c}»: last = v * k; break",
         "if «h > 2.5»: return h * k * 0.1 + last", "if k > 6 and «h > {c}»: break",
         "if «h * h > 4.0»: k = k * 2; break", "if «v < -1.2 or h > 3.0»: break",
         "if «far(h)»: break", "if «v > {c} + 1.0»: h = 0.1 * v; break", "if k == 9: break", "if not «v < 1.4»: break")


NUMBERS = (  # loops over numbers v, of which k counts the rounds
    "for k, v in enumerate(np.concatenate([x, A.ravel()])):", "for k in range(15):\n    v = A.ravel()[k]",
    "for k, v in zip(range(n + 9), np.concatenate([x, A.ravel()])):", "for k, v in enumerate(A.ravel()):",
    "for k in reversed(range(15)):\n    v = A[k // 3, k % 3]",
)
PLAINLY = (  # what plain values decide in a round
    "if k % 3 == 0: h = 0.7 * h", "if k % 2 and «v > 0.3»: h = h - 0.2\nelif k % 2: last = abs(v)",
    "if k == 5: last = h", "if k < 7: h = h + 0.1 * v\nelse: h = h - 0.1 * v",
    "for t in range(k % 3): h = h * 0.9 + x[t]",
    "if 'abac'[k % 4] == 'a': h = h + 0.2 * v", "if k % 4 == 1: many2.append(h)", "if k == 14: h = 2.0 * h",
    "if k % 2 == 0 and «h > 1.0»: h = 0.5 * h", "if k == 3: x3 = h * h\nif k > 8: h = h + 0.1 * x3",
    "if k > 3 and «x[1] > 0.3»: h = 0.8 * h + 0.1",
    "if k > 4:\n    if «x[2] > 0.0»: h = 0.8 * h\n    else: h = h + 0.3",
)
TIMES = (  # what a `while` in the rounds of a `for` does to y, which falls, and to z and o, and what it leaves
    ("if «y * v > 0.4»: y = y * 0.5\nelif «y > h»: y = y * 0.8 - 0.01\nelse: y = y - 0.07", "y"),
    ("if «y > 1.0»:\n    if «v > 0.0»: y = y * 0.5\n    else: y, z = y * 0.4, z + y\nelse: y = y * 0.7", "(y + z)"),
    ("y = y * 0.7\nif «y * v > 0.4»: continue\ny, z = y - 0.03 * v * v, z * 0.5", "y * z"),
    ("z = y\nwhile «z > 0.5»: z = z * 0.4 if «z * h > 0.2» else z * 0.7\ny = y * 0.5 * (1.0 + z)", "(y - z)"),
    ("if «o > 0.6»: z = z + y\no = y\ny = y * 0.6\nif «y > 0.6»: z = z * 0.5", "(z + o)"),
    ("y = y * 0.6 if «y > 1.0» and «y * h > 0.3» else y * 0.8 - 0.01\nif «y > z»: z = 0.5 * y + 0.1 * z", "z"),
    ("y = y * 0.8 if «h > 0.2» else y * 0.5\nif «v > 0.1» or «y * v < -0.4»: h = 0.9 * h", "y"),
    ("if «y * v > 0.7»: break\ny = y * 0.7 - (0.02 if «y > h» else 0.0)", "y"),
    ("y = clipped(y, v)", "y"), ("if «y > z»: y, z = z, y * 0.6\nelse: y = y * 0.5", "(y - z)"),
    ("for t in range(2): y = y * 0.8 if «y * v > 0.3» else y * 0.7", "y"),
    ("y = y * 0.7\nif «y > 0.8»: many2.append(y)\nelse: row[k] = row[k] + y", "y"),
    ("try:\n    if «y * v > 0.4»: raise KeyError\n    y = y * 0.5\nexcept KeyError: y = y * 0.8 - 0.01", "y"),
)
TURNS = (  # a `while` in the rounds of a `for`, and what it leaves, with constants {c} from 0.2 on
    ("y = abs(v) + 1.0\nwhile «y > {c}»: y = y * 0.5", "y"),
    ("y, t = abs(v) * 2.0, 0\nwhile «y > {c}»: y, t = y * 0.6, t + 1", "y * (t + 1)"),
    ("y, t = 1.0, 0\nwhile «y * abs(h - v) > {c}» and t < 6: y, t = y * 0.5, t + 1", "y + 0.1 * t"),
    ("y = abs(v) + 1.0\nwhile True:\n    y = y * 0.6 - 0.01 * v * v\n    if «y < {c}»: break\n    y = y - 0.02", "y"),
    ("y = abs(v) + h * h\nwhile «y > {c}»:\n    if «y > 1.5»: y = y * 0.4\n    else: y = y - 0.15", "min(y, 9.0)"),
    ("y = abs(v) + 1.0\nwhile «y > {c}»:\n    y = y * 0.5\n    many2.append(y)", "y"),
    ("y, went = v, False\nwhile «y > {c}»: y, went = y * 0.5, True", "(y if went else -0.3 * y)"),
    ("y = abs(v) + 1.0\nwhile «y > {c}»:\n    y = y * 0.5\n    last = v", "y"),
    ("y, t = abs(v) + 1.0, 0\nwhile «y > {c}»:\n    row[t] = row[t] + y\n    y, t = y * 0.5, t + 1", "y"),
    ("y = abs(x[0]) + 2.0\nwhile «y > {c}»: y = y * 0.5", "y * v"),
    ("y, t = 0.0, 0\nwhile «y < {c}»: y, t = y + abs(x[t % 4]) + 0.05, t + 1", "y * t"),
    ("y = halved(abs(v) + 1.0)", "y"), ("y = halved(abs(h - v))", "y * v"),
    ("y = abs(v) + 1.0\nwhile «y > {c}»:\n    z = y\n    while «z > 0.5»: z = z * 0.4\n    y = y * 0.5 * (1 + z)", "y"),
    ("y = abs(v)\nif «v > 0.2»:\n    y = y + 1\n    while «y > {c}»: y = y * 0.6", "y"),
    ("y = abs(v) + 1.0\nwhile «y > {c}»: y = y * 0.5\nelse: y = y + 0.2", "y"),
    ("t = 0\nwhile «last > {c}»: last, t = last * 0.5, t + 1\ny = t", "y * v"),
    ("y = abs(v) + 1.0\nwhile «y > {c}»:\n    y = y * 0.5\n    box.n = box.n + 1", "y"),
    ("y = abs(v) + 1.0\nwhile «y > {c}»:\n    y = y * 0.5\n    if «y * v > 0.4»: return y * h + k", "y"),
    *[("y, z, o = abs(v) + 1.0, 0.1, v\nwhile «y > {c}»:\n    " + text.replace("\n", "\n    "), y)
      for text, y in TIMES],
)

HABITS = (  # what a loop begins with, a round, and what is read behind it; names that end in _ are its own
    (
        "d_ = {'u': [0.0, x[0]], 'n': [0]}",
        "d_['u'][0], d_['n'][0] = 0.7 * d_['u'][0] + v, d_['n'][0] + 1\nif «v > {c}»: d_['u'][1] = d_['u'][0]",
        "(d_['u'][1] + 0.1 * d_['n'][0])",
    ),
    ("s_, t_ = x[0], x[1]", "s_, t_ = t_, 0.5 * s_ + v\nif «s_ > {c}»: s_, t_ = t_, s_", "(s_ - 0.3 * t_)"),
    (
        "s_, t_, w_ = x[0], x[1], 0",
        "if «v > {c}»: s_, t_, w_ = w_, s_, t_\ns_ = 0.9 * s_ + 0.1 * v",
        "(s_ + 2 * t_ + 3 * w_)",
    ),
    (
        "t_ = 0.0\ndef f_(u):\n    nonlocal t_\n    t_ = 0.5 * t_ + u\n    return t_ if «t_ > {c}» else 0.1 * u",
        "h = 0.5 * h + f_(v)",
        "t_",
    ),
    (
        "def f_(u, rows):\n    for r in rows:\n        if «r > u»: return r - u\n    return 0.25",
        "h = 0.8 * h + 0.2 * f_(h, x)",
        "f_(0.1, p)",
    ),
    (
        (
            "def f_(u):\n    for t in range(6):\n        u = 0.6 * u\n        if «abs(u) < {p}»: return u + t\n"
            "    else: return -u"
        ),
        "h = 0.8 * h + 0.2 * f_(v)",
        "f_(h)",
    ),
    (
        "def f_(rows):\n    for r in rows:\n        if «r > {c}»: yield r * 0.5",
        "h = 0.9 * h + sum(f_(x[:3])) * 0.1 * v",
        "sum(f_(p))",
    ),
    (
        "u_ = 0.0\ndef f_(rows):\n    t = 0.0\n    for r in rows:\n        t = t + abs(r)\n        yield t",
        "for u_ in f_(x):\n    if «u_ > {p} + 1.0»: break\n    h = 0.8 * h + 0.1 * u_",
        "u_",
    ),
    (
        "s_ = 0.0",
        (
            "try:\n    if «v > {p}»: raise KeyError\n    h = 0.8 * h + v\nexcept KeyError: s_ = s_ + 1.0\n"
            "finally: s_ = s_ + 0.1 * v"
        ),
        "s_",
    ),
    ("s_ = 0.0", "try:\n    if «v > {c}»: continue\n    h = 0.9 * h + v\nfinally: s_ = s_ + 0.1 * h", "s_"),
    ("s_ = 1.0", "for u in x[:3]:\n    if «u * v > {c}»:\n        s_ = u\n        break\nelse: s_ = 0.5 * s_", "s_"),
    (
        "s_ = 0.5",
        (
            "s_, t = abs(v) + 1.0, 0\nwhile True:\n    s_ = 0.7 * s_\n    if «s_ < {p}»: break\n    t = t + 1\n"
            "    if t > 3: break\n    if «s_ * h > 1.0»:\n        s_ = -s_\n        break"
        ),
        "s_",
    ),
    ("s_ = 0.0", "if «-0.6 < v <= h + 0.5 < 2.0»: s_ = s_ + v", "s_"),
    ("s_ = 0.0", "if «(u_ := v * v - h) > {c}»: s_ = s_ + u_\nelse: h = h - 0.1 * u_", "(s_ + 0.1 * u_)"),
    (
        "s_ = 0.0",
        "for (t, u), r in zip(enumerate(x), reversed(A[k % 5])):\n    if «u > r»: s_ = s_ + 0.1 * t * r",
        "s_",
    ),
    (
        "def f_(u, n): return u if n == 0 else f_(0.5 * u + (0.1 if «u > {c}» else -0.2), n - 1)",
        "h = f_(h + v, 3)",
        "f_(h, k % 4)",
    ),
    ("def f_(u): return u if «abs(u) < {p}» else f_(0.5 * u)", "h = 0.7 * h + f_(v)", "f_(h + 3.0)"),
    ("s_, w_ = -9.0, -1", "if «v > s_»: s_, w_ = v, k", "(s_ + 0.1 * w_)"),
    ("s_ = None", "if s_ is None or «v > s_»: s_ = v", "(0.0 if s_ is None else s_)"),
    ("s_ = None", "s_ = v if s_ is None else min(s_, v)", "(0.5 if s_ is None else s_)"),
    ("d_ = {}", "d_[k % 3] = d_.get(k % 3, 0.0) + v", "sum(d_.values())"),
    ("d_ = {}", "if «v > {c}»: d_[k % 3] = v\nelse: d_.setdefault(k % 2, h)", "(sum(d_.values()) + len(d_))"),
    ("m_ = [0.0] * 4", "m_[k % 4] = m_[k % 4] * 0.5 + v", "(m_[0] - m_[3])"),
    ("m_ = [x[0], x[1]]", "if «v > {c}»: m_.reverse()\nm_[0] = 0.5 * m_[0] + v", "m_[1]"),
    ("m_ = [x[0]]", "if «v > {c}»: m_.append(v)\nelif len(m_) > 1: h = h + m_.pop()", "(sum(m_) + len(m_))"),
    ("m_ = [x[0], 0.5, 0.0]", "m_ = [v, *m_[:2]]\nif «m_[0] > m_[1] > m_[2]»: h = h + m_[2]", "m_[1]"),
    ("g_ = True", "if g_ and «h > {c}»: g_ = False\nh = 0.9 * h + (v if g_ else -0.5 * v)", "h * g_"),
    ("s_ = 0.0", "s_ += v; s_ -= 0.1 * (k % 2); s_ *= 0.9 if «v > {c}» else 1.1", "s_"),
    ("s_, t_ = 0.0, np.zeros(3)", "t_[k % 3] += v\nt_ = np.roll(t_, 1)\nif «t_[0] > {c}»: s_ = t_[1]", "(s_ + t_[2])"),
    ("t_ = np.zeros(3)\no_ = t_", "t_ += v\nif «t_[0] > {c}»: t_ = t_ * 0.5", "(t_[0] + o_[2])"),
    (
        "m_ = [[0.0, 1.0], [x[1], 0.5]]",
        "m_[k % 2][0], m_[0][1] = 0.5 * m_[0][0] + v, m_[1][0] * 0.9",
        "(m_[0][1] + m_[1][0])",
    ),
    ("m_ = [[0.0] * 2] * 2", "m_[k % 2][0] = 0.5 * m_[0][0] + v", "(m_[1][0] - m_[0][1])"),
    ("s_ = 0.0", "s_ = s_ + sum([u * v for u in x if «u > {c}»]) * 0.1", "s_"),
    ("s_ = 0.0", "s_ = s_ + (0.3 if any([«u * v > {c}» for u in x[:3]]) else v)", "s_"),
    ("s_ = 0.0", "s_ = 0.8 * s_ + max([u * v for u in x]) - min(v, h, 0.3)", "s_"),
    (
        "s_ = 0",
        "match k % 3:\n    case 0: h = 0.9 * h + v\n    case 1 if «v > {c}»: h = -h\n    case _: s_ = s_ + 1",
        "s_",
    ),
    ("s_ = (0.0, x[1])", "s_ = (s_[1], 0.5 * s_[0] + v) if «v > {c}» else (*s_[:1], v)", "(s_[0] - s_[1])"),
    ("f_ = lambda u, t: u + t * 0.5", "h = f_(h, v) * 0.6 if «v > {c}» else f_(v, h) * 0.5", "f_(h, 1.0)"),
    (
        "fs_ = [lambda u: 0.5 * u, np.sin, abs]",
        "h = fs_[k % 3](h) + 0.1 * v\nif «h > {c}»: fs_ = fs_[1:] + fs_[:1]",
        "fs_[0](h)",
    ),
    ("s_ = v_ = 0.0", "v_, s_ = v, s_ + v_ * v\nif «v_ * s_ < {c}»: s_ = -s_", "(s_ + v_)"),
    ("t_ = 0", "t_ = t_ + 1 if «v > {c}» else 0\nif t_ == 2: h = 0.5 * h", "t_"),
    ("t_, m_ = 0, 0", "t_ = t_ + 1 if «v > {c}» else 0\nm_ = max(m_, t_)", "m_"),
    ("o_ = x[3]", "if «o_ * v < 0»: h = h + abs(o_ - v)\no_ = v", "o_"),
    (
        "def f_(u, d=[0.0]):\n    d[0] = 0.5 * d[0] + u\n    return d[0]",
        "h = 0.5 * h + f_(v) if «v > {c}» else 0.9 * h",
        "f_(0.1)",
    ),
    (
        "s_ = 0.0",
        "r = iter(x)\nwhile True:\n    u = next(r, 9.0)\n    if «u > {c}»: break\n    s_ = s_ + 0.1 * u",
        "s_",
    ),
    ("t_ = 0", "while «t_ < 4» and «x[t_] * v > {c}»: t_ = t_ + 1\nt_ = t_ % 3", "t_"),
    (
        "s_ = x[0]",
        "for t in range(k % 4):\n    for u in range(t):\n        s_ = np.sin(s_ + 0.1 * u)\n    if «s_ > {c}»: break",
        "s_",
    ),
    ("s_ = 0.0", "del s_\ns_ = v * h if «v > {c}» else v", "s_"),
    ("def f_(u):\n    if «u > {c}»: return u, 1.0\n    return 0.5 * u, -1.0", "h, t_ = f_(0.7 * h + v)", "t_"),
    ("s_ = 0.0", "s_ = s_ + np.where(v > 0, v, 0.1) if not «h > {c}» else s_ * 0.5", "s_"),
    (
        "t_ = x[:2]",
        "if «np.sum(t_) > 0.3»: h = h + 0.1 * v\nt_ = np.array([v, h])\nif «np.sum(t_) > 0.3»: h = 0.8 * h", "t_[1]",
    ),
    (
        "t_, s_ = A[0], 0.0\nif «np.sum(t_) > 0.3»: s_ = 1.0",
        "if «v > {c}» and «np.sum(t_) > 0.3»: s_ = s_ + v\nt_ = A[k % 5]\nif «np.sum(t_) > 0.3»: s_ = np.sin(s_)", "s_",
    ),
)


class Box:
    """Has attributes."""


RAISED = (ValueError, AssertionError, KeyError, IndexError, UnboundLocalError)



class WayError(Exception):
    """A program of NumPy's that asks too much."""


class Branching(NamedTuple):
    """A program with conditions, as text.

    Attributes:
        text: it defines `program`, with marks around conditions.
        draws: of its arguments.
    """

    text: str
    seed: int

    def compiled_from(self) -> Any:
        """Define the program as a user has it, with lines that a trace can name."""
        text, name = self.text.replace("«", "(").replace("»", ")"), f"<random branches {self.seed}>"
        linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
        return _defined(compile(text, name, "exec"), {
            "Box": Box,
            "jit": sg.jit, "checkpoint": sg.checkpoint, "slope_of": lambda f, _: sg.grad(f),
            "rows_of": lambda f, rows, y: sg.vmap(f, in_axes=(0, None))(rows, y),
            "scan_of": lambda f, start, rows: sg.scan(lambda h, r: (f(h, r), None), start, rows)[0],
        })

    def numpys(self, log: list[Any], gaps: list[tuple[int, float]] | None = None) -> Any:
        """Define the program for NumPy, which notes where its conditions go, and how far they are from elsewhere."""
        def note(value: Any) -> Any:
            log.append(bool(value) if isinstance(value, (bool, np.bool_)) else value)
            if len(log) > 1500:
                raise WayError
            return value

        def near(value: Any, *apart: Any) -> Any:
            if gaps is not None:
                gaps.extend([(len(log), float(gap)) for each in apart for gap in np.ravel(each)])
            return value

        def order(values: Any) -> list[Any]:
            if gaps is not None:
                near(None, *[a - b for a, b in combinations(values, 2)])
            return [values[k] for k in note(tuple(sorted(range(len(values)), key=values.__getitem__)))]

        def several(values: Any) -> Any:
            return values if len(values) > 1 else values[0] or min(values[0])  # Python refuses none

        def scanned(f: Any, start: Any, rows: Any) -> Any:
            for row in rows:
                start = f(start, row)
            return start

        return _defined(_noting(self.text), {
            "Box": Box,
            "jit": lambda f: f, "checkpoint": lambda f: f, "slope_of": lambda _, g: g, "note": note, "near": near,
            "rows_of": lambda f, rows, y: np.array([f(row, y) for row in rows]), "scan_of": scanned,
            "min": lambda *values: order(several(values))[0],
            "max": lambda *values: order([-v for v in several(values)])[0] * -1.0,
            "sorted": order,
        })

    def args(self, rng: np.random.Generator) -> tuple[Any, ...]:
        """Draw arguments."""
        scale = rng.choice([0.3, 1.0, 1.0, 2.0])
        return (rng.normal(size=4) * scale, rng.normal(size=(5, 3)) * scale, int(rng.integers(0, 6)),
                rng.integers(0, 4, 4))


def _defined(code: Any, names: dict[str, Any]) -> Any:
    space = {"np": np, **names}
    exec(code, space)
    return space["program"]


class _Apart(ast.NodeTransformer):
    """Has comparisons say how far their sides are apart."""

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if not all(isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for op in node.ops):
            return node
        apart = [ast.BinOp(a, ast.Sub(), b) for a, b in pairwise([node.left, *node.comparators])]
        return ast.Call(ast.Name("near", ast.Load()), [node, *apart], [])


@cache
def _noting(text: str) -> Any:
    tree = _Apart().visit(ast.parse(text.replace("«", "note(").replace("»", ")")))
    return compile(ast.fix_missing_locations(tree), "<noting>", "exec")


class _Writer:
    """A program while it is written."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.count, self.size, self.cost = 0, 0, 1
        self.within = rng.random() < 0.5  # functions within: what they share is no variable of the loop's alone

    def expression(self, text: str, s: list[str], v: list[str]) -> str:
        """Fill a form: ``{}`` and ``{s}`` are numbers, ``{v}`` arrays, ``{c}`` constants, ``{j}``, ``{k}`` indices."""
        rng = self.rng
        while "{}" in text:
            text = text.replace("{}", rng.choice(s), 1)
        for word, choice in (("{s}", s), ("{s2}", s), ("{v}", v), ("{v2}", v)):
            while word in text:
                text = text.replace(word, rng.choice(choice), 1)
        return (text.replace("{c}", str(round(rng.uniform(-0.6, 0.8), 2))).replace("{j}", str(rng.randrange(3)))
                .replace("{k}", str(rng.randrange(5))))

    def condition(self, s: list[str], v: list[str]) -> str:
        return f"«{self.expression(self.rng.choice(CONDITIONS), s, v)}»"

    def number(self, s: list[str], v: list[str]) -> str:
        return self.expression(self.rng.choice((*UNARY, *BINARY, *BINARY, *SCALARS)), s, v)

    def array(self, s: list[str], v: list[str]) -> str:
        return self.expression(self.rng.choice(VECTORS), s, v)

    def new(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def put(self, depth: int, text: str) -> None:
        self.lines += ["    " * depth + line for line in text.split("\n")]

    def block(self, depth: int, s: list[str], v: list[str], loop: str, lines: int) -> None:
        """Write a few statements; a new name is known until the block ends."""
        s, v = [*s], [*v]
        before = len(self.lines)
        for _ in range(lines):
            self.statement(depth, s, v, loop)
        if len(self.lines) == before:
            self.put(depth, "pass")

    def statement(self, depth: int, s: list[str], v: list[str], loop: str) -> None:
        rng = self.rng
        self.size += 1
        deep = depth > 4 or self.size > 26
        kind = rng.randrange(30)
        old = [name for name in s if name[0] in "abh"]
        if kind < 5 or (deep and kind >= 12):
            self.put(depth, f"{rng.choice(old)} = {self.number(s, v)}")
        elif kind < 7:
            self.put(depth, f"{rng.choice(['p', 'q'])} = {self.array(s, v)}")
        elif kind == 7:
            name = self.new("t")
            self.put(depth, f"{name} = {self.number(s, v)} if {self.condition(s, v)} else {self.number(s, v)}")
            s.append(name)
        elif kind == 8:
            place, how = rng.randrange(3), rng.choice(["=", "+=", "*="])
            self.put(depth, f"p = np.array(p); p[{place}] {how} {self.number(s, v)}")
        elif kind == 9:
            self.put(depth, rng.choice([
                "state['h'] = " + self.number([*s, "state['h']"], v),
                f"many.append({self.number(s, v)})", f"a, b = b, {self.number(s, v)}",
                "many[-1] = " + self.number([*s, "many[0]"], v), "a = many.pop() if len(many) > 1 else b",
            ]))
        elif kind == 10 and loop:
            ends = ["break", "continue"] if loop == "for" else ["break"]
            self.put(depth, f"if {self.condition(s, v)}: {rng.choice(ends)}")
        elif kind == 11:
            self.put(depth, f"if {self.condition(s, v)}: return {rng.choice(s)} * {rng.choice(s)}")
        elif kind < 18:
            self.put(depth, f"if {self.condition(s, v)}:")
            self.block(depth + 1, s, v, loop, rng.randrange(1, 4))
            if rng.random() < 0.4:
                self.put(depth, f"elif {self.condition(s, v)}:")
                self.block(depth + 1, s, v, loop, rng.randrange(1, 3))
            if rng.random() < 0.6:
                self.put(depth, "else:")
                self.block(depth + 1, s, v, loop, rng.randrange(1, 3))
        elif kind < 22:
            self.for_(depth, s, v)
        elif kind < 25:
            self.while_(depth, s, v)
        elif kind < 27 and self.within:
            self.helper(depth, s)
        elif kind < 28:
            self.put(depth, rng.choice([
                f"m = «int({rng.choice(s)} * 3)»\n{rng.choice(old)} = np.sum(x[:m]) * 0.3",
                "m = «int(n)»\np = p * 0.5 + np.sum(np.arange(m)) * 0.01",
                f"b = np.sum(x[: i[{rng.randrange(3)}]]) * 0.4 + 0.1",
                f"a = sum([r for r in x if «r > {rng.uniform(-1, 1):.2f}»])",
                f"{rng.choice(old)} = float(any([«r > 0.9» for r in p])) * 0.1 + {rng.choice(s)}",
            ]))
        elif kind == 28:
            self.put(depth, rng.choice([
                f"assert «{rng.choice(s)} > -9.0», 'far'", f"if «{rng.choice(s)} > 1.4»: raise ValueError('far')",
                (f"try:\n    if {self.condition(s, v)}: raise KeyError\n    a = a * 0.5\n"
                "except KeyError:\n    b = 0.1 + b"),
            ]))
        else:
            self.put(depth, "if «n > 0» and «np.take(x, n - 1) > 0.1»: a = a + 0.1 * np.take(x, n - 1)\n"
                     "g = np.linalg.solve(np.eye(2) * (1.5 + a * a), x[:2]) if «abs(a) > 0.2» else x[2:]\n"
                     "b = 0.5 * b + 0.2 * g[0]")

    def for_(self, depth: int, s: list[str], v: list[str]) -> None:
        rng = self.rng
        t = self.new("k")
        steps = rng.choice([2, 3, 4, 5, 5, 36, 40]) if self.cost == 1 else rng.choice([2, 3])
        head, more, arrays = rng.choice([
            (f"for {t} in range({steps}):", [f"0.1 * {t}"], []), (f"for {t} in range({steps}):", [f"x[{t} % 4]"], []),
            (f"for {t} in A:", [], [t]), (f"for {t} in x:", [t], []), (f"for {t} in range(n):", [f"x[{t} % 4]"], []),
            (f"for {t}, w in zip(i, x):", [f"w * {t}"], []), ("for _ in range(i[1]):", [], []),
            (f"for {t} in range(n):", [f"0.2 * {t}"], []), (f"for {t} in range(1, int(n) + 2):", [f"x[0] / {t}"], []),
            (f"for {t} in range(2 * n, -1, -2):", [f"x[{t} % 4]"], []), (f"for {t} in range(int(n)):", [], []),
            (f"for {t} in range(i[2], n):", [f"np.cos({t})"], []), (f"for {t}, w in enumerate(x):", [f"w * {t}"], []),
        ])
        self.put(depth, head)
        self.cost *= 5
        self.block(depth + 1, [*s, *more], [*v, *arrays], "for", rng.randrange(1, 4))
        self.cost //= 5
        if rng.random() < 0.15:
            self.put(depth, "else:")
            self.block(depth + 1, s, v, "", 1)

    def while_(self, depth: int, s: list[str], v: list[str]) -> None:
        """Write a loop until something is small; it ends for every argument."""
        rng = self.rng
        h = self.new("h")
        kind = rng.randrange(9)
        factor, small = round(rng.uniform(0.4, 0.8), 2), rng.choice([0.05, 0.3, 1e-3])
        self.put(depth, f"{h} = 1.5 * abs({rng.choice(s)}) + {rng.choice(['0.0', '0.4', 'abs(a)'])}")
        fall = f"{h} = {factor} * {h}"
        if kind == 0:
            self.put(depth, f"r = 0\nwhile «{h} > {small}»:\n    r += 1")
            fall += " - 0.001 * r"
        elif kind == 1:
            self.put(depth, f"while True:\n    if «{h} < {small}»: break")
        elif kind == 2:
            self.put(depth, f"m = n * 1\nwhile «m > 0» and «{h} > 1e-3»:\n    m = m - 1")
        elif kind == 3:
            self.put(depth, f"while «not {h} <= {small}»:\n    if «{h} > 1.1»: {h} = 0.3 * {h}")
        elif kind == 4:
            self.put(depth, f"o = {h} + 1.0\nwhile «abs(o - {h}) > {small}»:\n    o = {h} * 1.0")
        elif kind == 5:
            self.put(depth, f"z = {{'h': q * 1.0, 'l': [{h}]}}\nwhile «z['l'][0] > {small}»:")
            self.put(depth + 1, f"z = {{'h': np.sin(z['h']) + 0.1 * {h}, 'l': [z['l'][0] * {factor}]}}")
            self.put(depth + 1, "q = z['h'] * 0.9")
        elif kind == 6:  # a name that one way sets, and another reads
            self.put(depth, f"while «{h} > {small}»:\n    if «{h} > {small * 4}»: e{h} = 0.1 * {h}")
            self.put(depth + 1, rng.choice([f"else: a = a - 0.2 * e{h}", f"elif «{h} < 1.0»: a = a + 0.1 * e{h}"]))
        else:
            self.put(depth, f"while «{h} > {small}»:")
        self.cost *= 9
        body, known = len(self.lines), ([*s], [*v])
        for _ in range(rng.randrange(0, 3)):
            self.statement(depth + 1, *known, "while")
        for at in range(body, len(self.lines)):  # nothing else writes the variable that falls
            self.lines[at] = self.lines[at].replace("continue", "break")
        self.put(depth + 1, fall)
        self.cost //= 9
        s.append(h.replace("h", "g"))
        self.put(depth, f"{s[-1]} = {h}")

    def plain(self, depth: int) -> None:
        """Write a loop that decides by plain numbers, which conditions change."""
        rng = self.rng
        names = {"n": self.new("n"), "e": self.new("e"), "w": self.new("w"), "v": self.new("v")}

        def filled(text: str) -> str:
            return (text.replace("{c}", str(round(rng.uniform(-0.6, 0.8), 2))).replace("{n}", names["n"])
                    .replace("{e}", names["e"]).replace("{w}", names["w"]).replace("{v}", names["v"]))

        self.put(depth, filled(f"{{n}}, {{e}}, {{w}} = {rng.choice([0, 0, 1, 5])}, {rng.choice([True, False])}, "
                               f"{rng.choice([0.0, 1.0, -0.5, 2])}"))
        self.put(depth, filled(rng.choice([
            "for {v} in np.concatenate([x, A.ravel()]):", "for {v} in A.ravel():",
            "for {v}, _ in zip(A.ravel(), range(20)):",
            "{v} = 2.0 + abs(a)\nwhile «{v} > 0.02»:\n    {v} = 0.7 * {v}", "for {v} in 1.0 * np.ravel(A):",
        ])))
        for _ in range(rng.randrange(1, 4)):
            self.put(depth + 1, filled(f"if «{rng.choice(ASKS)}»: {rng.choice(CHANGES)}"))
            if rng.random() < 0.3:
                self.put(depth + 1, filled(f"elif «{rng.choice(ASKS)}»: {rng.choice(CHANGES)}"))
            if rng.random() < 0.4:
                self.put(depth + 1, filled(f"else: {rng.choice(CHANGES)}"))
        if rng.random() < 0.2:
            self.put(depth + 1, filled(f"if «{rng.choice(ASKS)}»: {rng.choice(['break', 'continue', 'pass'])}"))
        for _ in range(rng.randrange(1, 3)):
            self.put(depth + 1, filled(rng.choice(USES)))
        self.put(depth, filled(rng.choice(AFTER)))
        self.put(depth, filled(rng.choice(AFTER)))

    def rounds(self, depth: int) -> None:
        """Write a loop, maybe in another one, that asks in a function, appends to lists and writes into an array."""
        rng = self.rng

        def c() -> str:
            return str(round(rng.uniform(-0.8, 1.0), 2))

        name = self.new("f")
        self.put(depth, f"many2, row, last, h = [], np.zeros(20), 0.0, {rng.choice(['0.0', 'x[0]', '1'])}\n"
                        f"view = row[{rng.choice(['3:6', '::-1'])}]")
        first = rng.choice(["u + v", "0.5 * u", "v", "u * v"])
        self.put(depth, f"def {name}(u, v):\n    if «v > {c()}»: return {first}")
        if rng.random() < 0.5:
            self.put(depth + 1, f"if «u {rng.choice('<>')} {c()}»: return {rng.choice(['-u', 'u - 0.1 * v', '0.2'])}")
        self.put(depth, f"    return {rng.choice(['0.7 * u', 'np.sin(u) - v', 'u'])}")
        around = rng.choice(["", "", f"for r in range({rng.choice([2, 3])}):", "for r in A[:3]:", "for r in p:"])
        if around:
            self.put(depth, around)
            if rng.random() < 0.5:
                self.put(depth + 1, rng.choice(["h = 0.0", "h = h * 0.3", "many2 = []", "last = 1.5", "b = 0.5 * b"]))
        inner = depth + bool(around)
        self.put(inner, rng.choice(NUMBERS))
        for _ in range(rng.randrange(2, 5)):
            self.put(inner + 1, rng.choice([
                f"h = {name}(h, v)", f"h = {name}(h, v) * 0.9", f"if «v > {c()}»: h = h + v\nelse: h = 0.5 * h",
                f"if k % 2 and «v > {c()}»: h = -h", "many2.append(h)", "many2.append(v * h)", "row[k] = h",
                f"if «v < {c()}»: row[k] = v", "row[k] += v", "last = v", "last = k", f"if «h < {c()}»: continue",
                f"if «v > {c()}»: many2.append(v)", "h = 0.5 * h + (many2[-1] if many2 else 0.1)",
                f"if «h > {c()}»: last = h * 2", "row[k] = row[k - 1] + 0.1 * v", f"if «v > {c()} + 1.5»: break",
                f"h = h + 0.1 * max(v, {c()})", f"if k == 0: last = {rng.choice(['v * 2', 'x[1] * 3.0', '0.5'])}",
                f"if k == {rng.choice([0, 1, 3])} and «v > {c()}»: last = {rng.choice(['x[2] * 3.0', 'h', '1.5'])}",
                "h = h + 0.1 * last", f"if «v > {c()}»: view[0] = h", "h = h - 0.2 * view[1]", "view[1] = 0.4 * v",
            ]))
        end = rng.choice(["len(many2) * 0.1", "sum([m * t for t, m in enumerate(many2)]) * 1e-2", "h * k"])
        self.put(depth, "a = a + 0.1 * h + 0.05 * last + 0.02 * np.sum(row * np.arange(20)) + 0.01 * sum(many2)\n"
                        f"b = b + {end}")

    def left(self, depth: int) -> None:
        """Write a loop that may be left, whose counter and item are read behind it, with what is no variable of it."""
        rng = self.rng

        def c() -> str:
            return str(round(rng.uniform(-0.8, 1.0), 2))

        begin, change, hidden = rng.choice(HIDDEN)
        self.put(depth, f"h, last, many2 = {rng.choice(['0.0', 'x[0]', '1'])}, {rng.choice(['0.5', 'x[1]'])}, []\n"
                        "def far(u): return u > 3.0\n" + begin)
        self.put(depth, rng.choice(NUMBERS))
        lines = [rng.choice(["h = h + abs(v)", "h = 0.9 * h + v", "h = h + v * v", "h = np.sin(h) + abs(v)"])]
        if begin != "pass":
            lines.append(rng.choice([change, f"if «v > {c()}»: {change}", f"if «h < {c()}»: {change}"]))
        lines += [rng.choice([
            f"if «v > {c()}»: h = h * 0.8\nelse: last = v", "if k % 3 == 0: h = h - 0.2", "if k == 4: last = h",
            "last = v", "many2.append(v)", f"if «v > {c()}»: many2.append(h)", f"if «v < {c()}»: continue",
            "h = h + 0.01 * k", f"h = h + 0.1 * max(v, {c()})", f"if «v > {c()}»: last = k", f"h = h + 0.01 * {hidden}",
        ]) for _ in range(rng.randrange(0, 3))]
        for _ in range(rng.choice([1, 1, 1, 2])):
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(EXITS).replace("{c}", c()))
        for line in lines:
            self.put(depth + 1, line)
        if rng.random() < 0.2:
            self.put(depth, "else: h = -h")
        self.put(depth, f"a = a + 0.1 * h + 0.05 * last + 0.02 * {hidden}")
        self.put(depth, rng.choice([
            "b = b + 0.01 * k", "b = b + 0.1 * x[k % 4]", "b = b + 0.03 * v", "b = b + k * v * 0.01", "pass",
        ]))
        self.put(depth, rng.choice([
            "b = b + 0.01 * sum(many2)", "b = b + len(many2) * 0.1", "pass", "b = b + 0.1 * max(a, 0.1, *many2)",
            "b = b + 1e-2 * sum([m * t for t, m in enumerate(many2)])",
        ]))

    def turning(self, depth: int) -> None:
        """Write a loop with a `while` or two in its rounds, or what plain values decide, which is left or not."""
        rng = self.rng

        def c() -> str:
            return str(round(rng.uniform(0.2, 1.0), 2))

        begin = rng.choice(["0.0", "x[0]"])
        with_box = rng.random() < 0.1
        self.put(depth, f"h, last, many2, row, k = {begin}, 0.5, [], np.zeros(40), 0\n"
                        f"{'box = Box(); box.n = 0' * with_box}\n"
                        f"def halved(u):\n    while «u > {c()}»: u = u * 0.5\n    return u\n"
                        f"def clipped(u, w):\n    if «u * w > {c()}»: return u * 0.5\n    return u * 0.8 - 0.01")
        self.put(depth, rng.choice([
            "for k, v in enumerate(np.concatenate([x, A.ravel()])):", "for k in range(15):\n    v = A.ravel()[k]",
            "for v in A.ravel():", "for k, v in zip(range(n + 9), np.concatenate([x, A.ravel()])):",
        ]))
        lines = []
        for _ in range(rng.choice([1, 1, 1, 2])):
            text, used = rng.choice([rng.choice(TURNS), rng.choice(TURNS), ("y = v if «v > {c}» else 0.3 * v", "y")])
            text = text if with_box else text.replace("box.n = box.n + 1", "h = h + 0.01")
            lines.append(text.replace("{c}", c()) + "\n" + rng.choice([
                f"h = 0.8 * h + 0.3 * {used}", f"h = np.sin(h) + {used}", f"h = h + 0.1 * {used}",
            ]))
        lines += [rng.choice([
            f"if «v > {c()}»: h = h * 0.8\nelse: last = abs(v)", "many2.append(h)", f"if «h > {c()}»: last = 2.0",
            "last = last + abs(v)", "h = h + 0.01 * k", f"if «v < -{c()}»: continue", "row[k] = h",
            "h = h + 0.02 * last", rng.choice(PLAINLY),
        ]) for _ in range(rng.randrange(0, 4))]
        if rng.random() < 0.5:
            leave = rng.choice(EXITS[:-2]).replace("{c}", c()).replace("far(h)", "h > 3.0")
            lines.insert(rng.randrange(len(lines) + 1), leave)
        for line in lines:
            self.put(depth + 1, line)
        self.put(depth, "a = a + 0.1 * h + 0.05 * last + 0.02 * np.sum(row * np.arange(40)) + 0.01 * sum(many2)")
        self.put(depth, rng.choice([
            "b = b + 0.01 * k", "b = b + 0.1 * y", "b = b + len(many2) * 0.1",
            "b = b + box.n" if with_box else "b = b + h", "pass",
        ]))

    def nested(self, depth: int) -> None:
        """Write loops in one another that are left by `break`, and what they leave behind them."""
        rng = self.rng

        def c() -> str:
            return str(round(rng.uniform(-0.8, 1.0), 2))

        def end(names: tuple[str, ...]) -> str:
            one = f"«{rng.choice(names)} > {c()} + {rng.choice(['0.5', '1.5', '3.0'])}»"
            more = rng.choice(["", "", "", "last = 0.3 * t; ", f"{names[0]} = 0.5 * {names[0]}; ", "last = v * k; "])
            return f"if {rng.choice([one, one, one, f'not {one}', f'far({names[0]})'])}: {more}break"

        rows = rng.choice([
            "for k, v in enumerate(row):", "for k in range(3):\n    v = row[k]", "for k, v in zip((2, 0, 1), row):",
        ])
        self.put(depth, f"h, t, last = {rng.choice(['0.0', 'x[0]'])}, x[1], {rng.choice(['0.5', 'x[2]'])}\n"
                        "def far(u): return u > 2.0")
        self.put(depth, rng.choice(["for j, row in enumerate(A):", "for j in range(5):\n    row = A[j]"]))
        self.put(depth + 1, rng.choice(["t = 0.0", "t = 0.5 * t", "t = abs(x[j % 4])", "pass"]))
        self.put(depth + 1, rows)
        lines = [rng.choice(["t = t + abs(v)", "t = 0.9 * t + v", "t = t + v * h", "t = np.sin(t) + abs(v)"])]
        lines += [rng.choice([
            f"if «v > {c()}»: t = 0.8 * t", f"if «v < {c()}»: continue", "last = v", "last = k", "h = h + 0.1 * v",
            f"if «t > {c()}»: last = t", "t = max(t, v)",
        ]) for _ in range(rng.randrange(0, 2))]
        for _ in range(rng.choice([1, 1, 2])):
            lines.insert(rng.randrange(len(lines) + 1), end(("t", "t", "v")))
        for line in lines:
            self.put(depth + 2, line)
        if rng.random() < 0.2:
            self.put(depth + 1, rng.choice(["else: t = -t", "else: last = 1.5"]))
        self.put(depth + 1, rng.choice(["h = h + t * k", "h = h + t", "h = 0.7 * h + v", "h = h + 0.2 * last + t"]))
        for _ in range(rng.choice([0, 1, 1])):
            self.put(depth + 1, end(("h", "h", "t")))
        self.put(depth, f"a = a + 0.1 * h + 0.05 * last + {rng.choice(['0.1 * j', '0.1 * k', '0.2 * t', '0.1 * v'])}")

    def grown(self, depth: int) -> None:
        """Write a loop, maybe in another one, that appends on some steps to lists of which sums and such are asked."""
        rng = self.rng

        def c() -> str:
            return str(round(rng.uniform(-0.8, 1.0), 2))

        self.put(depth, f"h, last = {rng.choice(['0.0', 'x[0]'])}, 0.0")
        lists = ["kept", "other"][: rng.choice([1, 2])]
        begins = [f"{name} = {rng.choice(['[]', '[]', '[x[1]]', '[0.25, x[2]]'])}" for name in lists]
        if rng.random() < 0.4:
            begins += rng.choice([["kept.append(x[3])"], ["if «x[3] > 0.2»: kept.append(x[3])"]])
        around = rng.choice(["", "", f"for r in range({rng.choice([2, 3])}):", "for r in p:"])
        inside = around and rng.random() < 0.5
        for line in begins[: 0 if inside else None]:
            self.put(depth, line)
        if around:
            self.put(depth, around)
        inner = depth + bool(around)
        for line in begins if inside else ():
            self.put(inner, line)
        loop = rng.choice([
            "for k, v in enumerate(np.concatenate([x, A.ravel()])):", "for k in range(15):\n    v = A.ravel()[k]",
            "for k in range(3 * n):\n    v = np.sin(x[0] * k + 0.4)", "for v in A.ravel():\n    k = len(kept)",
            "k, v = 0, abs(x[1]) + 1.0\nwhile «v > 0.1»:\n    k, v = k + 1, 0.8 * v - 0.01 * k",
        ])
        self.put(inner, loop)
        asks = ["len({m})", "sum({m})", "max({m})", "min({m})", "({m}[-1] if {m} else 0.3)", "(v if not {m} else h)"]
        safe = [asks[k] for k in (0, 1, 4, 5)]
        some = safe if rng.random() < 0.7 else asks  # of no items Python has no largest
        items = ["v", "v", "h * v", "v * v", "k", "np.sin(v)", "1.5", "h"]
        if rng.random() < 0.7:
            items = items[:4]

        def ask() -> str:
            return str(rng.choice(some)).replace("{m}", rng.choice(lists))

        for _ in range(rng.randrange(2, 5)):
            name = rng.choice(lists)
            self.put(inner + 1, rng.choice([
                f"if «v > {c()}»: {name}.append({rng.choice(items)})", f"{name}.append({rng.choice(items)})",
                f"if «h > {c()}»: {name}.append({rng.choice(items)})\nelse: {rng.choice(lists)}.append(v)",
                f"if «v * v > {c()}» and «h < 1.0»: {name}.append(v)", f"if k % 3 == 0: {name}.append(v)",
                f"h = 0.6 * h + 0.2 * {ask()}", "h = 0.7 * h + v", f"if «{ask()} > {c()}»: h = 0.5 * h",
                f"if «v > {ask()}»: {name}.append(v)", f"if «len({name}) > 5»: break", f"if «v < {c()}»: continue",
                f"if «h > {c()} + 1.0»: last = v",
            ]))
        self.put(depth, f"a = a + 0.1 * h + 0.05 * last + 0.02 * {ask()} + 0.03 * {ask()}")
        self.put(depth, rng.choice([f"b = b + 0.1 * {ask()}", f"if «{lists[0]}»: b = b + 0.1 * {ask()}", "pass"]))

    def habits(self, depth: int) -> None:
        """Write a loop, maybe in another one, as people keep state in them: in structures, functions and generators."""
        rng = self.rng

        def own(texts: tuple[str, ...]) -> list[str]:
            self.count += 1
            c, p = round(rng.uniform(-0.8, 1.0), 2), round(rng.uniform(0.2, 1.0), 2)
            filled = [text.replace("{c}", str(c)).replace("{p}", str(p)) for text in texts]
            return [re.sub(r"\b([a-z]+)_\b", rf"\g<1>{self.count}", text) for text in filled]

        every = [own(rng.choice(HABITS)) for _ in range(rng.choice([1, 2, 2, 3]))]
        self.put(depth, f"h, last = {rng.choice(['0.0', 'x[0]', '1'])}, 0.5")
        for begin, _, _ in every:
            self.put(depth, begin)
        around = rng.choice(["", "", "", "for r in range(2):", "for r in p:"])
        if around:
            self.put(depth, around)
        inner = depth + bool(around)
        self.put(inner, rng.choice([
            *NUMBERS, "for k in range(n):\n    v = x[k % 4]",
            "k, v = 0, abs(x[1]) + 1.0\nwhile «v > 0.1»:\n    k, v = k + 1, 0.8 * v - 0.01 * k",
        ]))
        lines = [step for _, step, _ in every]
        if rng.random() < 0.4:
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(EXITS[:5]).replace("{c}", "0.7"))
        lines.append("h = 0.9 * h + 0.1 * v")
        for line in lines:
            self.put(inner + 1, line)
        self.put(depth, f"a = a + 0.1 * h + 0.05 * last + 0.02 * {' + 0.03 * '.join([read for _, _, read in every])}")

    def repeated(self, depth: int) -> None:
        """Write loops that ask what others before them asked, maybe in loops, functions and sums, or in all rounds."""
        rng = self.rng

        def c() -> str:
            return str(round(rng.uniform(-0.8, 1.0), 2))

        asks = [f"v > {c()}", f"v * x[1] > {c()}", f"v < {c()}", "v > mean", f"w > {c()}"]
        asks += [f"x[0] > {c()}", "n > 2", "mean > 0.1", f"h > {c()}", "m_ > 2"]
        asks = rng.sample(asks, 3)
        rows = rng.choice(["np.concatenate([x, A.ravel()])", "A.ravel()", "np.sin(A[:, 1])", "x"])
        self.put(depth, f"h, last, m_, mean = {rng.choice(['0.0', 'x[0]'])}, 0.5, {rng.choice([0, 1])}, np.mean(A)\n"
                        f"def part(u): return u if «u > {c()}» else {rng.choice(['0.3 * u', '-u', '0.2'])}")
        if seen := rng.random() < 0.4:
            reads = "u * last - 0.1 * h", "0.3 * u + last * m_"
            self.put(depth, rng.choice([f"def seen(u): return {reads[0]}", f"seen = lambda u: {reads[1]}"]))
        for _ in range(rng.choice([2, 2, 3])):
            inner = depth
            if rng.random() < 0.3:
                self.put(depth, rng.choice(["for r in range(3):", "for r in x:", "for r in range(n):"]))
                inner = depth + 1
            if rng.random() < 0.2:
                term = rng.choice(["v * v", "part(v)", "1", "v - mean"])
                ask = rng.choice([one for one in asks if "w" not in one and "m_" not in one] or ["v > 0.1"])
                self.put(inner, f"h = 0.5 * h + 0.1 * sum({term} for v in {rows} if «{ask}»)")
                continue
            self.put(inner, f"w = 0.3\nfor v in {rows}:")
            for _ in range(rng.randrange(1, 4)):
                ask = rng.choice([*asks, *asks, f"{asks[0]} and {asks[1]}", f"not {asks[0]}"])
                change = rng.choice([
                    "h = 0.9 * h + 0.1 * v", "h = h - 0.1 * v * w", "last = v", "m_ = m_ + 1",
                    "last = 0.5 * last + part(v)", "h = 0.5 * h + 0.1 * seen(v)" if seen else "h = np.sin(h + v)",
                    "m_ = m_ * 3 % 7", "m_ = m_ * 31 + 7", "h = h + 0.05 * part(v)", "continue",
                ])
                self.put(inner + 1, f"if «{ask}»: {change}")
                if rng.random() < 0.3:
                    self.put(inner + 1, rng.choice(["else: h = 0.8 * h", f"elif «{rng.choice(asks)}»: h = h + 0.2"]))
            self.put(inner + 1, rng.choice(["w = v", "w = 0.5 * w + v", "pass", "h = 0.99 * h"]))
        self.put(depth, "a = a + 0.1 * h + 0.05 * last + 0.01 * (m_ % 1000)")
        self.put(depth, rng.choice([
            "pass", "b = b + 0.01 * sum([u * h + last for u in x])", "a = a + sum(h * u for u in x)",
        ]))
        self.put(depth, rng.choice([f"if «{asks[0].replace('v', 'x[2]').replace('w', 'b')}»: b = 0.5 * b", "pass"]))

    def helper(self, depth: int, s: list[str]) -> None:
        """Write a function of one number within, and call it as it is or by a mode."""
        rng = self.rng
        f = self.new("f")
        c = str(round(rng.uniform(-0.5, 0.5), 2))
        value, slope = [text.replace("{c}", c) for text in rng.choice(INNER)]
        self.put(depth, f"def {f}(u): return {value}")
        kind = rng.randrange(7)
        arg = rng.choice(s)
        if kind == 0:
            self.put(depth, f"def d{f}(u): return {slope}")
            self.put(depth, f"a = slope_of({f}, d{f})({arg} * 1.0) * 0.5")
        elif kind == 1:
            self.put(depth, f"q = rows_of(lambda r, y: r * {f}(y), p, {arg})")
        elif kind == 2:
            self.put(depth, f"b = scan_of(lambda g, r: np.sin(g + r) * 0.5 + 0.0 * {f}({arg}), 0.0 * a, x)")
        elif kind == 3:
            self.put(depth, f"total = 0.1\ndef add(u):\n    nonlocal total\n    if «u > {c}»: total = total + 0.2 * u\n"
                     f"for r in p: add(r)\na = total")
        elif kind == 4:
            self.put(depth, f"def deep(u, k): return u if k == 0 or «u > 0.9» else deep({f}(u) * 0.9 + 0.1, k - 1)\n"
                     f"b = deep({arg}, 4)")
        else:
            self.put(depth, f"{rng.choice('ab')} = {rng.choice(['jit', 'checkpoint', ''])}({f})({arg} * 1.0)")


def _drawn(rng: Random, seed: int, kind: str) -> Branching:
    writer = _Writer(rng)
    if kind:
        getattr(writer, kind)(1)
        writer.size = 20
    lines = rng.randrange(1, 3) if kind else rng.randrange(3, 7)
    writer.block(1, ["a", "b", "x[1]", "0.3"], ["p", "q", "x[1:]"], "", lines)
    text = "\n".join([
        "def program(x, A, n, i):", "    a, b, p, q = x[0], x[3] * 0.5, A[1], 0.5 * x[:3]",
        "    many, state = [a, b], {'h': a}", *writer.lines,
        "    return a + 0.7 * b + np.sum(p) + 0.3 * np.sum(q * q) + 0.2 * sum(many) + state['h'] * 0.1", "",
    ])
    return Branching(text, seed)


def random_branching(
    seed: int, *, plain: bool = False, rounds: bool = False, left: bool = False, turning: bool = False,
    grown: bool = False, nested: bool = False, habits: bool = False, repeated: bool = False,
) -> Branching:
    """Write a program that NumPy runs, and that asks something.

    It may begin with a loop that decides by plain numbers, with one that calls a function and appends to lists, with
    one that is left and changes what is no variable of it, with one in whose rounds a `while` is `turning`, with one
    whose lists have `grown` on some steps, with loops in one another that are left, or with loops that ask the same.
    """
    kinds = {
        "plain": plain, "rounds": rounds, "left": left, "turning": turning, "grown": grown, "nested": nested,
        "habits": habits, "repeated": repeated,
    }
    kind = next((name for name, wanted in kinds.items() if wanted), "")
    for k in range(200):
        one = _drawn(Random(1000 * seed + k), seed, kind)
        rng = np.random.default_rng(seed)
        with suppress(WayError, *RAISED):
            log: list[Any] = []
            f = one.numpys(log)
            for _ in range(3):
                f(*one.args(rng))
            if log:
                return one
    raise AssertionError(seed)


class Point(NamedTuple):
    """Arguments, where NumPy goes there, what it gives (a number, or an exception), and how far sides are apart."""

    args: tuple[Any, ...]
    way: tuple[Any, ...]
    value: Any
    gaps: list[tuple[int, float]]


def at(program: Branching, args: tuple[Any, ...], *, measured: bool = False) -> Point:
    """Run NumPy; how far sides are apart is `measured` where slopes of it are wanted, for there are many."""
    log: list[Any] = []
    gaps: list[tuple[int, float]] = []
    try:
        with np.errstate(all="ignore"):
            value: Any = program.numpys(log, gaps if measured else None)(*args)
    except RAISED as error:
        value = error
    return Point(args, tuple(log), value, gaps)


def divergence(one: tuple[Any, ...], other: tuple[Any, ...]) -> int:
    """Return where two ways part; -1 where they do not."""
    for k, (a, b) in enumerate(zip(one, other, strict=False)):
        if isinstance(a, tuple) != isinstance(b, tuple) or a != b:
            return k
    return -1 if len(one) == len(other) else min(len(one), len(other))


def flips(program: Branching, first: Point, tried: int = 60) -> dict[int, Point]:
    """Search for arguments that leave a point's path at each of its conditions, and go on as it does.

    Integers one at a time, numbers at random, and steps along the slopes of what is compared; from what is found the
    search goes back along the line, so that no later condition need come to something else.
    """
    found: dict[int, Point] = {}
    x, A, n, i = first.args

    def go(args: tuple[Any, ...]) -> int:
        try:
            point = at(program, args)
        except WayError:
            return -1
        parts = divergence(first.way, point.way)
        if parts >= 0:
            found.setdefault(parts, point)
        return parts

    for number in range(6):
        go((x, A, number, i))
    for place, number in np.ndindex(4, 4):
        go((x, A, n, np.where(np.arange(4) == place, number, i)))
    rng = np.random.default_rng(program.seed + 1)
    for _ in range(tried):
        args, scale = program.args(rng), rng.choice([0.03, 0.3, 1.0])
        go((x + scale * args[0], A + scale * args[1], n, i))
    z = np.concatenate([x, A.ravel()])

    def args_at(z: Any) -> tuple[Any, ...]:
        return z[:4], z[4:].reshape(5, 3), n, i

    numbers = at(program, first.args, measured=True).gaps
    gaps = np.array([gap for _, gap in numbers])
    of = np.array([k for k, _ in numbers])
    slopes = np.zeros((len(gaps), len(z)))
    for axis, step in enumerate(1e-6 * np.eye(len(z))):
        with suppress(WayError):
            moved = at(program, args_at(z + step), measured=True).gaps
            same = [a for a, (k, _) in enumerate(moved[: len(gaps)]) if k == of[a]]
            slopes[same, axis] = (np.array([moved[a][1] for a in same]) - gaps[same]) / 1e-6
    slopes = np.nan_to_num(slopes, posinf=0.0, neginf=0.0)
    _, once = np.unique(np.round(np.abs(gaps), 12), return_index=True)  # what is asked again cannot differ
    for g in sorted(once):
        if of[g] in found or not slopes[g].any() or not abs(gaps[g]) < 1e3:
            continue
        kept: list[int] = []
        for _ in range(4):  # to the other side of this one, and of none before it
            wanted = np.array([-1.2 * gaps[g] - 1e-4 * np.sign(gaps[g]), *(-0.5 * gaps[kept])])
            step = np.linalg.lstsq(slopes[[g, *kept]], wanted, rcond=1e-6)[0]
            for times in (1.0, 1.5, 3.0):
                if go(args_at(z + times * step)) == of[g]:
                    break
            crossed = [h for h in np.flatnonzero((of < of[g]) & (gaps * (gaps + slopes @ step) < 0)) if h not in kept]
            if of[g] in found or not crossed:
                break
            kept.append(int(crossed[0]))
    return {k: _back(program, first, k, point) for k, point in sorted(found.items())}


def _back(program: Branching, first: Point, k: int, point: Point) -> Point:
    """Go back along the line to where a path is just left at a condition."""
    (x, A, *whole), (to_x, to_A, *others) = first.args, point.args
    if not all(np.array_equal(one, other) for one, other in zip(whole, others, strict=True)):
        return point
    near, far = 0.0, 1.0
    for _ in range(12):
        t = (near + far) / 2
        with suppress(WayError):
            between = at(program, (x + t * (to_x - x), A + t * (to_A - A), *whole))
            if divergence(first.way, between.way) == k:
                far, point = t, between
                continue
        near = t
    return point


def points(program: Branching, count: int = 5) -> list[Point]:
    """Return a point, others that leave its path at several of its conditions, at most so many, and one anywhere."""
    rng = np.random.default_rng(program.seed + 1)
    drawn: list[Point] = []
    while len(drawn) < 2:
        with suppress(WayError):
            drawn.append(at(program, program.args(rng)))
    first, other = drawn
    found = [*flips(program, first).values()]
    chosen = {round(k) for k in np.linspace(0, len(found) - 1, count - 2)} if found else set[int]()
    return [first, *[found[k] for k in sorted(chosen)], other]


def slope(program: Branching, point: Point, along: tuple[Any, Any]) -> float | None:
    """Differentiate NumPy's path along a direction by Richardson's differences; None where it is no path there."""
    x, A, n, i = point.args

    def f(t: float) -> float:
        other = at(program, (x + t * along[0], A + t * along[1], n, i))
        if other.way != point.way or isinstance(other.value, Exception):
            raise WayError
        return float(other.value)

    try:
        every = []
        for h in (1e-3, 3e-4):
            d1, d2, d3 = [(f(g) - f(-g)) / (2 * g) for g in (h, h / 2, h / 4)]
            e1, e2 = (4 * d2 - d1) / 3, (4 * d3 - d2) / 3
            every.append((16 * e2 - e1) / 15)
    except WayError:
        return None
    one, other = every
    return one if abs(one - other) <= 1e-7 * (1 + abs(one)) else None


def disagreements(program: Branching, options: sg.Options, gradients: bool = True, count: int = 5) -> list[str]:
    """Compare what is compiled with NumPy's run of the same source, on arguments that take several paths."""
    fun = program.compiled_from()
    compiled = sg.value_and_grad(fun, argnums=(0, 1), options=options) if gradients else sg.jit(fun, options=options)
    wrong = []
    every = points(program, count)
    rng = np.random.default_rng(program.seed + 2)
    for k, point in enumerate([*every, *every[:2]]):
        said = f"seed {program.seed}, point {k} ({point.way[:6]}...): "
        try:
            with np.errstate(all="ignore"):
                result = compiled(*point.args)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is NumPy's or wrong
            counts = gradients and type(point.value) is int and "returns int64[]" in str(error)  # sum() of no items
            if not counts and not (isinstance(point.value, Exception) and isinstance(error, type(point.value))):
                wrong.append(f"{said}{type(error).__name__}: {error}")
            continue
        if isinstance(point.value, Exception):
            wrong.append(f"{said}gave {result}, and NumPy {point.value!r}")
            continue
        value, by = result if gradients else (result, None)
        if not np.allclose(value, point.value, rtol=1e-10, atol=1e-10, equal_nan=True):
            wrong.append(f"{said}is {value!r}, and NumPy's {point.value!r}")
        if by is not None and np.isfinite(point.value):
            along = rng.normal(size=4), rng.normal(size=(5, 3))
            wanted = slope(program, point, along)
            given = sum(np.sum(a * b) for a, b in zip(by, along, strict=True))
            if wanted is not None and not abs(given - wanted) <= 1e-6 * (1 + abs(wanted)):
                wrong.append(f"{said}has slope {given!r}, and differences {wanted!r}")
    return wrong
