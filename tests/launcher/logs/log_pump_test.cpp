#include "launcher/logs/log_pump.hpp"

#include <csignal>

#include "tests/support/catch.hpp"
#include "tests/support/pump_console.hpp"

namespace os = cxxrun::os;
using cxxrun::launcher::LogPump;
using cxxrun::launcher::PumpStream;
using cxxrun::test::drain;
using cxxrun::test::file_text;
using cxxrun::test::make_pipe;
using cxxrun::test::TempDir;
using cxxrun::test::TestConsole;
using cxxrun::test::write_all;

namespace {

constexpr int kPlentyMs = 60'000;  ///< ms; a guard against hangs only

/// A pump between two consoles that are read all the time, and a directory for files.
struct Fixture {
  TempDir dir;
  TestConsole out;
  TestConsole err;
  std::unique_ptr<LogPump> pump = std::make_unique<LogPump>(out.fd(), err.fd());
  Fixture() {
    out.start_reading();
    err.start_reading();
    pump->on_error([](std::string const&) { std::abort(); });
  }
};

/// Long enough for any machine: an unfinished line waits for its newline.
PumpStream patient(PumpStream stream) {
  stream.patience = cxxrun::Millis{std::chrono::hours(1)};
  return stream;
}

constexpr std::size_t kFlood = std::size_t{16} << 20;  ///< far more than pipes and pump hold together

/// Writes newlines until the pump takes no more (three round trips through its thread free no room), or kFlood
/// bytes. Returns the number written.
std::size_t fill(int fd, LogPump& pump) {
  fcntl(fd, F_SETFL, O_NONBLOCK);
  std::string const block(65536, '\n');
  std::size_t total = 0;
  for (int refused = 0; refused < 3 && total < kFlood;) {
    auto const n = write(fd, block.data(), block.size());
    total += n > 0 ? static_cast<std::size_t>(n) : 0;
    refused = n > 0 ? 0 : refused + 1;
    if (n < 0) {
      drain(pump, 0, false);
    }
  }
  fcntl(fd, F_SETFL, 0);
  return total;
}

}  // namespace

TEST_CASE("log_pump: whole lines go to the right console with their prefix, bytes go to the file", "[process]") {
  Fixture f;
  auto out = make_pipe();
  auto err = make_pipe();
  auto const a = f.pump->add({std::move(out.read), f.dir / "out", true, false, "[n:0] ", false});
  auto const b = f.pump->add({std::move(err.read), f.dir / "err", true, true, "[n:0] ", true});

  write_all(out.write.get(), "one\ntwo\n");
  write_all(err.write.get(), "bad\nworse");
  CHECK(drain(*f.pump, a, true).empty());
  CHECK(drain(*f.pump, b, true) == "bad\nworse");
  CHECK(f.pump->finish(kPlentyMs));

  CHECK(f.out.text() == "[n:0] one\n[n:0] two\n");
  CHECK(f.err.text() == "[n:0] bad\n[n:0] worse\n");
  CHECK(file_text(f.dir / "out") == "one\ntwo\n");
  CHECK(file_text(f.dir / "err") == "bad\nworse");
}

TEST_CASE("log_pump: lines with one of the words are appended to a file that streams share", "[process]") {
  Fixture f;
  auto out = make_pipe();
  auto err = make_pipe();
  std::string const shared = f.dir / "filtered";
  auto const a = f.pump->add(patient({std::move(out.read), "", true, false, "[n:0] ", false, {"loss"}, shared}));
  auto const b =
      f.pump->add({std::move(err.read), f.dir / "err", true, true, "[n:1] ", true, {"loss", "error"}, shared});

  write_all(out.write.get(), "loss 1\nerror\nthe last lo");
  drain(*f.pump, a, false);
  write_all(err.write.get(), "an error\nnothing\n");
  drain(*f.pump, b, true);
  write_all(out.write.get(), "ss");
  drain(*f.pump, a, true);

  CHECK(file_text(shared) == "[n:0] loss 1\n[n:1] an error\n[n:0] the last loss\n");
  CHECK(file_text(f.dir / "err") == "an error\nnothing\n");
  CHECK(f.pump->finish(kPlentyMs));
  CHECK(f.out.text() == "[n:0] loss 1\n[n:0] error\n[n:0] the last loss\n");
}

TEST_CASE("log_pump: a stream that ended before its drain still has its tail, twice", "[process]") {
  Fixture f;
  auto pipe = make_pipe();
  auto const id = f.pump->add({std::move(pipe.read), f.dir / "f", true, false, "", true});
  write_all(pipe.write.get(), "last words");
  pipe.write.reset();

  CHECK(drain(*f.pump, id, false) == "last words");
  CHECK(drain(*f.pump, id, true) == "last words");
  CHECK(drain(*f.pump, id, true).empty());
  CHECK(f.pump->finish(kPlentyMs));
  CHECK(f.out.text() == "last words\n");
}

TEST_CASE("log_pump: of a stream whose words are not kept the last question of a debugger is told alone", "[process]") {
  Fixture f;
  auto pipe = make_pipe();
  auto const id = f.pump->add(patient({std::move(pipe.read), f.dir / "f", true, false, ""}));
  std::string const quits = "Quitting pdb will kill the process. Quit anyway? [y/n]";
  write_all(pipe.write.get(), std::string(300, 'x') + "\n(Pdb) Quitting pdb will ");
  CHECK(drain(*f.pump, id, false).empty());
  write_all(pipe.write.get(), "kill the process. Quit anyway? [y/n] ");
  CHECK(drain(*f.pump, id, false) == quits);
  write_all(pipe.write.get(), "n\nand on");
  CHECK(drain(*f.pump, id, false).empty());
  write_all(pipe.write.get(), "\n(Pdb) " + quits + "\n");
  pipe.write.reset();
  CHECK(drain(*f.pump, id, true) == quits);
  CHECK(f.pump->finish(kPlentyMs));
}

TEST_CASE("log_pump: a grandchild that keeps the pipe does not keep the stream", "[process]") {
  std::signal(SIGPIPE, SIG_IGN);
  Fixture f;
  auto pipe = make_pipe();
  auto const id = f.pump->add(patient({std::move(pipe.read), f.dir / "f", true, false, "p ", true}));

  write_all(pipe.write.get(), "worker");
  CHECK(drain(*f.pump, id, false) == "worker");
  write_all(pipe.write.get(), " and grandchild");
  CHECK(drain(*f.pump, id, true) == "worker and grandchild");
  CHECK_FALSE(write_all(pipe.write.get(), "late"));
  CHECK(f.pump->finish(kPlentyMs));

  CHECK(f.out.text() == "p worker and grandchild\n");
  CHECK(file_text(f.dir / "f") == "worker and grandchild");
}

TEST_CASE("log_pump: finish drains what nobody drained", "[process]") {
  Fixture f;
  auto pipe = make_pipe();
  f.pump->add({std::move(pipe.read), f.dir / "f", true, false, "p ", false});
  write_all(pipe.write.get(), "a\nb");

  CHECK(f.pump->finish(kPlentyMs));
  CHECK(f.out.text() == "p a\np b\n");
  CHECK(file_text(f.dir / "f") == "a\nb");
}

TEST_CASE("log_pump: a 10 MiB line arrives in one piece while others write", "[process]") {
  Fixture f;
  std::string const line(std::size_t{10} << 20, 'x');
  auto big = make_pipe();
  auto small = make_pipe();
  auto const a = f.pump->add(patient({std::move(big.read), f.dir / "f", true, false, "a ", false}));
  auto const b = f.pump->add({std::move(small.read), "", true, false, "b ", false});

  write_all(big.write.get(), std::string_view(line).substr(0, line.size() / 2));
  write_all(small.write.get(), "between\n");
  CHECK(drain(*f.pump, b, true).empty());
  write_all(big.write.get(), std::string_view(line).substr(line.size() / 2));
  CHECK(drain(*f.pump, a, true).empty());
  CHECK(f.pump->finish(kPlentyMs));

  CHECK(f.out.text() == "b between\na " + line + "\n");
  CHECK(file_text(f.dir / "f") == line);
}

TEST_CASE("log_pump: all 256 byte values reach file and console unchanged", "[process]") {
  Fixture f;
  std::string bytes;
  for (int value = 0; value < 256; ++value) {
    bytes.push_back(static_cast<char>(value));
  }
  auto pipe = make_pipe();
  auto const id = f.pump->add(patient({std::move(pipe.read), f.dir / "f", true, false, "", true}));

  write_all(pipe.write.get(), bytes);
  CHECK(drain(*f.pump, id, true) ==
        bytes.substr(0, bytes.find('\n') + 1) + bytes.substr(bytes.find('\r') + 1));  // which begins the line anew
  CHECK(f.pump->finish(kPlentyMs));
  CHECK(f.out.text() == bytes + "\n");
  CHECK(file_text(f.dir / "f") == bytes);
}

TEST_CASE("log_pump: 32 streams of 1000 ragged lines each are complete, whole and in order", "[process]") {
  Fixture f;
  constexpr int kStreams = 32;
  constexpr int kLines = 1000;
  std::vector<std::thread> writers;
  std::vector<std::uint64_t> ids;
  for (int s = 0; s < kStreams; ++s) {
    auto pipe = make_pipe();
    ids.push_back(f.pump->add(patient(
        {std::move(pipe.read), f.dir / std::to_string(s), true, false, "[n:" + std::to_string(s) + "] ", false})));
    writers.emplace_back([s, fd = std::move(pipe.write)] {
      std::string text;
      for (int i = 0; i < kLines; ++i) {
        text += std::to_string(i) + std::string(static_cast<std::size_t>(i % 97), 'x') + "\n";
      }
      auto const step = static_cast<std::size_t>(37 + 11 * s);
      for (std::size_t at = 0; at < text.size(); at += step) {
        write_all(fd.get(), std::string_view(text).substr(at, step));
      }
    });
  }
  for (auto& writer : writers) {
    writer.join();
  }
  for (auto const id : ids) {
    CHECK(drain(*f.pump, id, true).empty());
  }
  CHECK(f.pump->finish(kPlentyMs));

  std::vector<int> next(kStreams, 0);
  std::istringstream console(f.out.text());
  bool whole = true;
  for (std::string line; std::getline(console, line);) {
    auto const stream = static_cast<std::size_t>(std::stoi(line.substr(3)));
    auto const i = next.at(stream)++;
    whole = whole && line == "[n:" + std::to_string(stream) + "] " + std::to_string(i) +
                                 std::string(static_cast<std::size_t>(i % 97), 'x');
  }
  CHECK(whole);
  CHECK(next == std::vector<int>(kStreams, kLines));
}

TEST_CASE("log_pump: a console that nobody reads makes its writer wait, and loses nothing", "[process]") {
  TempDir dir;
  TestConsole out;
  LogPump pump(out.fd(), out.fd());
  auto pipe = make_pipe();
  auto const id = pump.add({std::move(pipe.read), dir / "f", true, false, "", false});

  auto total = fill(pipe.write.get(), pump);
  CHECK(total < kFlood);
  CHECK(drain(pump, id, false).empty());  // does not wait for the console
  out.start_reading();
  std::string const more(kFlood, '\n');
  CHECK(write_all(pipe.write.get(), more));  // continues by itself once the console is read
  CHECK(drain(pump, id, true).empty());
  CHECK(pump.finish(kPlentyMs));

  total += more.size();
  CHECK(out.text().size() == total);
  CHECK(file_text(dir / "f").size() == total);
}

TEST_CASE("log_pump: a console that nobody reads delays neither another console nor files", "[process]") {
  TempDir dir;
  TestConsole out;
  TestConsole err;
  LogPump pump(out.fd(), err.fd());
  auto noisy = make_pipe();
  auto to_file = make_pipe();
  auto to_err = make_pipe();
  pump.add({std::move(noisy.read), "", true, false, "", false});
  auto const a = pump.add({std::move(to_file.read), dir / "f", false, false, "", true});
  auto const b = pump.add({std::move(to_err.read), "", true, true, "", true});
  CHECK(fill(noisy.write.get(), pump) < kFlood);

  write_all(to_file.write.get(), "heard\n");
  CHECK(drain(pump, a, true) == "heard\n");
  CHECK(file_text(dir / "f") == "heard\n");
  err.start_reading();
  std::string const flood(kFlood, '\n');
  CHECK(write_all(to_err.write.get(), flood));
  drain(pump, b, true);
  out.start_reading();
  CHECK(pump.finish(kPlentyMs));
  CHECK(err.text().size() == kFlood);
}

TEST_CASE("log_pump: finish gives up at its deadline and says that output was dropped", "[process]") {
  TempDir dir;
  TestConsole out;
  LogPump pump(out.fd(), out.fd());
  auto pipe = make_pipe();
  auto const id = pump.add({std::move(pipe.read), dir / "f", true, false, "", false});
  std::string const bytes(std::size_t{60'000}, '\n');
  write_all(pipe.write.get(), bytes);
  CHECK(drain(pump, id, false).empty());
  write_all(pipe.write.get(), bytes);
  CHECK(drain(pump, id, true).empty());

  CHECK_FALSE(pump.finish(50));
  CHECK(file_text(dir / "f").size() == 2 * bytes.size());
}

TEST_CASE("log_pump: a console that is gone swallows its part and the files are complete", "[process]") {
  TempDir dir;
  TestConsole out;
  LogPump pump(out.fd(), out.fd());
  out.close_reader();
  auto pipe = make_pipe();
  auto const id = pump.add({std::move(pipe.read), dir / "f", true, false, "p ", false});
  std::string const line(999, 'x');
  for (int i = 0; i < 10'000; ++i) {
    write_all(pipe.write.get(), line + "\n");
  }

  CHECK(drain(pump, id, true).empty());
  CHECK(pump.finish(kPlentyMs));
  CHECK(file_text(dir / "f").size() == 10'000'000);
}

TEST_CASE("log_pump: a full disk is told once and the console goes on", "[process]") {
  Fixture f;
  std::vector<std::string> told;
  f.pump->on_error([&told](std::string line) { told.push_back(std::move(line)); });
  auto pipe = make_pipe();
  auto const id = f.pump->add({std::move(pipe.read), "/dev/full", true, false, "p ", false});

  write_all(pipe.write.get(), "a\n");
  CHECK(drain(*f.pump, id, false).empty());
  write_all(pipe.write.get(), "b\n");
  CHECK(drain(*f.pump, id, true).empty());
  CHECK(f.pump->finish(kPlentyMs));

  REQUIRE(told.size() == 1);
  CHECK_THAT(told.front(), Catch::Contains("/dev/full") && Catch::Contains("No space left") &&
                               Catch::Contains("choose another --log-dir"));
  CHECK(f.out.text() == "p a\np b\n");
}

TEST_CASE("log_pump: a file that cannot be opened is told once and the console goes on", "[process]") {
  Fixture f;
  std::vector<std::string> told;
  f.pump->on_error([&told](std::string line) { told.push_back(std::move(line)); });
  auto pipe = make_pipe();
  auto const id = f.pump->add({std::move(pipe.read), f.dir / "missing/f", true, false, "p ", false});

  write_all(pipe.write.get(), "a\n");
  CHECK(drain(*f.pump, id, true).empty());
  CHECK(f.pump->finish(kPlentyMs));
  CHECK(told.size() == 1);
  CHECK(f.out.text() == "p a\n");
}

TEST_CASE("log_pump: lines that are held stand before our own, and at the end", "[process]") {
  Fixture f;
  std::vector<cxxrun::test::Pipe> pipes;
  std::vector<std::uint64_t> ids;
  for (std::uint32_t rank = 0; rank < 5; ++rank) {
    pipes.push_back(make_pipe());
    PumpStream stream{std::move(pipes.back().read), "", true, true, "p" + std::to_string(rank) + " ", true};
    stream.fold = true;
    stream.rank = rank;
    ids.push_back(f.pump->add(std::move(stream)));
    drain(*f.pump, ids.back(), false);
  }
  write_all(pipes[0].write.get(), "alone\n");
  CHECK(drain(*f.pump, ids[0], false) == "alone\n");
  f.pump->say("first");
  f.pump->say("second");
  for (auto const& pipe : pipes) {
    write_all(pipe.write.get(), "all\n");
  }
  write_all(pipes[3].write.get(), "no newline");
  CHECK(f.pump->finish(kPlentyMs));
  auto const text = f.err.text();
  CHECK_THAT(text, Catch::StartsWith("p0 alone\nfirst\nsecond\n"));
  CHECK_THAT(text, Catch::EndsWith("p3 no newline\n"));
}

TEST_CASE(
    "log_pump: an unfinished line is shown while it is being written, and lines of others stand between its pieces",
    "[process]") {
  TempDir dir;
  os::UniqueFd const file(open((dir / "console").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  auto const console = [&] { return file_text(dir / "console"); };
  auto const wait_for = [&](std::string const& text) {
    auto const guard = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (console() != text && std::chrono::steady_clock::now() < guard) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    CHECK(console() == text);
  };
  LogPump pump(file.get(), file.get());
  std::array pipes{make_pipe(), make_pipe()};
  std::array<std::uint64_t, 2> ids{};
  for (std::size_t i = 0; i < pipes.size(); ++i) {
    PumpStream stream{std::move(pipes[i].read), "", true, i == 1, "p" + std::to_string(i) + " ", true};
    stream.patience = i == 0 ? cxxrun::launcher::kPromptFor : cxxrun::launcher::kUnfinishedFor;
    ids[i] = pump.add(std::move(stream));
  }

  write_all(pipes[0].write.get(), "(Pdb) ");
  wait_for("p0 (Pdb) ");
  write_all(pipes[1].write.get(), "between\n");
  wait_for("p0 (Pdb) \np1 between\n");
  write_all(pipes[0].write.get(), "41\n(Pdb) ");
  wait_for("p0 (Pdb) \np1 between\np0 41\np0 (Pdb) ");
  pump.say("said");
  wait_for("p0 (Pdb) \np1 between\np0 41\np0 (Pdb) \nsaid\n");
  write_all(pipes[1].write.get(), "\r 10%\r 20%");
  wait_for("p0 (Pdb) \np1 between\np0 41\np0 (Pdb) \nsaid\np1  20%\n");
  CHECK(drain(pump, ids[0], true) == "(Pdb) 41\n(Pdb) ");
  CHECK(pump.finish(kPlentyMs));
}

TEST_CASE("log_pump: earlier content of a file is kept", "[process]") {
  Fixture f;
  std::ofstream(f.dir / "f") << "before\n";
  auto pipe = make_pipe();
  f.pump->add({std::move(pipe.read), f.dir / "f", false, false, "", false});
  write_all(pipe.write.get(), "after\n");
  CHECK(f.pump->finish(kPlentyMs));
  CHECK(file_text(f.dir / "f") == "before\nafter\n");
}

TEST_CASE("log_pump: stdout and stderr that lead to one place keep their order, our own lines included", "[process]") {
  TestConsole both;
  both.start_reading();
  LogPump pump(both.fd(), both.fd());
  auto out = make_pipe();
  auto err = make_pipe();
  auto const a = pump.add({std::move(out.read), "", true, false, "o ", false});
  auto const b = pump.add({std::move(err.read), "", true, true, "e ", false});
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    write_all(out.write.get(), "x\n");
    drain(pump, a, false);
    write_all(err.write.get(), "y\n");
    drain(pump, b, false);
    pump.say("said");
    expected += "o x\ne y\nsaid\n";
  }
  CHECK(pump.finish(kPlentyMs));
  CHECK(both.text() == expected);
}

TEST_CASE("log_pump: the flags of the console's descriptor are left alone", "[process]") {
  TestConsole out;
  out.start_reading();
  int const before = fcntl(out.fd(), F_GETFL);
  LogPump pump(out.fd(), out.fd());
  pump.say("hello");
  CHECK(pump.finish(kPlentyMs));
  CHECK(fcntl(out.fd(), F_GETFL) == before);
  CHECK((before & O_NONBLOCK) == 0);
}
