// PageServer: HTTP on 127.0.0.1, for browsers and Prometheus. Shell; the one file with Beast.
//
// Anybody on this machine can call it. Nothing can be changed through it; what a caller may see, page_request decides.
// A caller has little time for each step and little memory here, so none holds up another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cxxrun/error.hpp"
#include "launcher/view/page_request.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::launcher::view {

struct PageAnswer {
  unsigned status = 200;
  char const* type = "";
  std::string body;
};

class PageServer {
 public:
  using Done = std::function<void(PageAnswer)>;
  /// Gets each request that is let in and that the server cannot answer by itself. To be called once: `done`, from
  /// inside or later. For the stream `done` is empty: somebody looks.
  using Ask = std::function<void(PageVerdict const& what, Done done)>;

  /// `port`: 0 = any. Errors: in_use, permission, io.
  [[nodiscard]] static Result<std::unique_ptr<PageServer>> open(boost::asio::io_context& io, std::uint16_t port,
                                                                std::string token, Ask ask);
  ~PageServer();
  PageServer(PageServer const&) = delete;
  PageServer& operator=(PageServer const&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::size_t viewers() const;
  /// Sends an event to all viewers: `tick` to those that have had the one before, else `all`.
  void publish(std::string const& all, std::string const& tick);
  /// Sends a last event, and calls nobody any more. viewers() is 0 when all have it.
  void end(std::string const& event);

 private:
  struct State;
  class Caller;
  explicit PageServer(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace cxxrun::launcher::view
