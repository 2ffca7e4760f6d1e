// Who may write into the table of several nodes: processes of this user alone, where MUNGE works. Shell.
#pragma once

#include <string>

#include "cxxrun/error.hpp"

namespace cxxrun::launcher::doctor {

/// The store of the table lets in everybody, so what stands in it proves by itself whose it is: it is a MUNGE
/// credential of this user, made for this table. Without MUNGE it is plain text, which anybody may have written.
class Seal {
 public:
  /// On the first node, of a new table.
  [[nodiscard]] static Seal make(std::string const& id);
  /// By what the first node says of itself. Errors: it is another table, or does not prove itself.
  [[nodiscard]] static Result<Seal> take(std::string const& greeting, std::string const& id);

  [[nodiscard]] std::string const& greeting() const { return greeting_; }
  [[nodiscard]] Result<std::string> close(std::string const& text) const;
  /// Errors: it is not of this user, or not of this table.
  [[nodiscard]] Result<std::string> open(std::string const& sealed) const;
  /// Why it is plain text; "" when it is not.
  [[nodiscard]] std::string const& plain_because() const { return plain_; }
  /// A name that no other table has.
  [[nodiscard]] std::string const& table() const { return table_; }

 private:
  std::string table_;
  std::string greeting_;
  std::string plain_;
};

}  // namespace cxxrun::launcher::doctor
