"""The page of constants: every number of `loops/` and `render/` that was chosen for speed, memory or compile time.

None of them changes what is computed, but for the order in which sums are added. Each has its unit, and where the
number comes from:

- *counted*: it follows from the hardware, or from how something is done;
- *measured*: by what and on what, as far as that was written down;
- *tried*: others were compared on programs of the benchmarks, and no table was kept;
- *chosen*: not measured, or nobody wrote down how.
"""

from __future__ import annotations

# -- caches and memory

LINE = 64
"""Bytes of a cache line. Counted (x86-64, most of ARM)."""

WORD = 8
"""Bytes: where an array of less than a line begins. Counted: the largest element."""

CACHE = 3 << 14
"""Bytes that live for one tile, at most. Counted: a first cache of 48 kB."""

WHOLE_BYTES = 4 * CACHE
"""Bytes that live for a sweep around register blocks that is one tile, at most. Measured with AVX-512 (EPYC, gcc 12),
in turn, minima of 160 rounds: gradients of attention, d = 16, in tiles of 16 rows take 1.06 to 1.13 of the time of one
tile for n = 20 to 64 (0.8 for n = 31, 32), in tiles of 32 rows 1.03 to 1.07. Where there are no blocks, shorter tiles
take 0.98 to 1.04 (softmax, layer norm, n = 16 to 63) or less, and `CACHE` holds."""

NEAR_BYTES = 1 << 16
"""Bytes of an array that may be walked in any order. Chosen."""

FAR_BYTES = 1 << 20
"""Bytes of an array from which a read counts as four operations. Chosen."""

STACK = 4096
"""Bytes of an array that stands on the stack, at most. Chosen."""

STACK_TOTAL = 1 << 16
"""Bytes of all arrays on the stack of a function. Chosen: threads have small stacks."""

SPREAD_BYTES = 1 << 12, 1 << 17
"""Bytes of a result, at least and at most, that is copied past the caches where all threads have read what it
overwrites. Measured (EPYC, two cores, in turn), steps of softmax regression by Adam and by SGD, 62 to 100 kB of
parameters: 0.88 to 0.95 and 1.00 to 1.05 of the time where the cores share a cache, 0.53 to 0.6 and 0.77 to 0.83 where
they do not. A network of 400 kB takes 1.04 to 1.07, and 0.80; what is in no cache by then, 40 MB, 1.5. The least is a
page, chosen."""

SLOTS_TRIED = 4
"""Free slots of neighbouring sizes that are compared with the wanted one. Chosen: planning stays linear."""

# -- what operations cost, in additions

OFTEN = 1000
"""Steps of a loop of which nobody knows how many there are. Chosen."""

CALL = 8
"""Operations that a function of math.h counts as, in lanes. Chosen."""

CALL_AGAIN, DIVISION_AGAIN = 20, 8
"""Operations that a function of math.h, and a division, count as where a value is computed again. Chosen: by cycles."""

BLOCKED = 4
"""Operations in register blocks that take the time of one elsewhere. Tried: with threads."""

AGAIN = 16
"""Operations that are done again, at most, so that a value need not be stored. Counted: about as many are done while
16 bytes come and go."""

FEW_LEAVES = 2
"""Temporary arrays from which a value is computed again, at most. Measured: three of them for the heat equation by
padded differences, 100,000 points, take 1.1 of the time of storing the value."""

COMPARED = 2
"""Operations of a boolean that is not kept until after a sum, at most. Chosen."""

# -- loops and tiles

TINY = 8
"""Iterations of a loop that is unrolled where that pays, and that is no reason for a nest, at most. Chosen: a vector
of 512 bits in double precision."""

UNROLLED = 64
"""Statements that one becomes by unrolling, at most. Chosen."""

FEW_POINTS = 32
"""Points of tiny axes up to which they are unrolled where lanes walk memory by ones beside them. Measured (gcc 12,
AVX-512): as loops, 4 x 4 products beside lanes take 1.1 of the time, 6 x 7 rows that are normed 0.4."""

UNROLLED_ALL = 8_000
"""Statements that a program has by unrolling, at most. Counted by `COMPILE_SECONDS`: 1 s, and as long in Python.
Measured: second derivatives of a function of eigenvectors of two 5 x 5 matrices have 18,700 so, and take 13 s to
compile and 17 us a call; as loops, of which 1,000 statements are left unrolled, 3 s and 10 us."""

WORTH_LANES = 32
"""Points of further axes from which on lanes beside a tiny axis pay. Chosen."""

FEW_LANES = 4
"""Iterations of a loop that gets no simd pragma, at most. Chosen: half a vector."""

SHORT_MAXIMUM = 16
"""Iterations from which on lanes of a maximum pay; they are combined at the end. Chosen."""

TILE_ROWS = 64
"""Rows of a tile of a loop with loops inside. Chosen: what lives for a tile fits the first cache."""

TILE_WHOLE = 2 * TILE_ROWS
"""Rows of a sweep around register blocks that is one tile, at most. Measured: softmax regression 784 -> 10 on 100 rows
takes 0.90 of the time of tiles of 64 rows, which pack its weights twice."""

TILE_PIECES = 4 * TILE_ROWS
"""Rows of a tile of such a loop that walks pieces of the rows of matrices. Chosen: a piece is some lines of a cache."""

TILE_TERMS = 1024
"""Terms of a tile of a plain sum. Chosen: the error of a long sum grows with the number of tiles."""

TILE_SUMS = 4096
"""Elements of a sum that is taken tile by tile, at most. Chosen."""

SHARED_ROWS = 16
"""Rows of a batch for which a thread takes all steps of a recurrence, at least. Chosen: a product of fewer packs its
other operand for little work."""

TILE_LEAST = 8
"""Rows of the shortest tile. Chosen: a vector."""

TILE_BLOCKS = 32
"""Rows of the shortest tile around register blocks, which pack an operand for each tile. Chosen."""

CUT_TILE_ROWS = 64
"""Rows of a tile of a loop that is cut because its body is long. As `TILE_ROWS`."""

RAGGED = 1.4
"""Times as long as its vectors a loop must take, with its last elements one by one, for lanes along rows. Chosen."""

TURNED_ROWS = 32
"""Rows of a tile from which on they are lanes beside an unknown extent. Chosen."""

ROWS_AT_ONCE = 4
"""Rows of an open extent that are added at once. Chosen."""

# -- the choice of loops

MANY_CLASSES = 16
"""Axis classes of much the same work beyond which none is chosen. Chosen: scheduling stays linear."""

SMALL_WORK = 4096
"""Operations below which classes are much the same. Chosen."""

ALIVE = 4096
"""Bytes that live for one iteration from which on a tile gets a second loop. Chosen."""

SIDE_BY_SIDE = 128
"""Rows that are too many to be walked side by side. Chosen."""

HEAVY = 1 << 13
"""Products of an iteration from which on it is a tile of its own. Chosen."""

CANDIDATES = 4
"""Classes that are compared for the outermost loop. Chosen."""

EDGE = 8
"""Places by which the ranges of a frame differ at its ends, at most. Chosen: borders are short."""

SHORTEST_FRAME = 32
"""Iterations of a frame, at least. Chosen: a shorter one has no interior worth a loop."""

LARGE_EXTENTS = (32, 128, 512)
"""Unknown extents that are large, in this order. Chosen."""

NESTS_TRIED = 4
"""Nests of equal extents with which another one is compared. Chosen: merging stays linear."""

# -- sums of products

BLOCK_FEWEST = 4
"""Rows, lanes or terms of a block, at least. Chosen: half a vector."""

BLOCK_WORTH = 512
"""Products that are worth a call, at least. Chosen."""

PANEL = 128
"""Terms that are added in registers before they are added to the sums. Chosen."""

BLOCK_VECTOR = 8
"""Lanes and rows that are done at once, about: what is no multiple is padded. Counted: a vector of 512 bits."""

PACKED, PACKED_APART = 0.2, 1.5
"""Time of packing an element of the right operand, in terms of a vector: by ones, and in leaps. Chosen."""

ADDED, ADDED_APART = 0.3, 4.0
"""Time of adding registers to an element of the sums, likewise. Chosen."""

NARROW_ROWS, NARROW_COLUMNS, NARROW_MOST = 4, 5, 25
"""Vectors and columns of a block of a product with a few columns, and its columns at most. Counted: 32 registers hold
4 x 5 sums, and so many columns and fewer are what `BLOCK_VECTOR` pads."""

ACROSS, BESIDE = 20, 2
"""Time of adding up the lanes of a sum of such a product, and of adding one to an array, in terms of vectors that are
multiplied and added. Measured: 64 x 784 x 10 in double
and single precision with AVX-512 (EPYC, gcc 12) takes 0.76 and 0.63 of the time of wide blocks, 784 x 64 x 10 0.74 and
0.74."""

ALONE = 1.3
"""Time of a vector of columns that is alone in its blocks, likewise: rows are read for it as often as for two.
Measured: 784 x 64 x 10 in single precision."""

NARROW_GAIN = 0.9
"""Part of the time of wide blocks that such a product may take by this reckoning, at most. Chosen."""

TRIANGLE = 0.6
"""Part of a product that is done where a triangle of it counts. Chosen: half, and what blocks stick out."""

# -- threads

PAYS = 3_200_000
"""Operations that are worth waking threads for: about a tenth of a millisecond, so that a thread which another program
keeps from running does not cost more than it brings. Tried: 1,500,000 before register blocks counted a quarter."""

SOONER = 4
"""Part of `PAYS` that is worth sharing where calls follow each other at once. Measured with two cores (Sapphire Rapids,
gcc 12): epochs of softmax regression, 100 rows of 784 numbers a step, take 0.78 of the time."""

WAKES = 6
"""How many times `PAYS` is worth waking threads that sleep for. Measured with two cores: Rosenbrock's gradient after a
pause of 20 ms takes as long with threads as without for n = 300,000 (3 times `PAYS`), 0.8 of it for 1,000,000."""

COPYING = 32
"""Operations for each element of a sum from which on a thread's own copy of it pays. Chosen."""

COPY_BYTES = 1 << 23
"""Bytes of a thread's own copy of a sum, at most. Chosen."""

COPIES_BYTES = 1 << 26
"""Bytes of all copies of sums of open extents, at most. Chosen."""

FEW_GRAINS = 16
"""Pieces in which threads share products out, below which they are of `TILE_LEAST` rows. Chosen: parts are then equal
to a sixteenth."""

GRAIN = 64
"""Rows of the pieces in which threads share products out, however long the tiles. Tried: short ones leave none idle."""

# -- guesses

MATRIX = 64
"""Extent of a matrix that a routine works on, where it is unknown. Chosen."""

OUTER, INNER = 1 << 30, 1 << 9
"""Iterations of an outermost loop, and of one inside, of unknown extent, where a call's length is estimated. Chosen:
such a call must be one that can be stopped."""

# -- stopping a call

LONG_CALL = 20_000_000
"""Operations of a call that runs where it can be stopped: it may take 20 ms. Chosen."""

LONG_ITERATION = 100_000_000
"""Operations of an iteration inside of which loops look too: 100 ms. As `LONG_CALL`."""

GUESSED = 16
"""Iterations between two looks of a loop around one of unknown extent, at least. Chosen: it may be much shorter than
`INNER`."""

SELDOM = 4096
"""Operations between two looks of a loop with short iterations. Chosen: too seldom to be measured."""

# -- compile time and size of C

TEXT = 4096
"""Bytes of a constant that is text in C, at most; larger ones are passed. Chosen: a page of numbers can be read."""

LONG = 1000
"""Statements of a C function, or of the body of an innermost loop, at most. Measured with gcc 12: its time grows faster
than a function's length, and 10,000 operations in functions of 1,000 take 0.5 s."""

SHORT = LONG // 2
"""Statements of a piece where a body is cut, at least. Chosen."""

CUT_SUM = 1000
"""Values that a cut between a scalar sum's loop and its uses counts as. Chosen: the loop would lose its lanes."""

COMPILE_SECONDS = (0.07, 1.5e-4, 3.2e-4, 7.4e-3)
"""Seconds of the C compiler: for any program, for each statement, more for one inside of loops, for a loop in lanes.
Measured: fitted to 54 programs of 2 to 90,000 statements with gcc 12, unrolled loops among them; leaving one out at a
time, seconds are off by a factor of 1.5 in the mean and 4 at most, bytes by 1.2 and 2."""

COMPILE_BYTES = (40 * 2**20, 3500, 8200, 127_000)
"""Bytes of the C compiler, likewise."""

SCHEDULED = 2e-4
"""Seconds of our own for each statement, until there is C. Measured likewise."""

ONCE = 3
"""Calls of a product from which on gcc is kept from copying it for each. Measured: that took half of gcc's time for the
MLP."""
