"""FarmHash's Fingerprint64: the number of a string, the same for ever and everywhere.

The function `farmhashna::Hash64` of FarmHash (G. Pike, J. Alakuijala, 2014), which TensorFlow's hashed columns use, and
`FingerprintCat64`, by which TensorFlow joins two numbers in its crossed columns. Both are on Python's integers, modulo
2**64: strings are hashed on the host, once for each batch.
"""

from __future__ import annotations

_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_JOIN = 0xC6A4A7935BD1E995
_ALL = (1 << 64) - 1


def fingerprint64(data: bytes) -> int:
    """Return the fingerprint of some bytes, from 0 to 2**64 - 1.

    >>> hex(fingerprint64(b""))
    '0x9ae16a3b2f90404f'
    """
    n = len(data)
    if n > 64:
        return _long(data)
    mul = _K2 + n * 2
    if n > 16:
        return _middle(data, mul)
    if n >= 8:
        a, b = _eight(data, 0) + _K2, _eight(data, n - 8)
        return _join16(_turned(b, 37) * mul + a, (_turned(a, 25) + b) * mul, mul)
    if n >= 4:
        return _join16(n + (_four(data, 0) << 3), _four(data, n - 4), mul)
    if n:
        y, z = data[0] + (data[n >> 1] << 8), n + (data[-1] << 2)
        return _folded(y * _K2 ^ z * _K0) * _K2 & _ALL
    return _K2


def joined(first: int, second: int) -> int:
    """Return the fingerprint of two (`FingerprintCat64`).

    >>> joined(1, 2) == joined(2, 1)
    False
    """
    result = (first ^ _JOIN ^ _folded(second * _JOIN) * _JOIN) * _JOIN
    return _folded(_folded(result) * _JOIN)


def _middle(data: bytes, mul: int) -> int:
    """Hash 17 to 64 bytes."""
    n = len(data)
    first = _K1 if n <= 32 else _K2
    a, b = _eight(data, 0) * first, _eight(data, 8)
    c, d = _eight(data, n - 8) * mul, _eight(data, n - 16) * _K2
    y = _turned(a + b, 43) + _turned(c, 30) + d
    z = _join16(y, a + _turned(b + _K2, 18) + c, mul)
    if n <= 32:
        return z
    e, f = _eight(data, 16) * mul, _eight(data, 24)
    g, h = (y + _eight(data, n - 32)) * mul, (z + _eight(data, n - 24)) * mul
    return _join16(_turned(e + f, 43) + _turned(g, 30) + h, e + _turned(f + a, 18) + g, mul)


def _long(data: bytes) -> int:
    """Hash more than 64 bytes, 64 at a time, and the last 64 again."""
    n, seed = len(data), 81
    x, y = seed * _K2 + _eight(data, 0), seed * _K1 + 113
    z = _folded(y * _K2 + 113) * _K2
    v, w = (0, 0), (0, 0)

    def round_(at: int, mul: int, times: int, x: int, y: int, z: int, v: tuple[int, int], w: tuple[int, int]) -> tuple:  # type: ignore[type-arg]
        x = _turned(x + y + v[0] + _eight(data, at + 8), 37) * mul
        y = _turned(y + v[1] + _eight(data, at + 48), 42) * mul
        x = (x ^ w[1] * times) & _ALL
        y = y + v[0] * times + _eight(data, at + 40) & _ALL
        z = _turned(z + w[0], 33) * mul & _ALL
        v = _weak(data, at, v[1] * mul, x + w[0])
        w = _weak(data, at + 32, z + w[1], y + _eight(data, at + 16))
        return z, y, x, v, w

    for at in range(0, (n - 1) // 64 * 64, 64):
        x, y, z, v, w = round_(at, _K1, 1, x, y, z, v, w)
    mul = _K1 + ((z & 0xFF) << 1)
    w = (w[0] + (n - 1 & 63), w[1])
    v = (v[0] + w[0], v[1])
    w = (w[0] + v[0], w[1])
    x, y, z, v, w = round_(n - 64, mul, 9, x, y, z, v, w)
    return _join16(_join16(v[0], w[0], mul) + _folded(y) * _K0 + z, _join16(v[1], w[1], mul) + x, mul)


def _weak(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = [_eight(data, at + k) for k in (0, 8, 16, 24)]
    a += w
    b = _turned(b + a + z, 21)
    c = a
    a += x + y
    return a + z & _ALL, b + _turned(a, 44) + c & _ALL


def _join16(u: int, v: int, mul: int) -> int:
    a = _folded((u ^ v) * mul)
    return _folded((v ^ a) * mul) * mul & _ALL


def _folded(value: int) -> int:
    value &= _ALL
    return value ^ value >> 47


def _turned(value: int, by: int) -> int:
    value &= _ALL
    return (value >> by | value << 64 - by) & _ALL


def _eight(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _four(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")
