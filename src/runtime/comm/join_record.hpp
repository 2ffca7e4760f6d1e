// JoinRecord: what a rank tells the others when they meet, and what makes them refuse each other. Pure.
//
// docs/use/communicator.md has the keys under which it stands in the store. The first five fields are the same in every
// version, so that ranks built with different ones can say who is what.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxxrun/communicator.hpp"
#include "cxxrun/error.hpp"
#include "cxxrun/store.hpp"

namespace cxxrun::comm {

/// Grows with every change of anything that ranks exchange: this record, the node's memory, the rails.
inline constexpr int kProtocol = 1;

struct JoinRecord {
  int protocol = kProtocol;
  std::string library;  ///< version of libcxxrun
  int rank = 0;
  std::string host;  ///< for people
  int pid = 0;

  std::uint64_t nonce = 0;  ///< random: of this process's Communicator
  int world = 1;
  int local_rank = 0;
  std::string host_key;             ///< ranks with the same one share memory
  std::string cpus;                 ///< those it may run on, as a bit string (cpu_bits)
  StoreAddress rail;                ///< where it listens for other nodes; empty when it does not
  std::string segment;              ///< the socket from which its node's shared memory comes if it is the node's first
  bool proves = false;              ///< its agent proves it to the ranks of other nodes, and them to it
  bool segment_of_agent = false;    ///< that socket is the agent's, and this rank fetches there too
  Backend backend = Backend::host;  ///< never automatic
  int nccl = 0;                     ///< its version as NCCL numbers it, 22809; 0 with the host backend, as the rest
  std::string device;               ///< the GPU's UUID
  std::string nccl_host;            ///< NCCL_HOSTID: ranks with different ones may share a GPU

  bool operator==(JoinRecord const&) const = default;
};

[[nodiscard]] std::string encode(JoinRecord const& record);
/// Nothing when this is no record. Of another protocol only the first five fields are filled.
[[nodiscard]] std::optional<JoinRecord> decode_record(std::string_view text);

[[nodiscard]] std::string encode(std::vector<JoinRecord> const& roster);
/// Nothing unless there is one record for each rank, in order.
[[nodiscard]] std::optional<std::vector<JoinRecord>> decode_roster(std::string_view text);

/// An Error as it travels; decoding never fails: what is not understood becomes the context.
[[nodiscard]] std::string encode(Error const& error);
[[nodiscard]] Error decode_error(std::string_view text);

/// "rank 3 on node2 (pid 71)".
[[nodiscard]] std::string describe(JoinRecord const& record);
/// `error` with the rank that met it in front.
[[nodiscard]] Error in_context(JoinRecord const& mine, Error error);
/// Why these two cannot be in one world, or nothing. `first` is rank 0's.
[[nodiscard]] std::optional<std::string> disagreement(JoinRecord const& mine, JoinRecord const& first);
/// Why these together cannot be a world though each of them agrees with rank 0, or nothing: two ranks on one GPU, or
/// several nodes and proofs only between some of them.
[[nodiscard]] std::optional<std::string> conflict(std::vector<JoinRecord> const& roster);
/// "2.28.9" of 22809.
[[nodiscard]] inline std::string nccl_version(int code) {
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." + std::to_string(code % 100);
}

/// CPUs as hexadecimal digits, four to a digit, CPU 0 lowest in the first; no zeros at the end.
[[nodiscard]] std::string cpu_bits(std::vector<int> const& cpus);
/// Whether these ranks of one node may together run on as many CPUs as they are.
[[nodiscard]] bool enough_cpus(std::vector<JoinRecord> const& roster, std::vector<int> const& ranks);

/// What the memory of one node is asked for by: the communicator's nonce, different for each of its nodes.
[[nodiscard]] constexpr std::uint64_t segment_key(std::uint64_t nonce, int leader) {
  return nonce + 0x9e37'79b9'7f4a'7c15U * static_cast<std::uint64_t>(leader);
}

}  // namespace cxxrun::comm
