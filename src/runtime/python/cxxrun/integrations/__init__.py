"""For frameworks with a training loop of their own: saves on all ranks after the same step when the job is told to end
(SIGTERM, preemption, time limit) or asked for a checkpoint. One module per framework (docs/use/frameworks.md). Without
cxxrun they only answer SIGTERM."""
