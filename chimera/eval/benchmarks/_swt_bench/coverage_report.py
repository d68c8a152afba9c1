"""Prints how many tests reached each executable line of each measured file."""

import json
import sys

import coverage

(place,) = sys.argv[1:]
reader = coverage.Coverage(data_file=place + "/data", config_file=False)
reader.combine([place])
data = reader.get_data()
lines = {}
for file in data.measured_files():
    statements = reader.analysis2(file)[1]
    contexts = data.contexts_by_lineno(file)
    lines[file] = {number: len(contexts.get(number, ())) for number in statements}
json.dump(lines, sys.stdout)
