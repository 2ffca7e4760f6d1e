// Broadcast of many tensors in few calls: small tensors travel together, large ones by themselves and without a copy of
// ours.
#include <algorithm>
#include <cstring>

#include "src/runtime/client/access.hpp"
#include "src/runtime/gradient/synchronizer_impl.hpp"

namespace cxxrun {

using namespace cxxrun::gradient;  // NOLINT(google-build-using-namespace): the parts of this class

namespace {

constexpr std::size_t kLarge = std::size_t{256} << 10;  // bytes: worth a call of its own
constexpr std::size_t kParcel = std::size_t{4} << 20;

std::size_t bytes_of(Tensor const& tensor) {
  return tensor.count * size_of(tensor.type);
}

/// Small tensors one behind the other, until a parcel is full.
struct Parcel {
  Communicator& comm;
  int root;
  std::vector<std::byte> data;
  std::vector<Tensor> tensors{};
  std::size_t used = 0;

  void add(Tensor const& tensor) {
    if (used + bytes_of(tensor) > data.size()) {
      send();
    }
    if (tensor.count > 0) {
      tensors.push_back(tensor);
      used += bytes_of(tensor);
    }
  }
  void send() {
    bool const sends = comm.rank() == root;
    if (sends) {
      each([](std::byte* parcel, Tensor const& tensor) { std::memcpy(parcel, tensor.data, bytes_of(tensor)); });
    }
    comm.broadcast(data.data(), used, DType::u8, root);
    if (!sends) {
      each([](std::byte const* parcel, Tensor const& tensor) { std::memcpy(tensor.data, parcel, bytes_of(tensor)); });
    }
    tensors.clear();
    used = 0;
  }
  template <class Copy>
  void each(Copy copy) {
    std::byte* at = data.data();
    for (auto const& tensor : tensors) {
      copy(at, tensor);
      at += bytes_of(tensor);
    }
  }
};

Work start_on_device(Communicator& comm, Tensor const& tensor, int root) {
  return client::Access::start(comm, {.kind = comm::Kind::broadcast,
                                      .type = tensor.type,
                                      .root = root,
                                      .count = tensor.count,
                                      .in = tensor.data,
                                      .out = tensor.data});
}

}  // namespace

void GradientSynchronizer::broadcast(std::span<Tensor const> tensors, int root) {
  impl_->require_between_steps("broadcast()");
  impl_->judge_step_before();
  Communicator& comm = impl_->comm;
  bool const reachable = client::Access::device(comm) != nullptr;
  auto const on_device = [&](Tensor const& tensor) {
    return tensor.count > 0 && client::Access::on_device(comm, tensor.data);
  };
  auto items = items_of(tensors, root);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    items[items.size() - tensors.size() + i] += on_device(tensors[i]) ? " on the device" : "";
  }
  require_same(comm, items, "every rank must broadcast the same tensors from the same root");
  if (root < 0 || root >= comm.world_size()) {
    throw Failure(fail(Errc::usage, name_of_rank(comm, comm.rank()) + ": broadcast from rank " + std::to_string(root) +
                                        ": the ranks are 0 to " + std::to_string(comm.world_size() - 1)));
  }
  auto const far = std::find_if(tensors.begin(), tensors.end(), on_device);
  if (!reachable && far != tensors.end()) {
    auto const i = static_cast<std::size_t>(far - tensors.begin());
    throw Failure(fail(Errc::usage, name_of_rank(comm, comm.rank()) + ": broadcast of " +
                                        items[items.size() - tensors.size() + i] + client::out_of_reach_text()));
  }
  std::size_t small = 0;
  for (auto const& tensor : tensors) {
    small += bytes_of(tensor) < kLarge && !on_device(tensor) ? bytes_of(tensor) : 0;
  }
  Parcel parcel{comm, root, std::vector<std::byte>(std::min(small, kParcel))};
  Work queued;  // the last one of the device's, which come in order
  for (auto const& tensor : tensors) {
    if (on_device(tensor)) {
      queued = start_on_device(comm, tensor, root);
    } else if (bytes_of(tensor) < kLarge) {
      parcel.add(tensor);
    } else {
      comm.broadcast(tensor.data, tensor.count, tensor.type, root);
    }
  }
  if (small > 0) {
    parcel.send();
  }
  queued.wait();
}

}  // namespace cxxrun
