// Runs the program as a user does: arguments in, exit status and texts out. For the e2e tests of demo and
// replay.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace kvferry::e2e {

struct Outcome {
  int status = -1;        // exit status; -1: it was ended by a signal or did not end in time
  std::string out, err;
  double seconds = 0;

  // The last line of stdout.
  nlohmann::json json() const {
    const std::string text = out.substr(0, out.find_last_not_of('\n') + 1);
    const std::size_t start = text.find_last_of('\n');
    return nlohmann::json::parse(start == std::string::npos ? text : text.substr(start + 1), nullptr, false);
  }
};

// A program that runs; its output goes to files, so that nothing has to be read while it runs.
class Running {
 public:
  explicit Running(const std::vector<std::string>& arguments) : begin_(std::chrono::steady_clock::now()) {
    std::array<char, 64> name{};
    std::snprintf(name.data(), name.size(), "kvferry-e2e-%d-%d", getpid(), ++count());
    folder_ = std::filesystem::temp_directory_path() / name.data();
    std::filesystem::create_directories(folder_);
    std::vector<std::string> all{KVFERRY_BINARY};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& argument : all) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const std::string out = (folder_ / "out").string(), err = (folder_ / "err").string();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600), STDOUT_FILENO);
      dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600), STDERR_FILENO);
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  ~Running() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  pid_t pid() const { return pid_; }

  // Processes that it has started and that live.
  std::vector<pid_t> children() const {
    std::vector<pid_t> found;
    const std::string task = "/proc/" + std::to_string(pid_) + "/task/" + std::to_string(pid_) + "/children";
    std::ifstream file(task);
    for (pid_t child = 0; file >> child;) found.push_back(child);
    return found;
  }

  bool said(const std::string& text) const { return read("err").find(text) != std::string::npos; }

  Outcome wait(std::chrono::seconds most) {
    Outcome outcome;
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() - begin_ > most) {
        outcome.err = "did not end in time\n" + read("err");
        return outcome;
      }
      ::poll(nullptr, 0, 10);
    }
    pid_ = -1;
    if (WIFEXITED(status)) outcome.status = WEXITSTATUS(status);
    outcome.out = read("out");
    outcome.err = read("err");
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    return outcome;
  }

 private:
  static int& count() {
    static int value = 0;
    return value;
  }
  std::string read(const char* name) const {
    std::ifstream file(folder_ / name);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::chrono::steady_clock::time_point begin_;
  std::filesystem::path folder_;
  pid_t pid_ = -1;
};

inline Outcome run(const std::vector<std::string>& arguments,
                   std::chrono::seconds most = std::chrono::seconds(50)) {
  return Running(arguments).wait(most);
}

// A file that is gone with its object.
class TextFile {
 public:
  explicit TextFile(const std::string& text) {
    std::array<char, 64> name{};
    static int count = 0;
    std::snprintf(name.data(), name.size(), "kvferry-trace-%d-%d.jsonl", getpid(), ++count);
    path_ = std::filesystem::temp_directory_path() / name.data();
    std::ofstream(path_) << text;
  }
  ~TextFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// One line of a trace; the block hashes count up from `hash`.
inline std::string trace_line(int at_ms, int input, int output, int hash) {
  std::string hashes;
  for (int i = 0; i < (input + 511) / 512; ++i) hashes += (i > 0 ? ", " : "") + std::to_string(hash + i);
  std::array<char, 128> head{};
  std::snprintf(head.data(), head.size(),
                "{\"timestamp\": %d, \"input_length\": %d, \"output_length\": %d, \"hash_ids\": [", at_ms,
                input, output);
  return head.data() + hashes + "]}\n";
}

// Many prompts of mixed lengths, a fifth of which share their beginning with others.
inline std::string mixed_trace(int requests) {
  std::string text;
  for (int i = 0; i < requests; ++i) {
    const int input = 1 + (i * 2654435 % 9000);
    text += trace_line(i * 40, input, 1 + i % 200, i % 5 == 0 ? 7 : 100 + i * 100);
  }
  return text;
}

}  // namespace kvferry::e2e
