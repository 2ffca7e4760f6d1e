// train_cuda: ../train on GPUs, one for each rank. README.md says how to start it.
#include "train/program.hpp"
#include "train_cuda/device_trainer.hpp"

int main(int argc, char** argv) {
  cxxrun::Communicator::Options options;
  options.backend = cxxrun::Backend::nccl;
  return train::run(
      {.name = "train_cuda",
       .communicator = options,
       .make_trainer = [](train::Text const& text,
                          train::Options const& given) { return std::make_unique<train::DeviceTrainer>(text, given); }},
      argc, argv);
}
