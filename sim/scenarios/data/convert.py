#!/usr/bin/env python3
"""Writes recorded routing as one byte an expert: convert.py FROM.npy TO.npy [RANKS].

FROM holds expert ids 0..255 as int16 of shape [ranks, tokens, topk] (-1 = none is refused: a byte has no room for it), or
float16 weights of that shape, which stay float16. RANKS: take only the first so many.
"""
import sys

import numpy


def main(source, target, ranks=None):
    array = numpy.load(source, allow_pickle=False)
    if array.ndim != 3:
        sys.exit(f"{source}: found shape {list(array.shape)}, expected [ranks, tokens, topk]")
    if ranks is not None:
        array = array[: int(ranks)]
    if array.dtype == numpy.int16:
        if array.min() < 0 or array.max() > 255:
            sys.exit(f"{source}: found experts {array.min()} to {array.max()}, expected 0 to 255")
        array = array.astype(numpy.uint8)
    elif array.dtype != numpy.float16:
        sys.exit(f"{source}: found dtype {array.dtype}, expected int16 or float16")
    numpy.save(target, array)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
