// The plugin's kernels as loops: the same arithmetic in the same order.
#include <cstddef>
#include <string>

#include "src/runtime/comm/element_formats.hpp"
#include "src/runtime/cuda/device_kernels.hpp"
#include "tests/support/cuda_double/script.hpp"
#include "tests/support/cuda_double/stream.hpp"
#include "tests/support/square_order.hpp"

using namespace cxxrun::cuda_double;  // NOLINT(google-build-using-namespace)

namespace {

using cxxrun::comm::BF16;
using cxxrun::comm::F16;
using cxxrun::comm::F32;
using cxxrun::comm::F64;

template <class Work>
cudaError_t launch(std::string const& name, cudaStream_t stream, Work work) {
  count("kernel");
  need_kernel(name);
  queue_of(stream)->push(work);
  return answer(state());
}

/// There are two of each: for addresses at multiples of 16 bytes, and for others.
std::string kernel_name(char const* what, std::uint8_t type, void const* in, void const* out) {
  auto const aligned = [](void const* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; };
  return what + std::to_string(type) + (aligned(in) && aligned(out) ? "" : ", one at a time");
}

template <class In, class Out, class Map>
cudaError_t launch_map(std::string const& name, In const* in, Out* out, std::uint64_t elements, Map map,
                       cudaStream_t stream) {
  return launch(name, stream, [=] {
    for (std::uint64_t i = 0; i < elements; ++i) {
      out[i] = map(in[i]);
    }
  });
}

/// Calls `use` with the format of this number.
template <class Use>
cudaError_t with_format(std::uint8_t type, Use use) {
  switch (type) {
    case 0: return use(F32{});
    case 1: return use(F64{});
    case 2: return use(F16{});
    case 3: return use(BF16{});
    default: return answer(cudaErrorInvalidValue);
  }
}
template <class Use>
cudaError_t with_wire(std::uint8_t wire, Use use) {
  switch (wire) {
    case 1: return use(BF16{});
    case 2: return use(F16{});
    default: return answer(cudaErrorInvalidValue);
  }
}

}  // namespace

cudaError_t cxxrun_cuda_launch_probe(std::uint32_t* word, std::uint32_t value, cudaStream_t stream) {
  if (script().first_kernel_at_launch) {
    return answer(static_cast<cudaError_t>(script().first_kernel));
  }
  return launch("probe", stream, [=] {
    if (script().first_kernel != 0) {
      set_sticky_error(static_cast<cudaError_t>(script().first_kernel));
      return;
    }
    *word = value;
  });
}

cudaError_t cxxrun_cuda_launch_encode(std::uint8_t wire, float const* from, void* to, std::uint64_t elements,
                                      float scale, cudaStream_t stream) {
  return with_wire(wire, [=]<class Format>(Format) {
    auto* const bits = static_cast<std::uint16_t*>(to);
    return launch_map(
        kernel_name("encode ", wire, from, bits), from, bits, elements,
        [scale](float value) { return Format::stored_of(value * scale); }, stream);
  });
}

cudaError_t cxxrun_cuda_launch_decode(std::uint8_t wire, void const* from, float* to, std::uint64_t elements,
                                      float scale, cudaStream_t stream) {
  return with_wire(wire, [=]<class Format>(Format) {
    auto const* const bits = static_cast<std::uint16_t const*>(from);
    return launch_map(
        kernel_name("decode ", wire, bits, to), bits, to, elements,
        [scale](std::uint16_t stored) { return Format::value_of(stored) * scale; }, stream);
  });
}

cudaError_t cxxrun_cuda_launch_scale(std::uint8_t type, void const* from, void* to, std::uint64_t elements, float scale,
                                     cudaStream_t stream) {
  return with_format(type, [=]<class Format>(Format) {
    using Stored = typename Format::Stored;
    auto const* const in = static_cast<Stored const*>(from);
    auto* const out = static_cast<Stored*>(to);
    return launch_map(
        kernel_name("scale ", type, in, out), in, out, elements,
        [scale](Stored stored) { return cxxrun::comm::scaled<Format>(stored, scale); }, stream);
  });
}

cudaError_t cxxrun_cuda_launch_multiply(std::uint8_t type, void* data, std::uint64_t elements, double factor,
                                        cudaStream_t stream) {
  return with_format(type, [=]<class Format>(Format) {
    auto* const values = static_cast<typename Format::Stored*>(data);
    return launch_map(
        kernel_name("multiply ", type, values, values), values, values, elements,
        [factor](typename Format::Stored stored) { return cxxrun::comm::multiplied<Format>(stored, factor); }, stream);
  });
}

cudaError_t cxxrun_cuda_launch_add_squares(std::uint8_t type, void const* data, std::uint64_t elements,
                                           double* /*partial*/, double* sum, cudaStream_t stream) {
  return with_format(type, [=]<class Format>(Format) {
    return launch(kernel_name("squares ", type, data, data), stream, [=] {
      *sum += cxxrun::test::squares_in_order<Format>(static_cast<typename Format::Stored const*>(data), elements);
    });
  });
}

std::int32_t cxxrun_cuda_driver_found() {
  return script().driver_found ? 1 : 0;
}

void cxxrun_cuda_double_spin(void* stream, std::uint64_t nanoseconds) {
  pass_driver();
  queue_of(static_cast<cudaStream_t>(stream))->push([nanoseconds] {
    auto const end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(nanoseconds);
    while (std::chrono::steady_clock::now() < end) {
    }
  });
}
