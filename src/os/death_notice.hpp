// Death notice: what an agent's parent says to those who go on, once everything here is reaped.
#pragma once

#include "src/core/time.hpp"
#include "src/os/shared_page.hpp"

namespace cxxrun::os {

/// Connects to all recipients at once and sends each the words; blocks until each has hung up, no longer than `limit`.
/// Returns how many have taken all of it.
std::size_t deliver(DeathNotice const& death_notice, Millis limit);

}  // namespace cxxrun::os
