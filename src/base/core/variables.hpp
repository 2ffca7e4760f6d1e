// The names of the environment variables that cxxrun sets and its runtime reads.
#pragma once

namespace cxxrun::variables {

inline constexpr char const* kGeneration = "CXXRUN_GENERATION";
inline constexpr char const* kHost = "CXXRUN_HOST";
inline constexpr char const* kRunId = "CXXRUN_RUN_ID";
inline constexpr char const* kStoreAddr = "CXXRUN_STORE_ADDR";
inline constexpr char const* kStorePort = "CXXRUN_STORE_PORT";
inline constexpr char const* kSegment = "CXXRUN_SEGMENT";
inline constexpr char const* kAgent = "CXXRUN_AGENT";
inline constexpr char const* kHangTimeout = "CXXRUN_HANG_TIMEOUT";
inline constexpr char const* kProver = "CXXRUN_PROVER";
inline constexpr char const* kJobStep = "CXXRUN_JOB_STEP";

}  // namespace cxxrun::variables
