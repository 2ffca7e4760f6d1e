#!/bin/bash
# Runs once per node: one process per GPU, each in a container.
for local_rank in $(seq 0 $((SLURM_GPUS_ON_NODE - 1))); do
    RANK=$((SLURM_PROCID * SLURM_GPUS_ON_NODE + local_rank)) \
        apptainer exec --nv image.sif python3 train.py --local-rank=$local_rank &
done
wait
