"""The strips as `make` has compiled them."""

from functools import cache

from benchmarks.ulp.strips import Strips
from tests.objects import table_address


@cache
def strips(isa: str) -> Strips:
    return Strips(isa, table_address(f"codegen/strips/strips_{isa}.isa", f"strip_rows_{isa}"))
