// Who decides a setting: flags over environment over file over default. Everything is handed in as text; the
// only function that touches the world is read_file. Values; no thread rule.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "config/settings.h"

namespace kvferry::config {

struct Layers {
  std::string file_name;   // empty: no file
  std::string file_text;
  std::map<std::string, std::string> environment;              // all of it; only KVFERRY_* is looked at
  struct Flag {
    std::string name, value, spelled;
  };           // setting, value, "--bind"
  std::vector<Flag> flags;                                     // later ones win
};

struct Resolved {
  Config config;
  std::vector<std::string>
      origins;  // by index of settings(): "default", "file kv.toml line 3", "KVFERRY_...", "--bind"
};

// kUsage: one error that names key, value, limit and, for an unknown key, the nearest known one.
Result<Resolved> resolve(const Layers&);

// "deadlines.handshake" -> "KVFERRY_DEADLINES_HANDSHAKE".
std::string environment_name(std::string_view setting);

// The text of a configuration file; kUsage/kEnvironment name it. At most kMaxFileBytes.
Result<std::string> read_file(const std::string& path);

// Settings that differ from their defaults, as "NAME=VALUE": how a parent hands its result to a child, which
// reads neither file nor environment.
std::vector<std::string> differing(const Config&);
Result<Config> from_differing(const std::vector<std::string>&);  // kUsage: what is no setting or no value

std::string table_text(const Resolved&);  // for people: name, value, origin, bounds, help
std::string table_json(const Resolved&, std::string_view file);  // one line; see docs/cli.md

}  // namespace kvferry::config
