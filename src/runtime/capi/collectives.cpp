// Collectives in C, blocking and in the background.
#include <algorithm>

#include "src/base/core/call.hpp"
#include "src/runtime/capi/guard.hpp"
#include "src/runtime/client/access.hpp"

namespace cxxrun::capi {
namespace {

/// `work` null: blocks until the call is done.
std::int32_t call(char const* function, cxxrun_comm* handle, comm::Call const& what, cxxrun_work** work) {
  return in_turn(function, handle, [&](Communicator& comm) {
    if (work == nullptr) {
      client::Access::run(comm, what);
    } else {
      *work = Tables::own().add(client::Access::start(comm, what));
    }
    return CXXRUN_OK;
  });
}

DType type_of(char const* function, std::int32_t type) {
  require_in(type, CXXRUN_U8, function, "type");
  return static_cast<DType>(type);
}
ReduceOp op_of(char const* function, std::int32_t op) {
  require_in(op, CXXRUN_MAX, function, "op");
  return static_cast<ReduceOp>(op);
}
Wire wire_of(char const* function, std::int32_t wire) {
  require_in(wire, CXXRUN_WIRE_F16, function, "wire");
  return static_cast<Wire>(wire);
}

static_assert(static_cast<int>(DType::u8) == CXXRUN_U8 && static_cast<int>(DType::i32) == CXXRUN_I32);
static_assert(static_cast<int>(ReduceOp::max) == CXXRUN_MAX && static_cast<int>(ReduceOp::min) == CXXRUN_MIN);
static_assert(static_cast<int>(Wire::f16) == CXXRUN_WIRE_F16 && static_cast<int>(Wire::bf16) == CXXRUN_WIRE_BF16);
static_assert(static_cast<int>(Backend::host) == CXXRUN_HOST && static_cast<int>(Backend::nccl) == CXXRUN_NCCL);

/// Calls with the numbers of C that say what the elements are, and how they are reduced.
std::int32_t move_elements(char const* function, cxxrun_comm* handle, comm::Call what, std::int32_t type,
                           cxxrun_work** work) {
  return guarded([&] {
    what.type = type_of(function, type);
    return call(function, handle, what, work);
  });
}
// NOLINTNEXTLINE(readability-function-size): the parameters of a reduction
std::int32_t reduce_elements(char const* function, cxxrun_comm* handle, comm::Call what, std::int32_t type,
                             std::int32_t op, std::int32_t wire, cxxrun_work** work) {
  return guarded([&] {
    what.type = type_of(function, type);
    what.op = op_of(function, op);
    what.wire = wire_of(function, wire);
    return call(function, handle, what, work);
  });
}

/// Finds the Work of a handle; throws if there is none.
std::shared_ptr<Work> work_of(char const* function, cxxrun_work const* handle) {
  auto work = Tables::own().find(handle);
  if (work == nullptr) {
    refuse_handle(function, "work");
  }
  return work;
}

}  // namespace
}  // namespace cxxrun::capi

using namespace cxxrun::capi;  // NOLINT(google-build-using-namespace)
using cxxrun::Stream;
using cxxrun::comm::Kind;

// NOLINTBEGIN(readability-function-size): the parameters of a collective
std::int32_t cxxrun_all_reduce(cxxrun_comm* comm, void const* in, void* out, std::size_t count, std::int32_t type,
                               std::int32_t op, std::int32_t wire, float scale, void* stream, cxxrun_work** work) {
  return reduce_elements(
      "cxxrun_all_reduce", comm,
      {.kind = Kind::all_reduce, .count = count, .scale = scale, .in = in, .out = out, .stream = {stream}}, type, op,
      wire, work);
}

std::int32_t cxxrun_reduce_scatter(cxxrun_comm* comm, void const* in, void* out, std::size_t count, std::int32_t type,
                                   std::int32_t op, std::int32_t wire, float scale, void* stream, cxxrun_work** work) {
  return reduce_elements(
      "cxxrun_reduce_scatter", comm,
      {.kind = Kind::reduce_scatter, .count = count, .scale = scale, .in = in, .out = out, .stream = {stream}}, type,
      op, wire, work);
}

std::int32_t cxxrun_all_gather(cxxrun_comm* comm, void const* in, void* out, std::size_t count, std::int32_t type,
                               void* stream, cxxrun_work** work) {
  return move_elements("cxxrun_all_gather", comm,
                       {.kind = Kind::all_gather, .count = count, .in = in, .out = out, .stream = {stream}}, type,
                       work);
}

std::int32_t cxxrun_broadcast(cxxrun_comm* comm, void* data, std::size_t count, std::int32_t type, std::int32_t root,
                              void* stream, cxxrun_work** work) {
  return move_elements(
      "cxxrun_broadcast", comm,
      {.kind = Kind::broadcast, .root = root, .count = count, .in = data, .out = data, .stream = {stream}}, type, work);
}

std::int32_t cxxrun_all_to_all(cxxrun_comm* comm, void const* in, void* out, std::size_t count, std::int32_t type,
                               void* stream, cxxrun_work** work) {
  return move_elements("cxxrun_all_to_all", comm,
                       {.kind = Kind::all_to_all, .count = count, .in = in, .out = out, .stream = {stream}}, type,
                       work);
}
// NOLINTEND(readability-function-size)

std::int32_t cxxrun_barrier(cxxrun_comm* comm, cxxrun_work** work) {
  return call("cxxrun_barrier", comm, {.kind = Kind::barrier}, work);
}

std::int32_t cxxrun_wait(cxxrun_work* work, std::int64_t timeout_ms) {
  std::int32_t const status = guarded([&] {
    auto const its = work_of("cxxrun_wait", work);
    auto const most = timeout_ms < 0 ? cxxrun::kForever : std::min(cxxrun::Millis(timeout_ms), cxxrun::kForever);
    return cxxrun::client::Access::wait_for(*its, most) ? CXXRUN_OK : CXXRUN_NOT_DONE;
  });
  if (status != CXXRUN_NOT_DONE) {
    Tables::own().take(work);
  }
  return status;
}

std::int32_t cxxrun_wait_on(cxxrun_work* work, void* stream) {
  return guarded([&] {
    work_of("cxxrun_wait_on", work)->wait_on(Stream{stream});
    return CXXRUN_OK;
  });
}

std::int32_t cxxrun_forget(cxxrun_work* work) {
  return guarded([&] {
    if (work != nullptr && Tables::own().take(work) == nullptr) {
      refuse_handle("cxxrun_forget", "work");
    }
    return CXXRUN_OK;
  });
}
