"""The sitecustomize of a unittest run with a witness."""

try:
    import chimera_coverage  # a run that also measures coverage brings it
except ImportError:
    pass
import chimera_watch

if chimera_watch._account is not None:
    chimera_watch._watch_unittest()
