"""Opening Parquet datasets of profiles, as ``proftui convert`` writes them."""
