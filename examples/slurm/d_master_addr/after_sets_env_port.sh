#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1

srun cxxrun --nproc-per-node=2 --master-port=23456 train_sets_env.py
