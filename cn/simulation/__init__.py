"""Networks in one process with a virtual clock, faults and a topology; used by tests and benchmarks."""
