// The command lines of cxxrun-store and cxxrun-rendezvous. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/options/option_table.hpp"
#include "src/core/port_sequence.hpp"

namespace cxxrun::launcher {

struct StoreOptions {
  std::optional<std::uint16_t> port;  ///< set, once parsed
  bool loopback = false;
};
[[nodiscard]] Command store_command(StoreOptions& options);

struct RendezvousOptions {
  std::optional<std::uint16_t> port;
  PortRange range;
  std::string id;  ///< "" = any
  bool loopback = false;
  bool background = false;
  std::string log_level = "info";
};
[[nodiscard]] Command rendezvous_command(RendezvousOptions& options);

}  // namespace cxxrun::launcher
