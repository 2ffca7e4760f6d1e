// WorkerPage: the memory of one ControlPage, for the agent's side. Shell.
#pragma once

#include "cxxrun/error.hpp"
#include "src/os/fd.hpp"
#include "src/worker/control_page.hpp"

namespace cxxrun::launcher {

/// Mapped here; `fd` is for the worker. Sealed: it can neither shrink nor grow, so no access to it ever fails.
class WorkerPage {
 public:
  /// Errc::io without memory or descriptors.
  [[nodiscard]] static Result<WorkerPage> make();
  WorkerPage(WorkerPage const&) = delete;
  WorkerPage& operator=(WorkerPage const&) = delete;
  WorkerPage(WorkerPage&& other) noexcept;
  WorkerPage& operator=(WorkerPage&&) = delete;
  ~WorkerPage();

  [[nodiscard]] worker::ControlPage* get() const { return page_; }
  /// After a change of the agent's words: wakes whoever sleeps on the bell.
  void ring() const;

  os::UniqueFd fd;  ///< may be closed once the worker has it

 private:
  WorkerPage(worker::ControlPage* page, os::UniqueFd memory) : fd(std::move(memory)), page_(page) {}
  worker::ControlPage* page_;
};

}  // namespace cxxrun::launcher
