// train: trains a small GPT on all ranks of the job. examples/train/README.md says how to start it.
#include "train/host_trainer.hpp"
#include "train/program.hpp"

int main(int argc, char** argv) {
  return train::run({.name = "train",
                     .make_trainer =
                         [](train::Text const& text, train::Options const& options) {
                           return std::make_unique<train::HostTrainer>(text, options);
                         }},
                    argc, argv);
}
