"""Compiled comparison of decimals with floats, exactly: both are whole numbers once powers of ten and two are moved."""

from __future__ import annotations

from operators.kernels.compile.kernel import kernel

LIMBS = 48
"""Limbs of 32 bits that hold the larger side: 256 bits times the 2**1126 under the least float."""


@kernel
def shift(limbs, bits):
    """Multiply a number, its limbs of 32 bits from the least on, by 2**bits in place."""
    words, rest = bits // 32, bits % 32
    for j in range(len(limbs) - 1, -1, -1):
        high = limbs[j - words] << rest if j >= words else 0
        low = limbs[j - words - 1] >> (32 - rest) if j > words else 0
        limbs[j] = (high & 0xFFFFFFFF) | low


@kernel
def order_floats(decimals, scale, mantissas, exponents, left, right, out):
    """Write -1, 0 or 1 for each decimal below, equal to or above its float.

    A decimal is decimals[i] / 10**scale, in limbs of 32 bits from the least on, two's complement; a float is
    mantissas[i] * 2**exponents[i]. `left` and `right` are room for LIMBS limbs each.
    """
    for i in range(len(out)):
        negative = decimals[i, 7] >> 31 == 1
        left[:] = 0
        carry, sign = 1, 0
        for j in range(8):
            limb = decimals[i, j]
            if negative:
                limb = (limb ^ 0xFFFFFFFF) + carry
                carry = limb >> 32
                limb &= 0xFFFFFFFF
            left[j] = limb
            if limb != 0:
                sign = -1 if negative else 1
        mantissa = mantissas[i]
        other = 1 if mantissa > 0 else -1 if mantissa < 0 else 0
        if sign != other or sign == 0:
            out[i] = 1 if sign > other else -1 if sign < other else 0
            continue
        right[:] = 0
        mantissa = abs(mantissa)
        right[0], right[1] = mantissa & 0xFFFFFFFF, mantissa >> 32
        for _ in range(scale):
            carry = 0
            for j in range(12):
                product = right[j] * 10 + carry
                right[j], carry = product & 0xFFFFFFFF, product >> 32
        if exponents[i] > 0:
            shift(right, exponents[i])
        else:
            shift(left, -exponents[i])
        found = 0
        for j in range(len(left) - 1, -1, -1):
            if left[j] != right[j]:
                found = 1 if left[j] > right[j] else -1
                break
        out[i] = found * sign
