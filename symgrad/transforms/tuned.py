"""The page of constants of `transforms/`: every number that was chosen for speed, memory or compile time.

None of them changes what a program means. Each has its unit, and where it comes from, in the words of
`symgrad.loops.machine`: *counted*, *measured*, *tried* or *chosen*.
"""

from __future__ import annotations

# -- how far is looked: bounds on compile time

VIEWS_BEHIND = 8
"""Views in a row that something is looked for behind. Chosen."""

WRITES_BEHIND = 32
"""Writes into one array that a slice looks behind. Chosen: beyond it the writes become one array (`PIECES`)."""

CONDITIONS_DEEP = 6
"""Ops of constants that are computed to find out a condition. Chosen."""

LOGARITHM_DEEP = 8
"""Views, factors and quotients that the logarithm of what is made of exponentials is looked for behind. Chosen."""

FACTORS_DEEP = 4
"""Factors in a row that a sign is looked for in. Chosen."""

TERMS_DEEP = 6
"""Sums, differences and signs between a sum and the product that is summed. Chosen."""

SCALED_SINGLES, SCALED_DOUBLES = 4, 2.0**64
"""Number that sums in single and double precision are multiplied by after they are added, at most, and its reciprocal
at least: else they may overflow before. Chosen: 2 of 128 exponents, and 64 of 1024."""

REWRITTEN = 16
"""Times that one node is rewritten. Chosen: what looks behind a thousand writes does not cost their square."""

COMPARED_ELEMENTS = 1_000_000
"""Elements of constants that are compared for being equal. Chosen: some milliseconds."""

PERMUTED_AXES = 4
"""Axes of results that are compared in every order. Counted: 24 orders."""

PLACES_COMPARED = 64
"""Places that are compared, each with each, for one that is named twice. Chosen: 2,016 comparisons."""

GUARDS_JOINED = 8
"""Guards that differ and are joined where cotangents meet. Chosen: a sum of more is guarded by what they share."""

# -- what pays

REPEATED = 32
"""Copies of a step that are a loop. Chosen: fewer are worth having side by side."""

LONG_COPIES = 16
"""So many ops for each of the copies that are asked for make a loop of fewer, in all 512. Measured: a program takes
some 2 ms an op to compile with its gradient, and 30 days of four Runge-Kutta steps took 13 s.
"""

LOOP_WEIGHT = 64
"""What a loop of its own (a sum, a product, arrays that are joined) counts there among elementwise ops, where an array
has as many elements. Measured: it takes 80 to 200 ms to compile with its gradient; thirty steps of ``tanh(A @ y)`` took
13 s, and take 0.2 s as a loop, in 0.9 to 1.1 of the time of a call. Seven joints of 4 x 4 matrices are 0.9 of a loop.
"""

PERIODS = 40
"""Periods of a repeat that are tried, those that most neighbours have first. Chosen."""

COUNTS = 3
"""Numbers of copies that are tried where copies lack nodes, those that most nodes come in first. Chosen."""

PEELED = 2
"""Copies that may stay outside of a loop at either end. Chosen: first steps differ, and what is made of them."""

ROUNDS_PEELED = 3
"""Rounds of a `while` that may stay outside before the loop. Chosen: what a variable is there differs from what it
becomes."""

ROUNDS_HELD = 256
"""Rounds of a `for` with a `break` that are one path, at most: reverse mode keeps a row for each. Chosen."""

COPIES_TRIED = 6
"""Copies in the middle of a repeat that are looked at first. Chosen: most periods fail there."""

FOLDED = 8
"""Values that are taken in one after the other, from which on these are together. Chosen."""

MANY_LOOPS = 16
"""Repeats from which on those that are alike become loops together. Chosen: 80 calls of a loop's code took 16 s one by
one, and 3 together; what is found by itself has up to two copies more."""

WINDOWS = 4
"""Windows of an array for each round, at most, of which a loop takes one. Chosen: a few rounds of a loop in two others,
which are looked at first, see four."""

STRAIGHT_NODES, STRAIGHT_ELEMENTS = 512, 1 << 13
"""Elementwise nodes, at most, on arrays of so many elements, at least, that stay side by side: fused, they are one
sweep over memory. Measured: 50 steps of ``0.5 * x + 0.1 * x * x`` on 100,000 numbers take 1.6 times as long as a loop,
their gradient 3.9 times."""

LATE_ELEMENTS = 64
"""Elements of a sum over steps of products that is a product behind the loop, at least. Chosen."""

RUNS_DEEP = 24
"""Levels of runs of runs of a checkpointed loop. Counted: beyond it two steps make a run."""

RUNS_REACH, RUNS_NESTED = 1 << 24, 4
"""Steps that runs of runs reach, and how deep they are, where nobody knows how many steps there will be: a loop of more
begins again for each run of them. Chosen: a level more is a copy of the body in C, and no time where it has one run."""

RUNS_LONG, RUNS_SQUARE = 1 << 8, 1 << 12
"""Steps of such runs, at most: by themselves, and where there are as many runs as a run has steps. Chosen: few rows are
memory that other calls need, too; a loop of the square of the many, 16 million steps, is computed twice."""

RUNS_KEEP = 1 << 26
"""Bytes of what is carried into such runs, where nobody says more. Chosen."""

AGAIN_FOR_TAPE = 8
"""Operations for each element that a pullback does again instead of keeping their result. Chosen: of the order of what
storing and loading eight bytes takes."""

PIECES = 64
"""Pieces of an array, no single elements, from which on it is assembled; so are reads of more elements. Chosen."""

MASK, TABLE = 1 << 10, 1 << 17
"""Elements of a matrix of Booleans, and of one of numbers, from which on indices are compared in its place. Measured:
with bytes among numbers the forces between 800 points take 1.4 times as long; a table of 90,000 numbers costs less than
comparisons."""

DIAGONALS = 2
"""Diagonals of such a matrix that differ from the one before, at most. Chosen: a band."""

SLICES_COMPARED = 4
"""Slices that an index is compared with; of more a table says which elements they have. Chosen."""

TAPS = 8
"""Numbers of a convolution that is written out, at most. Chosen: as many as `TINY` iterations of a loop."""

POWER = 64
"""Exponents of integer powers that are products, at most. Counted: six squarings."""

ROUNDS_AFTER = 6
"""Rounds of a Python `for` with branches that may stay outside behind its loop, until the loop has made each variable.
Chosen: where both ways are as likely, one call in 64 goes one way six times in the end."""

KINDS_OF_ROUNDS = 4
"""Of so many kinds rounds of a loop may be, by what plain values decide. Chosen: `t % 3`, and one round by itself."""

MOST_ROUNDS, MOST_EACH, MOST = 2.0**31, 2.0**10, 2.0**41
"""A loop is taken to have so many rounds, an integer to grow by so much in each, and to be no larger in any. Chosen:
far from 64 bits."""

SPREAD, SAMPLED, SAMPLED_BEHIND = 1 << 10, 32, 6
"""Squares around a mean, so many of them, are summed with the mean, around that of a sample of so many elements, which
is made anew through so many ops. Measured: variances of 2,000 numbers take 0.55 of the time, layer norm of rows of
1,024 0.84 to 1.02, of 4,096 0.81, batch norm of 4,096 x 64 0.8; of fewer, the sample were more than 3 % of the work."""
