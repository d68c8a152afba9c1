"""The sitecustomize of a run of sympy's own runner with a witness.

sympy runs its tests in a child of its own, which must find the account too.
"""

import os
import sys

try:
    import chimera_coverage  # a run that also measures coverage brings it
except ImportError:
    pass
place = os.environ.get("CHIMERA_WATCH")
import chimera_watch

if place:
    os.environ["CHIMERA_WATCH"] = place
    sys.meta_path.insert(0, chimera_watch._SympyFinder())
