// Golden transcripts: a text file of commands, under each the lines that answer it.
//
//     # a comment
//     command with arguments
//       line of the answer
//     command without an answer
//     begin NAME
//
// What several transcripts begin with is an opening: `begin` plays that in tests/scenario/openings/NAME.txt.
// `CXXRUN_REWRITE=1` writes what was seen instead of comparing, but not openings; review the diff.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace cxxrun::test {

using Lines = std::vector<std::string>;
using Words = std::vector<std::string>;

/// "key=value" among the words, or `otherwise`.
std::string value(Words const& words, std::string const& key, std::string const& otherwise);

/// Runs every command of the file through `execute` (words of the command in, answer lines out).
/// Returns "" when all answers are as written, else a readable difference.
std::string play(std::string const& path, std::function<Lines(Words const&)> const& execute);

/// The transcripts under tests/scenario/`folder`, sorted.
std::vector<std::string> transcripts(std::string const& folder);

}  // namespace cxxrun::test
