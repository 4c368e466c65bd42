#include "cli/config.h"

#include <cstdio>

namespace kvferry::cli {
namespace {

std::string file_of(const ConfigOptions& options) {
  if (!options.file.empty()) return options.file;
  const auto at = options.environment.find("KVFERRY_CONFIG");
  return at == options.environment.end() ? std::string{} : at->second;
}

}  // namespace

int report_error(const Error& error) {
  const std::string line = "kvferry: " + error.what + ": " + error.why + "\n";
  std::fputs(line.c_str(), stderr);
  return error.code == Code::kUsage ? 2 : 3;
}

Result<config::Resolved> load_config(const ConfigOptions& options) {
  config::Layers layers;
  layers.file_name = file_of(options);
  layers.environment = options.environment;
  if (!layers.file_name.empty()) {
    auto text = config::read_file(layers.file_name);
    if (!text) return tl::unexpected(text.error());
    layers.file_text = std::move(*text);
  }
  for (const std::string& set : options.sets) {
    const auto equals = set.find('=');
    if (equals == std::string::npos)
      return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, "--set " + set.substr(0, 64),
                  "'=' is missing; write --set NAME=VALUE, such as --set deadlines.drain=5s");
    const std::string name = set.substr(0, equals);
    layers.flags.push_back({name, set.substr(equals + 1), "--set " + name.substr(0, 64)});
  }
  layers.flags.insert(layers.flags.end(), options.flags.begin(), options.flags.end());
  return config::resolve(layers);
}

int run_config(const ConfigOptions& options) {
  const auto resolved = load_config(options);
  if (!resolved) return report_error(resolved.error());
  const std::string text =
      options.json ? config::table_json(*resolved, file_of(options)) + "\n" : config::table_text(*resolved);
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 3;
}

}  // namespace kvferry::cli
