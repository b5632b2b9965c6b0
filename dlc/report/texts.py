"""What a report has as text. The command line names them too, where there may be no torch."""

#: Of a graph, in the order in which they are made.
TEXTS = ("graph", "kernels", "loops", "schedule", "tcc", "cc", "plan")
