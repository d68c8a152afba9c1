# Runs the tests of an exercise with pytest; a report goes to $SCRATCH.
exec python -B -m pytest -p no:cacheprovider --junitxml="$SCRATCH/report.xml"
