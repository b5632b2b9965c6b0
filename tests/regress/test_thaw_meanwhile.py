"""What dlc.thaw forgets while another thread makes it was kept by that thread, for all later calls."""

import sys
import threading

import torch

import dlc
from dlc import _C


def test_what_is_forgotten_while_it_is_made_is_not_kept() -> None:
    model = torch.nn.Linear(2000, 2000)
    options = {"freeze": True, "products": "own", "tier": "tcc"}
    x = torch.randn(4, 2000)
    start = threading.Event()
    interval = sys.getswitchinterval()
    with torch.no_grad():
        compiled = torch.compile(model, backend="dlc", options=options)
        compiled(x)
        dlc.thaw(model)
        assert _C.prepared_bytes() == 0

        def call() -> None:
            with torch.no_grad():
                start.set()
                compiled(x)

        thread = threading.Thread(target=call)
        try:
            sys.setswitchinterval(100)  # the other thread goes on where this one waits, and no earlier
            thread.start()
            start.wait()
            dlc.thaw(model)
            thread.join()
        finally:
            sys.setswitchinterval(interval)
        assert _C.prepared_bytes() == 0
        torch.testing.assert_close(compiled(x), model(x))
        assert _C.prepared_bytes() > 0
    dlc.thaw(model)
