"""Hostile answers: what a grader must fail, whatever it costs the answer to try.

    catalogue.attacks(kind, target)   (name, text) of every attack on graders of that kind
    run.attack(benchmark, tasks, …)   tries them and the benchmark's own, looks after the host
    targets.TARGETS                   a small grader of each kind, for the table in docs/attacks.md

A benchmark adds attacks of its own with a method `attacks(task) -> Iterable[(name, Submission)]`.
"""
