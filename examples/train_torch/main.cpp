// train_torch: examples/train with a model of libtorch. examples/train_torch/README.md says how to start it.
#include "train/program.hpp"
#include "train_torch/torch_trainer.hpp"

int main(int argc, char** argv) {
  return train::run({.name = "train_torch", .make_trainer = train::make_torch_trainer}, argc, argv);
}
