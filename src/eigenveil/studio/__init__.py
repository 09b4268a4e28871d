"""A page on this computer for people who do not program: plan, release, read, watch.

It stands above the command line: what it runs are the same commands, in the words that it shows.
"""
