// The kernels of the trainer on CUDA as plain C++, for tests on the double.
#include "train_cuda/attention.cu"
#include "train_cuda/layers.cu"
