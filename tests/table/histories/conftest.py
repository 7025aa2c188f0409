from __future__ import annotations

import sys
from pathlib import Path

# The histories share the cases of the folder above.
sys.path.insert(0, str(Path(__file__).parents[1]))
