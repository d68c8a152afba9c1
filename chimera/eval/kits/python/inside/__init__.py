"""Steps that run in the answer's process: their text is sent there, so they import nothing of ours.

The first argument of a step are the names of the answer, which the judge may ask for.
"""
