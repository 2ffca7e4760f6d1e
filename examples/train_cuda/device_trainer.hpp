// A trainer on a device: parameters, moments, gradients and activations are in its memory, and everything is queued on
// one stream. The host waits for it where it copies: a step's characters to the device, and its totals back.
#pragma once

#include <optional>

#include "train/arena_trainer.hpp"
#include "train_cuda/device_model.hpp"

namespace train {

class DeviceTrainer final : public ArenaTrainer {
 public:
  DeviceTrainer(Text const& text, Options const& options);

 private:
  /// Made when the Communicator has chosen the device.
  struct Device {
    Device(Shape const& shape, std::size_t most_rows) : model(shape, most_rows) {}
    DeviceModel<float> model;
    DeviceStream stream;  ///< the first to end: it waits
  };
  Device& device();

  Totals calculate(World& world, Text::Batch const& batch) override;
  void optimize(World& world, AdamFactors const& factors, float scale) override;
  void copy(void* to, void const* from, std::size_t bytes) override;
  void queue_copy(void* to, void const* from, std::size_t bytes);  ///< done when a later copy() is

  std::optional<Device> device_;
};

}  // namespace train
