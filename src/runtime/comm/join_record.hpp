// JoinRecord: what a rank tells the others when they meet, and the reasons to refuse each other. Pure.
//
// docs/use/communicator.md lists the keys of the store that hold it. The first five fields are the same in every
// version, so that ranks of different versions can name each other.
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

/// Increases with every change of what ranks exchange: this record, the node's shared memory, the rails.
inline constexpr int kProtocol = 1;

struct JoinRecord {
  int protocol = kProtocol;
  std::string library;  ///< version of libcxxrun
  int rank = 0;
  std::string host;  ///< for messages
  int pid = 0;

  std::uint64_t nonce = 0;  ///< random; identifies this process's Communicator
  int world = 1;
  int local_rank = 0;
  std::string host_key;  ///< ranks with equal keys share memory
  std::string cpus;      ///< the CPUs it may run on, as a bit string (cpu_bits)
  StoreAddress rail;     ///< where it listens for other nodes; empty if it does not
  std::string segment;   ///< socket that hands out the node's shared memory, if this rank is the first of its node
  bool proves = false;   ///< its agent proves its identity to ranks of other nodes, and theirs to it
  bool segment_of_agent = false;    ///< that socket is the agent's, and this rank gets its memory from there too
  Backend backend = Backend::host;  ///< never automatic
  int nccl = 0;           ///< version as NCCL numbers it, 22809; this and the rest are empty with the host backend
  std::string device;     ///< UUID of the GPU
  std::string nccl_host;  ///< NCCL_HOSTID; ranks with different ids may share a GPU

  bool operator==(JoinRecord const&) const = default;
};

[[nodiscard]] std::string encode(JoinRecord const& record);
/// Nothing if the text is not a record. Of a record of another protocol only the first five fields are filled.
[[nodiscard]] std::optional<JoinRecord> decode_record(std::string_view text);

[[nodiscard]] std::string encode(std::vector<JoinRecord> const& roster);
/// Nothing unless the text has one record per rank, in order.
[[nodiscard]] std::optional<std::vector<JoinRecord>> decode_roster(std::string_view text);

/// An Error in wire format. Decoding never fails: text that is not understood becomes the context.
[[nodiscard]] std::string encode(Error const& error);
[[nodiscard]] Error decode_error(std::string_view text);

/// "rank 3 on node2 (pid 71)".
[[nodiscard]] std::string describe(JoinRecord const& record);
/// `error` with the name of the rank that had it in front.
[[nodiscard]] Error in_context(JoinRecord const& mine, Error error);
/// The reason why these two ranks cannot be in one world, or nothing. `first` is rank 0's record.
[[nodiscard]] std::optional<std::string> disagreement(JoinRecord const& mine, JoinRecord const& first);
/// The reason why ranks that all agree with rank 0 still cannot form a world, or nothing: two ranks on one GPU, or
/// several nodes of which only some have proofs.
[[nodiscard]] std::optional<std::string> conflict(std::vector<JoinRecord> const& roster);
/// 22809 as "2.28.9".
[[nodiscard]] inline std::string nccl_version(int code) {
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." + std::to_string(code % 100);
}

/// CPUs as hexadecimal digits, four CPUs per digit, the lowest CPU in the first digit; without trailing zeros.
[[nodiscard]] std::string cpu_bits(std::vector<int> const& cpus);
/// Whether these ranks of one node may together run on at least one CPU per rank.
[[nodiscard]] bool enough_cpus(std::vector<JoinRecord> const& roster, std::vector<int> const& ranks);

/// Identifies the shared memory of one node in a request: the communicator's nonce, varied for each node.
[[nodiscard]] constexpr std::uint64_t segment_key(std::uint64_t nonce, int leader) {
  return nonce + 0x9e37'79b9'7f4a'7c15U * static_cast<std::uint64_t>(leader);
}

}  // namespace cxxrun::comm
