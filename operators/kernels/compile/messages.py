# pyright: reportMissingParameterType=false
"""Compiled writing of short texts by number, and of the message that `operators.data.batches` reads a batch from."""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel

ROWS, BODY = 0, 1
"""Columns of the first row of `places`: words of the message for its rows, and for the bytes of its body."""
NODE, BUFFERS, TEXT = 0, 1, 2
"""Columns of the others, a row a field: words for its length and for its buffers, and whether it is a text."""


@kernel
def take(places, offsets, letters, found_offsets, found):
    """Write text p = places[i], letters[offsets[p]:offsets[p + 1]], one after the other as an Arrow column is laid out.

    Gives the number of letters.
    """
    size = 0
    found_offsets[0] = 0
    for i in range(len(places)):
        for at in range(offsets[places[i]], offsets[places[i] + 1]):
            found[size] = letters[at]
            size += 1
        found_offsets[i + 1] = size
    return size


@kernel
def write(head, places, n, words, chosen, offsets, letters):
    """Write the head of a message of n rows to `words`, and texts by number behind the columns of 64 bits.

    These stand in `words` behind the head already, in order; text i of the one column of texts is that of chosen[i].
    """
    for i in range(len(head)):
        words[i] = head[i]
    words[places[0, ROWS]] = n
    body = np.int64(0)
    for i in range(1, len(places)):
        words[places[i, NODE]] = n
        at = places[i, BUFFERS]
        # The two words of a buffer are its place in the body and its bytes; the first buffer, of nulls, stays empty.
        if places[i, TEXT] == 0:
            words[at + 2] = body
            words[at + 3] = 8 * n
            body += 8 * n
    for i in range(1, len(places)):
        if places[i, TEXT] != 0:
            at = places[i, BUFFERS]
            words[at + 2] = body
            words[at + 3] = 4 * (n + 1)
            body += 8 * ((n + 2) // 2)
            words[at + 4] = body
            start = len(head) + (words[at + 2] >> 3)
            stop = len(head) + (body >> 3)
            words[at + 5] = take(
                chosen[:n], offsets, letters, words[start:stop].view(np.int32), words[stop:].view(np.uint8)
            )
            body += 8 * ((words[at + 5] + 7) // 8)
    words[places[0, BODY]] = body


@kernel
def write_rows(head, places, n, words, rows, first, offsets, letters):
    """Write a message as `write` does, of the first n places of `rows`: those from `first` on, then rows 1 to 3.

    Row 0 has the numbers of the texts.
    """
    at = len(head)
    for r in range(first, len(rows)):
        for i in range(n):
            words[at + i] = rows[r, i]
        at += n
    for r in range(1, 4):
        for i in range(n):
            words[at + i] = rows[r, i]
        at += n
    write(head, places, n, words, rows[0], offsets, letters)
