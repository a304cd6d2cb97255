"""Writing Parquet datasets of profiles; `tui.loaders.dataset_loader` opens them."""
