// The plugin's collectives through its table, on the double of CUDA and NCCL: correct results in every world and type.
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/cuda_double/script.hpp"
#include "tests/support/cuda_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)
using comm::Call;
using comm::Kind;

namespace {

/// Element i of rank r: exact in every type, also as a sum of three.
template <class T>
T value(std::size_t i, int rank) {
  auto const number = static_cast<float>(i % 13) + static_cast<float>(rank);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(number);
  } else {
    return T(number);
  }
}
template <class T>
std::vector<T> values(std::size_t count, int rank) {
  std::vector<T> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(value<T>(i, rank));
  }
  return all;
}
template <class T>
T sum(std::size_t i, int world) {
  float total = 0;
  for (int rank = 0; rank < world; ++rank) {
    total += static_cast<float>(i % 13) + static_cast<float>(rank);
  }
  return T(total);
}

/// The position of `in` relative to `out`.
enum class Place { apart, same, own_part };

struct Shape {
  std::size_t in;  ///< parts of `count`
  std::size_t out;
};
Shape shape(Kind kind, int world) {
  auto const all = static_cast<std::size_t>(world);
  switch (kind) {
    case Kind::reduce_scatter: return {all, 1};
    case Kind::all_gather: return {1, all};
    case Kind::all_to_all: return {all, all};
    default: return {1, 1};
  }
}

template <class T>
T wanted(Call const& call, std::size_t i, int rank, int world) {
  std::size_t const part = i / call.count;
  std::size_t const at = i % call.count;
  switch (call.kind) {
    case Kind::all_reduce: return sum<T>(i, world);
    case Kind::reduce_scatter: return sum<T>(static_cast<std::size_t>(rank) * call.count + i, world);
    case Kind::all_gather: return value<T>(at, static_cast<int>(part));
    case Kind::broadcast: return value<T>(i, call.root);
    default: return value<T>(static_cast<std::size_t>(rank) * call.count + at, static_cast<int>(part));
  }
}

/// Runs the call with buffers in that position; compares the whole output, and the input if it is separate.
template <class T>
std::string attempt(PluginComm& comm, Call call, Place place, int rank, int world) {
  auto const [in_parts, out_parts] = shape(call.kind, world);
  auto const input = values<T>(in_parts * call.count, rank);
  auto const larger = std::max(in_parts, out_parts) * call.count;
  auto const own = static_cast<std::size_t>(rank) * call.count;
  auto* const memory = static_cast<T*>(comm.allocate(2 * larger * sizeof(T)));
  T* in = memory;
  T* out = place == Place::apart ? memory + larger : memory;
  if (place == Place::own_part) {
    (in_parts < out_parts ? in : out) += own;
  }
  comm.copy(in, input.data(), input.size() * sizeof(T));
  call.in = in;
  call.out = out;
  comm.run(call);
  auto const got = comm.download(out, out_parts * call.count);
  auto const kept = comm.download(in, input.size());
  std::string const what = comm::describe(call) + " place " + std::to_string(static_cast<int>(place)) + " rank " +
                           std::to_string(rank) + " of " + std::to_string(world);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!(got[i] == wanted<T>(call, i, rank, world))) {
      return what + ": wrong at " + std::to_string(i);
    }
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    bool const overwritten = in + i >= out && in + i < out + got.size();
    if (!overwritten && !(kept[i] == input[i])) {
      return what + ": the input has changed at " + std::to_string(i);
    }
  }
  return "";
}

template <class T>
std::string every_kind(PluginComm& comm, int rank, int world) {
  std::string wrong;
  for (std::size_t const count : {1, 1000}) {
    Call call;
    call.type = dtype_of<T>;
    call.count = count;
    call.root = world - 1;
    for (auto const place : {Place::apart, Place::same, Place::own_part}) {
      for (auto const kind : {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::broadcast}) {
        call.kind = kind;
        bool const has_parts = kind == Kind::reduce_scatter || kind == Kind::all_gather;
        bool const possible = kind == Kind::broadcast ? place == Place::same : has_parts || place != Place::own_part;
        wrong += possible ? attempt<T>(comm, call, place, rank, world) : "";
      }
    }
    call.kind = Kind::all_to_all;
    wrong += attempt<T>(comm, call, Place::apart, rank, world);
  }
  return wrong;
}

std::string every_type(PluginComm& comm, int rank, int world) {
  return every_kind<float>(comm, rank, world) + every_kind<double>(comm, rank, world) +
         every_kind<float16>(comm, rank, world) + every_kind<bfloat16>(comm, rank, world) +
         every_kind<std::int32_t>(comm, rank, world) + every_kind<std::int64_t>(comm, rank, world) +
         every_kind<std::uint8_t>(comm, rank, world);
}

/// The mean of 60000 from each rank, and its negative from the last one; a separate input stays unchanged.
template <class T>
std::string f16_mean(PluginComm& comm, Wire wire, int rank, int world) {
  std::string wrong;
  constexpr std::size_t kCount = 5;
  float const before = world == 2 ? 0.5F : 0.25F;  // a power of two
  auto const scale = 1.0F / static_cast<float>(world);
  float const large = rank == 2 ? -60000.0F : 60000.0F;
  auto const want = T(60000.0F * before * static_cast<float>(world == 2 ? 2 : 1) * (scale / before));
  for (auto const kind : {Kind::all_reduce, Kind::reduce_scatter}) {
    for (bool const apart : {true, false}) {
      auto const parts = kind == Kind::reduce_scatter ? static_cast<std::size_t>(world) : 1;
      std::vector<T> const input(parts * kCount, T(large));
      auto* const in = comm.upload(input);
      auto* const out = apart ? comm.upload(input) : in;
      Call const call{
          .kind = kind, .type = dtype_of<T>, .wire = wire, .count = kCount, .scale = scale, .in = in, .out = out};
      comm.run(call);
      auto kept = input;
      std::fill_n(kept.begin(), apart ? 0 : kCount, want);
      bool const right =
          comm.download(out, kCount) == std::vector<T>(kCount, want) && comm.download(in, input.size()) == kept;
      wrong += right ? "" : comm::describe(call) + " is wrong ";
    }
  }
  return wrong;
}

std::uint64_t work() {
  std::uint64_t total = 0;
  for (char const* const name : {"kernel", "cudaMemcpyAsync", "cudaMemsetAsync", "cudaEventRecord", "ncclAllReduce",
                                 "ncclReduceScatter", "ncclAllGather", "ncclBroadcast", "ncclGroupEnd"}) {
    total += cxxrun_cuda_double_calls(name);
  }
  return total;
}

}  // namespace

TEST_CASE("cuda plugin: every collective is right in worlds of one, two and three", "[process]") {
  for (int world = 1; world <= 3; ++world) {
    CHECK(on_devices(world, "", [world](PluginComm& comm, int rank) { return every_type(comm, rank, world); }) == "");
  }
}

TEST_CASE("cuda plugin: collectives are right with registered memory and with windows, and where launches have to wait",
          "[process]") {
  for (char const* const script : {"nccl=21900", "nccl=22907", "launches=2"}) {
    CAPTURE(script);
    CHECK(on_devices(2, script, [](PluginComm& comm, int rank) { return every_type(comm, rank, 2); }) == "");
  }
}

TEST_CASE("cuda plugin: buffers of many pieces arrive whole", "[process]") {
  CHECK(on_devices(2, "", [](PluginComm& comm, int rank) {
          std::string wrong;
          for (auto const kind : {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::all_to_all}) {
            Call call;
            call.kind = kind;
            call.type = DType::f32;
            call.count = 300'001;
            wrong += attempt<float>(comm, call, Place::apart, rank, 2);
          }
          return wrong;
        }) == "");
}

TEST_CASE("cuda plugin: a collective of nothing is nothing, and a barrier may be alone", "[process]") {
  CHECK(on_devices(2, "", [](PluginComm& comm, int) {
          Call call;
          call.kind = Kind::all_reduce;
          auto const before = work();
          comm.run(call);
          std::string const wrong = work() == before ? "" : "something was launched";
          call.kind = Kind::barrier;
          comm.run(call);
          comm.synchronize();
          return wrong;
        }) == "");
}

TEST_CASE("cuda plugin: sums are scaled, on any wire, after they are whole", "[process]") {
  for (int world = 1; world <= 3; ++world) {
    CHECK(on_devices(world, "", [world](PluginComm& comm, int rank) {
            std::string wrong;
            for (auto const wire : {Wire::same, Wire::bf16, Wire::f16}) {
              for (auto const kind : {Kind::all_reduce, Kind::reduce_scatter}) {
                // The second is larger than the memory that the first has allocated.
                for (std::size_t const count : {1000, wire == Wire::bf16 ? 1'100'000 : 10}) {
                  auto const parts = kind == Kind::reduce_scatter ? static_cast<std::size_t>(world) : 1;
                  auto const input = values<float>(parts * count, rank);
                  auto* const in = comm.upload(input);
                  auto* const out = static_cast<float*>(comm.allocate(count * sizeof(float)));
                  Call call;
                  call.kind = kind;
                  call.type = DType::f32;
                  call.wire = wire;
                  call.count = count;
                  call.scale = 0.5F;
                  call.in = in;
                  call.out = out;
                  comm.run(call);
                  auto const got = comm.download(out, count);
                  for (std::size_t i = 0; i < count; ++i) {
                    auto const first = kind == Kind::reduce_scatter ? static_cast<std::size_t>(rank) * count : 0;
                    if (got[i] != sum<float>(first + i, world) / 2) {
                      wrong += comm::describe(call) + " is wrong at " + std::to_string(i);
                      break;
                    }
                  }
                }
              }
            }
            return wrong;
          }) == "");
  }
}

TEST_CASE("cuda plugin: a wire of 16 bits rounds what it sends, and not what comes out", "[process]") {
  CHECK(on_devices(2, "", [](PluginComm& comm, int rank) {
          Call call;
          call.kind = Kind::all_reduce;
          call.type = DType::f32;
          call.wire = Wire::bf16;
          call.count = 1;
          call.scale = 1.0F / 3.0F;
          auto* const data = comm.upload(std::vector<float>{rank == 0 ? 1.00390625F : 2.0F});  // a tie: becomes 1
          call.in = data;
          call.out = data;
          comm.run(call);
          return comm.download(data, 1)[0] == 3.0F * (1.0F / 3.0F) ? "" : "not 1";
        }) == "");
}

TEST_CASE("cuda plugin: a mean in f16 is right where the sum of its numbers is not finite", "[process]") {
  for (int world = 2; world <= 3; ++world) {
    CHECK(on_devices(world, "", [world](PluginComm& comm, int rank) {
            return f16_mean<float16>(comm, Wire::same, rank, world) + f16_mean<float>(comm, Wire::f16, rank, world);
          }) == "");
  }
}

TEST_CASE("cuda plugin: what a scale takes away beside the number of ranks is not lost in f16 before it", "[process]") {
  CHECK(on_devices(2, "", [](PluginComm& comm, int) {
          auto const scale = std::ldexp(1.0F, -30);
          auto* const data = comm.upload(std::vector<float>{1.0F, std::ldexp(1.0F, -13)});
          comm.run({.kind = Kind::all_reduce,
                    .type = DType::f32,
                    .wire = Wire::f16,
                    .count = 2,
                    .scale = scale,
                    .in = data,
                    .out = data});
          bool const right = comm.download(data, 2) == std::vector<float>{2 * scale, std::ldexp(scale, -12)};
          return right ? "" : "lost";
        }) == "");
}

TEST_CASE("cuda plugin: integers have a smallest and a largest, and floating point numbers are refused", "[process]") {
  CHECK(on_devices(3, "", [](PluginComm& comm, int rank) {
          std::string wrong;
          for (auto const op : {ReduceOp::min, ReduceOp::max}) {
            Call call;
            call.kind = Kind::all_reduce;
            call.type = DType::i32;
            call.op = op;
            call.count = 2;
            auto* const data = comm.upload(std::vector<std::int32_t>{rank - 1, 1 - rank});
            call.in = data;
            call.out = data;
            comm.run(call);
            int const want = op == ReduceOp::min ? -1 : 1;
            wrong += comm.download(data, 2) == std::vector<std::int32_t>{want, want} ? "" : "wrong";
            call.type = DType::f32;
            try {
              comm.run(call);
              wrong += "not refused";
            } catch (PluginError const& error) {
              wrong += error.code() == CXXRUN_CUDA_UNSUPPORTED ? "" : error.what();
            }
          }
          return wrong;
        }) == "");
}

TEST_CASE("cuda plugin: a world of one launches nothing in place", "[process]") {
  CHECK(on_devices(1, "", [](PluginComm& comm, int) {
          Call call;
          call.type = DType::f32;
          call.count = 1000;
          call.wire = Wire::bf16;
          call.in = call.out = comm.allocate(4000);
          auto const before = work();
          for (auto const kind : {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::broadcast,
                                  Kind::all_to_all, Kind::barrier}) {
            call.kind = kind;
            comm.run(call);
          }
          return work() == before ? "" : "something was launched";
        }) == "");
}
