// `kvferry config`: every setting, its value and who decided it; and the way in which the other commands read
// theirs. Thread rule: call from main.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/layers.h"

namespace kvferry::cli {

// The process's environment, taken once by main; nobody else reads it.
using Environment = std::map<std::string, std::string>;

struct ConfigOptions {
  std::string file;  // --file F; empty: KVFERRY_CONFIG of the environment, else none
  std::vector<std::string> sets;  // --set NAME=VALUE
  std::vector<config::Layers::Flag> flags;  // of a command's own flags, such as --listen
  bool json = false;  // --json: the last line of stdout is one JSON object
  Environment environment;
};

Result<config::Resolved> load_config(const ConfigOptions&);

// Returns the exit status: 0 shown, 2 a value or key is wrong, 3 the file cannot be read.
int run_config(const ConfigOptions&);

// One line on stderr, "kvferry: ..."; returns the exit status for it: 2 usage, 3 environment and all else.
int report_error(const Error&);

}  // namespace kvferry::cli
