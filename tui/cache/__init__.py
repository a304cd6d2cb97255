"""The cache: frames of large files, stored so that they reopen at once, and verified before use."""
