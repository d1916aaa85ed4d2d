"""Prints the PESQ (narrow band) of a WAV file against what it was at first, both of 8000 linear samples a second.

usage: score.py SENT HEARD
"""

import sys
import wave

import numpy
import pesq


def samples(path):
    with wave.open(path) as file:
        return numpy.frombuffer(file.readframes(file.getnframes()), dtype="<i2")


print(pesq.pesq(8000, samples(sys.argv[1]), samples(sys.argv[2]), "nb"))
