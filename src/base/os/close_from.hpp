// What a child does with the descriptors that are not for it. System calls alone: no memory is taken, nothing is
// locked, so that a child may call it that shares its parent's memory.
#pragma once

namespace cxxrun::os {

/// Closes every descriptor from `first` on.
void close_from(unsigned first);
/// An exec will close every descriptor from `first` on.
void close_on_exec_from(unsigned first);

}  // namespace cxxrun::os
