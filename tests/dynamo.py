"""What tests change of Dynamo itself, so that many small compiles take the time of their own work."""

import torch._dynamo.guards


def leave_guards_untimed() -> None:
    """Dynamo empties the processor's caches after each compile, to log how long the guards take.

    That is 20 ms, half of what a test of one operator takes; nothing but the log sees the figure.
    """
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0
