"""``python -m tui`` is ``proftui``."""

from tui.cli import main

raise SystemExit(main())
