"""What was read of large files, kept so that opening them again takes no time; never believed without proof."""
