"""Prints the table of checks."""

from . import checks

for row in checks():
    print(f"{row.overload:36} {'takes' if row.taken else 'refuses'}  {row.what:44} {row.program}")
