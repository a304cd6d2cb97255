"""A part of a plain file, which whoever decodes it reads by himself."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """A part of a file, which may have been replaced since."""

    path: str
    device: int
    inode: int
    begin: int
    end: int

    def read(self) -> bytes:
        """Its bytes; fewer where the file has become shorter.

        Raises:
            OSError: The file is gone, or another one.
        """
        file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            status = os.fstat(file)
            if (status.st_dev, status.st_ino) != (self.device, self.inode):
                raise FileNotFoundError(self.path)
            return os.pread(file, self.end - self.begin, self.begin)
        finally:
            os.close(file)
