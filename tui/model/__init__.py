"""The data model: frames, columns, errors. It imports no other part of proftui."""
