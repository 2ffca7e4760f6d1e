"""Frameworks that train in a loop of their own: saved on all ranks in one step when the job is told to end (SIGTERM,
preemption, time limit) or asked for a checkpoint. One module for each; docs/use/frameworks.md. Without cxxrun they answer
SIGTERM alone."""
