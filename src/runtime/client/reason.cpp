#include "src/runtime/client/reason.hpp"

namespace cxxrun::client {

Reason::Reason(std::exception_ptr const& why) noexcept : why_(why) {
  try {
    std::rethrow_exception(why);
  } catch (PeerFailure const& failure) {
    why_ = failure;
  } catch (Failure const& failure) {
    why_ = failure;
  } catch (...) {  // NOLINT(bugprone-empty-catch): kept as it is
  }
}

void Reason::raise() const {
  if (auto const* const peer = std::get_if<PeerFailure>(&why_)) {
    throw PeerFailure(*peer);
  }
  if (auto const* const failure = std::get_if<Failure>(&why_)) {
    throw Failure(*failure);
  }
  std::rethrow_exception(std::get<std::exception_ptr>(why_));
}

std::string Reason::sentence() const {
  try {
    raise();
  } catch (std::exception const& failure) {
    return failure.what();
  } catch (...) {
    return "a failure of an unknown type";
  }
}

bool Reason::blames(int rank) const noexcept {
  auto const* const peer = std::get_if<PeerFailure>(&why_);
  return peer != nullptr && peer->rank() == rank;
}

}  // namespace cxxrun::client
