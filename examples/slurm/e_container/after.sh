#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-task=2

srun cxxrun apptainer exec --nv image.sif python3 train.py --local-rank='${local_rank}'
