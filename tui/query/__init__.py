r"""The filter language, and its application to a table.

Adjacent terms must all match; ``|`` is or, ``!`` is not, parentheses group.

- A word or a ``"phrase"`` is contained in any visible text column; ``~abc`` has these characters in order; ``/regex/``
  is found there. A capital letter makes the search case-sensitive (in a regex: outside of escapes).
- ``name:relu`` one column contains, ``name=relu`` is, ``name="relu"`` is exactly, in this case; ``grid~^\(128`` matches
  a regex, which ends at a blank unless it is between slashes.
- ``stream=7``, ``device!=0``, ``dur>1ms``, ``dur=10us..2ms`` (both ends included; either may be omitted), ``time>5%``
  (of the total of the table's weight), ``tc=yes`` (or ``tc=1``), ``tc=no`` (or ``tc=0``).
- KB, MB and GB are powers of 1,000, KiB, MiB and GiB powers of 1,024. A bare number is in the unit that the column is
  shown in. Durations and sizes are compared exactly: ``dur=1.5ms`` is exactly 1,500,000 ns.
- ``?`` is unknown: ``rate=?``, ``rate!=?``. A comparison with an unknown value is never true, not even ``!=``; ``!``
  selects all rows that its term does not match, so ``!device=0`` keeps rows of an unknown device and ``device!=0`` does
  not.
- A column is named by its name, its title in any case, or an alias; in quotes if it has blanks (``"limited
  by"=warps``).
"""
