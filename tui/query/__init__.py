r"""The filter language, and what it does to a table.

Terms side by side must all match; ``|`` is either, ``!`` not, parentheses group.

- A word or a ``"phrase"`` is contained in any visible text column; ``~abc`` has these characters in order; ``/regex/``
  is found there. A capital letter makes upper and lower case matter (in a regex: outside of escapes).
- ``name:relu`` one column contains, ``name=relu`` is, ``name="relu"`` is exactly, in this case; ``grid~^\(128`` matches
  a regex, which ends at a blank unless it stands between slashes.
- ``stream=7``, ``device!=0``, ``dur>1ms``, ``dur=10us..2ms`` (both ends included; either may be left out),
  ``time>5%`` (of the total of the table's weight), ``tc=yes`` (or ``tc=1``), ``tc=no`` (or ``tc=0``).
- KB, MB and GB are powers of 1,000, KiB, MiB and GiB powers of 1,024. A bare number is in the unit that the column is
  shown in. Durations and sizes are compared exactly: ``dur=1.5ms`` is 1,500,000 ns and nothing else.
- ``?`` is unknown: ``rate=?``, ``rate!=?``. A comparison with an unknown value is never true, ``!=`` included;
  ``!`` takes all rows that its term does not match, so ``!device=0`` keeps rows of an unknown device and ``device!=0``
  does not.
- A column goes by its name, its title in any case, or an alias; one that needs it, in quotes (``"limited by"=warps``).
"""
