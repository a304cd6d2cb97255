"""``python -m tui`` is ``proftui``."""

from tui.cli.main import main

raise SystemExit(main())
