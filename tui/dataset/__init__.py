"""Writing Parquet datasets of profiles; `tui.loaders.dataset` opens them."""
