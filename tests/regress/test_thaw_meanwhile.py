"""What dlc.thaw forgets while another thread makes it was kept by that thread, for all later calls."""

import threading
import time

import torch

import dlc
from dlc import _C


def test_what_is_forgotten_while_it_is_made_is_not_kept() -> None:
    model = torch.nn.Linear(2000, 2000)
    x = torch.randn(4, 2000)
    with torch.no_grad():
        weight = model.weight.numpy()  # torch does not count what is written through it
        compiled = torch.compile(
            model, backend="dlc", options={"freeze": True, "products": "own", "tier": "tcc"}
        )
        compiled(x)
        made = time.perf_counter()
        dlc.thaw(model)
        compiled(x)
        made = time.perf_counter() - made

        def call() -> None:
            with torch.no_grad():
                compiled(x)

        for k in range(12):  # the thread is at another place of its work each time
            dlc.thaw(model)
            thread = threading.Thread(target=call)
            thread.start()
            time.sleep(made * k / 10)
            weight *= -1
            dlc.thaw(model)
            thread.join()
            torch.testing.assert_close(compiled(x), model(x))
    dlc.thaw(model)
    assert _C.prepared_bytes() == 0
