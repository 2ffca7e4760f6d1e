// A GradientSynchronizer between steps: construction, layout, norms, broadcast.
#include <algorithm>
#include <cstring>

#include "src/runtime/client/access.hpp"
#include "src/runtime/comm/node_map.hpp"
#include "src/runtime/gradient/synchronizer_impl.hpp"

namespace cxxrun {

using namespace cxxrun::gradient;  // NOLINT(google-build-using-namespace): the parts of this class

namespace {

bool has_type(std::vector<Parameter> const& parameters, DType type) {
  return std::any_of(parameters.begin(), parameters.end(), [type](auto const& each) { return each.type == type; });
}

}  // namespace

GradientSynchronizer::Impl::Impl(Communicator& communicator, std::vector<Parameter> given, Options const& chosen)
    : comm(communicator),
      options(chosen),
      parameters(std::move(given)),
      generation(comm.generation()),
      alone(comm.world_size() == 1),
      call_scale(chosen.average ? 1.0F / static_cast<float>(comm.world_size()) : 1.0F),
      order(reverse_order(parameters.size())),
      rebuild_due(chosen.rebuild_order && !alone),
      tracker(parameters.size()),
      has_f16(has_type(parameters, DType::f16)),
      unit_due(has_f16 && !alone),
      scale(chosen.average ? 1.0 : 1.0 / comm.world_size()) {
  require_same(comm, items_of(parameters, options),
               "every rank must give the same parameters in the same order, and the same options");
  if (auto const why = refusal(parameters)) {
    throw Failure(fail(Errc::usage, *why));
  }
  bool const wide = has_type(parameters, DType::f64);
  control_needs = {Control::kSlots + (options.find_unused ? parameters.size() : 0),
                   !wide && options.wire == Wire::same};
  if (options.find_unused) {
    touched.resize(parameters.size());
  }
  used.assign(parameters.size(), 1);
  auto* const device = client::Access::device(comm);
  auto const bytes = arena_bytes(parameters, control_needs);
  auto const whole = bytes + (device == nullptr ? 0 : Memory::kScratch + (rebuild_due ? Memory::room(bytes) : 0));
  arena = comm.arena(whole);
  memory = {arena.allocate_bytes(whole).data(), bytes, device};
  control_out.resize(control_needs.slots * sizeof(double));
  control_in.resize(control_out.size());
  use_layout(make_layout(parameters, order, {options.first_bucket_bytes, options.bucket_bytes}, control_needs));
  tracker.record(rebuild_due);
  begin_step();
}

/// The totals of a step that wait(stream) did not wait for may still be written to control_in.
GradientSynchronizer::Impl::~Impl() {
  try {
    if (memory.on_device()) {
      memory.device().wait(results);
    }
  } catch (...) {  // it was thrown before, or the next call on the Communicator throws it
  }
}

Parameter const& GradientSynchronizer::Impl::parameter(std::size_t index) const {
  if (index >= parameters.size()) {
    throw Failure(fail(Errc::usage, here() + ": there is no parameter " + std::to_string(index) + ": there are " +
                                        std::to_string(parameters.size()) + ", counted from 0"));
  }
  return parameters[index];
}

void GradientSynchronizer::Impl::require_between_steps(char const* what) const {
  if (failed) {
    std::rethrow_exception(failed);
  }
  require_same_generation();
  if (started.load(std::memory_order_relaxed) != 0) {
    throw Failure(fail(Errc::usage, here() + ": " + what + " between the first mark_ready() of a step and its wait()"));
  }
}

// Its means would be for another number of ranks.
void GradientSynchronizer::Impl::require_same_generation() const {
  if (comm.generation() != generation) {
    throw Failure(fail(Errc::usage, here() + ": a GradientSynchronizer of generation " + std::to_string(generation) +
                                        ", which has ended; make a new one after rebuild()"));
  }
}

void GradientSynchronizer::Impl::use_layout(Layout next) {
  layout = std::move(next);
  tracker.use(layout);
  works = std::vector<Work>(layout.buckets.size());
  times.resize(layout.buckets.size());
  streams = std::make_unique<std::atomic<void*>[]>(layout.buckets.size());
  stats.buckets.reserve(layout.buckets.size());
}

/// All ranks use the order in which rank 0's gradients became ready. The values move with their gradients.
void GradientSynchronizer::Impl::rebuild() {
  order = completed_order(tracker.seen(), order);
  comm.broadcast(order.data(), order.size() * sizeof(std::uint32_t), DType::u8);
  tracker.record(false);
  auto next = make_layout(parameters, order, {options.first_bucket_bytes, options.bucket_bytes}, control_needs);
  if (next == layout) {
    return;
  }
  memory.rearrange(layout, next);
  use_layout(std::move(next));
}

GradientSynchronizer::GradientSynchronizer(Communicator& comm, std::vector<Parameter> parameters, Options options)
    : impl_(std::make_unique<Impl>(comm, std::move(parameters), options)) {}
GradientSynchronizer::GradientSynchronizer(Communicator& comm, std::vector<Parameter> parameters)
    : GradientSynchronizer(comm, std::move(parameters), Options{}) {}
GradientSynchronizer::~GradientSynchronizer() = default;
GradientSynchronizer::GradientSynchronizer(GradientSynchronizer&&) noexcept = default;

std::size_t GradientSynchronizer::size() const {
  return impl_->parameters.size();
}
bool GradientSynchronizer::on_device() const {
  return impl_->memory.on_device();
}
void* GradientSynchronizer::gradient_data(std::size_t index) {
  static_cast<void>(impl_->parameter(index));
  return impl_->memory.at(impl_->layout.places[index].offset);
}
void* GradientSynchronizer::typed_data(std::size_t index, DType type) {
  Parameter const& parameter = impl_->parameter(index);
  if (type != parameter.type) {
    throw Failure(fail(Errc::usage, impl_->here() + ": gradient " + quoted_name(parameter.name) + " is " +
                                        std::string(name_of(parameter.type)) + ", not " + std::string(name_of(type)) +
                                        "; take it as gradient() of its own type"));
  }
  return gradient_data(index);
}
std::size_t GradientSynchronizer::count(std::size_t index) const {
  return impl_->parameter(index).count;
}
void GradientSynchronizer::mark_ready(std::size_t index, Stream stream) {
  impl_->mark_ready(index, stream);
}
void GradientSynchronizer::wait() {
  impl_->wait(std::nullopt);
}
void GradientSynchronizer::wait(Stream stream) {
  impl_->wait(stream);
}
void GradientSynchronizer::set_weight(double samples) {
  impl_->require_between_steps("set_weight()");
  if (!std::isfinite(samples) || samples < 0) {
    throw Failure(fail(Errc::usage, impl_->here() + ": a weight of " + std::to_string(samples) +
                                        ": it is the number of samples, 0 or more"));
  }
  impl_->weight = samples;
}
double GradientSynchronizer::scale() const {
  return impl_->scale;
}
bool GradientSynchronizer::used(std::size_t index) const {
  static_cast<void>(impl_->parameter(index));
  return impl_->used[index] != 0;
}
GradientSynchronizer::NoSync::NoSync(GradientSynchronizer& sync) : sync_(sync) {
  sync_.impl_->require_between_steps("no_sync()");
  sync_.impl_->no_sync.fetch_add(1, std::memory_order_relaxed);
}
GradientSynchronizer::NoSync::~NoSync() {
  sync_.impl_->no_sync.fetch_sub(1, std::memory_order_relaxed);
}
GradientSynchronizer::NoSync GradientSynchronizer::no_sync() {
  return NoSync(*this);
}
/// This rank's share of all gradients, whose squares it adds up.
std::vector<Piece> GradientSynchronizer::Impl::own_part() const {
  std::vector<Piece> pieces;
  for (auto const& [type, offset, bytes, slots, gradients] : layout.buckets) {
    auto const size = size_of(type);
    auto const mine = comm::part_of(bytes / size, comm.rank(), comm.world_size(), Arena::kAlignment / size);
    pieces.push_back({type, offset + mine.first * size, mine.count});
  }
  return pieces;
}
double GradientSynchronizer::gradient_norm() {
  Impl& self = *impl_;
  self.require_between_steps("gradient_norm()");
  self.judge_step_before();
  self.memory.after({});
  double sum = self.memory.sum_of_squares(self.own_part());
  if (!self.alone) {
    self.comm.all_reduce(std::span(&sum, 1));
  }
  return std::sqrt(sum);
}
void GradientSynchronizer::squared_norm(double* result, Stream stream) {
  Impl& self = *impl_;
  self.require_between_steps("squared_norm()");
  if (!self.memory.on_device()) {
    *result = std::pow(gradient_norm(), 2);
    return;
  }
  auto& device = self.memory.device();
  if (!device.is_device(result)) {
    throw Failure(fail(Errc::usage, self.here() +
                                        ": squared_norm() of gradients in device memory: give it device memory "
                                        "for the result, or call gradient_norm()"));
  }
  self.memory.after(stream);
  self.memory.queue_squares(self.own_part());
  if (!self.alone) {
    auto* const sum = self.memory.squares();
    auto const work = self.comm.start_all_reduce(sum, sum, 1, DType::f64, ReduceOp::sum, Wire::same, 1.0F, stream);
  }
  device.copy(result, self.memory.squares(), sizeof *result);
  device.wait_on(device.mark(), stream);
}
double GradientSynchronizer::clip_gradients(double most) {
  Impl& self = *impl_;
  if (!std::isfinite(most) || most <= 0) {
    throw Failure(fail(Errc::usage, self.here() + ": clip_gradients(" + std::to_string(most) +
                                        "): give the largest norm that is allowed, more than 0"));
  }
  double const norm = gradient_norm();
  if (std::isfinite(norm) && norm > most) {
    for (auto const& [type, offset, bytes, slots, gradients] : self.layout.buckets) {
      self.memory.multiply({type, offset, bytes / size_of(type)}, most / norm);
    }
    if (self.memory.on_device()) {
      self.memory.device().wait(self.memory.device().mark());
    }
  }
  return norm;
}
SyncStats const& GradientSynchronizer::stats() const {
  return impl_->stats;
}

// ---- broadcast: small tensors are packed together, large ones are sent separately without a copy

namespace {

constexpr std::size_t kLarge = std::size_t{256} << 10;  // bytes that justify a separate call
constexpr std::size_t kParcel = std::size_t{4} << 20;

std::size_t bytes_of(Tensor const& tensor) {
  return tensor.count * size_of(tensor.type);
}

/// Collects small tensors and broadcasts them when the buffer is full.
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
  Work queued;  // the last call on the device, where calls run in order
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
