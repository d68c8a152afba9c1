"""See, compare and share runs: pages for a browser on this machine, and reports to send.

    library   which runs there are, and what is known of each
    index     what pages ask of a run, counted once and kept in the cache
    summary   a run in numbers, out of its index
    grid      the tasks and trials of a run: filtered, sorted, one after the other
    trial     everything of one trial; two trajectories side by side
    comparing two or more runs on the tasks they share
    search    words in prompts, answers and steps
    notes     what people wrote down, in a file beside the run
    plots     pictures as SVG; `markup` makes pages, and every foreign text in them text
    server    the pages over HTTP, for whoever has the token; `report` the same in one file

A run file is a stranger's: what is shown of it was read through `chimera.eval.runs.store`, which
checks and bounds it, and is written into a page as text alone.
"""
