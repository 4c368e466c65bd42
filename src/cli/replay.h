// `kvferry replay`: a recorded request trace crossing between prefill and decode processes, every byte
// checked. Thread rule: call from main, once per process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/config.h"

namespace kvferry::cli {

// One field per flag, as typed; run_replay checks every value and names the flag in its error. Numbers are
// signed so that "-1" reaches that check.
struct ReplayOptions {
  std::string trace;                             // --trace FILE.jsonl
  std::optional<std::int64_t> requests;          // --requests N: the first N lines; none = all
  std::optional<std::int64_t> max_input_tokens;  // --max-input-tokens N: longer prompts are cut
  std::string mover = "shm";                     // --mover shm|tcp
  std::int64_t prefill = 1;                      // --prefill N processes
  std::int64_t decode = 1;                       // --decode M processes
  std::string model;                             // --model PRESET, any case; empty = none
  std::optional<std::int64_t> bytes_per_token;  // --bytes-per-token B; excludes --model; none of both = 64
  std::int64_t page_tokens = 16;  // --page-tokens T
  std::int64_t chunk_tokens = 2048;  // --chunk-tokens C
  double decode_ms = 30;  // --decode-ms MS of trace time per output token
  std::string speed = "max";  // --speed X|max
  double abort_rate = 0;  // --abort-rate p
  std::vector<std::string> kills;  // --kill ROLE[.i]@SECONDS[:restart] | ROLE[.i]@room:N[:restart]
  std::optional<std::int64_t> pool_mib;  // --pool-mib M per process; none = sized by the trace
  std::uint64_t seed = 1;  // --seed N
  bool json = false;  // --json: the last line of stdout is one JSON object
  ConfigOptions config;       // --file, --set and the environment
};

// Returns the exit status: 0 promises kept, 1 one was broken, 2 usage, 3 environment. Errors go to stderr,
// one line.
int run_replay(const ReplayOptions&);

}  // namespace kvferry::cli
