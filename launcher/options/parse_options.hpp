// The command lines of cxxrun, cxxrun-store and cxxrun-rendezvous. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/options/option_table.hpp"
#include "launcher/options/options.hpp"
#include "src/base/core/ports.hpp"

namespace cxxrun::launcher {

[[nodiscard]] Command cxxrun_command(Options& options);
/// The command line overrides PET_* and TORCH_DISABLE_SHARE_RDZV_TCP_STORE.
[[nodiscard]] std::variant<Options, EarlyExit> parse_options(std::vector<std::string> const& arguments,
                                                             Environment const& environment);

struct StoreOptions {
  std::optional<std::uint16_t> port;  ///< set, once parsed
  bool loopback = false;
  store::StoreAccess access = store::StoreAccess::any;  ///< never `hosts`: it does not know the nodes
};
[[nodiscard]] Command store_command(StoreOptions& options);

struct RendezvousOptions {
  std::optional<std::uint16_t> port;
  PortRange range;
  std::string id;  ///< "" = any
  Auth auth = Auth::automatic;
  bool loopback = false;
  bool background = false;
  std::string log_dir;  ///< "" = no files
  std::string log_level = "info";
};
[[nodiscard]] Command rendezvous_command(RendezvousOptions& options);

}  // namespace cxxrun::launcher
