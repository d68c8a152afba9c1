"""How LiveCodeBench runs an answer, in the answer's process; see `chimera.eval.kits.python.inside`.

Upstream does not start a program anew for each test. It turns the program into a function, puts an
object that is like standard input in part in its place, and calls the function again and again.
"""
