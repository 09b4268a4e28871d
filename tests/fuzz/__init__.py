"""Bad inputs to every reader and every command, made from grammars near valid ones.

A case is a number. It decides the kind of the input, and with the seed everything in it, so that a
finding is repeated by ``python -m tests.fuzz --seed S --case I``.
"""
