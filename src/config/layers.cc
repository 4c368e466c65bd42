#include "config/layers.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "config/toml.h"

namespace kvferry::config {
namespace {

tl::unexpected<Error> unknown(std::string_view kind, std::string_view name, std::string_view origin,
                              std::string_view nearest) {
  std::string why = "is no setting";
  if (!nearest.empty()) why += "; did you mean " + std::string(nearest) + "?";
  why += nearest.empty() ? "; `kvferry config` lists them all" : " `kvferry config` lists them all";
  return fail(Code::kUsage, Who::kConfig, Next::kAfterFix,
              std::string(kind) + " " + std::string(name.substr(0, 128)) + " (" + std::string(origin) + ")",
              std::move(why));
}

std::string lowered_setting(std::string_view variable) {
  std::string out(variable.substr(std::strlen("KVFERRY_")));
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (const auto first = out.find('_'); first != std::string::npos) out[first] = '.';
  return out;
}

bool is_section(std::string_view name) {
  return std::any_of(settings().begin(), settings().end(),
                     [&](const Setting& s) { return s.name.substr(0, s.name.find('.')) == name; });
}

// The key is right and the section is not, or the other way round by one character: KVFERRY_DEADLINE_DRAIN.
bool is_slip(std::string_view name, std::string_view nearest) {
  return !nearest.empty() && name.size() > 8 &&
         name.substr(name.find('.') + 1) == nearest.substr(nearest.find('.') + 1);
}

Result<> apply(Resolved& r, const Setting& s, std::string_view value, std::string origin) {
  if (auto ok = set_value(r.config, s, value, origin); !ok) return ok;
  r.origins[static_cast<std::size_t>(&s - settings().data())] = std::move(origin);
  return {};
}

Result<> apply_file(Resolved& r, const Layers& layers) {
  const auto items = read_toml(layers.file_text, layers.file_name);
  if (!items) return tl::unexpected(items.error());
  for (const TomlItem& item : *items) {
    const std::string origin = "file " + layers.file_name + " line " + std::to_string(item.line);
    const Setting* s = find_setting(item.name);
    if (s == nullptr) return unknown("key", item.name, origin, nearest_setting(item.name));
    if (auto ok = apply(r, *s, item.value, origin); !ok) return ok;
  }
  return {};
}

// Other variables of the prefix belong to others (the build script has some), unless they look like a slip.
Result<> apply_environment(Resolved& r, const Layers& layers) {
  for (const auto& [variable, value] : layers.environment) {
    if (variable.rfind("KVFERRY_", 0) != 0) continue;
    const std::string name = lowered_setting(variable);
    if (const Setting* s = find_setting(name)) {
      if (auto ok = apply(r, *s, value, "environment " + variable); !ok) return ok;
      continue;
    }
    const auto nearest = nearest_setting(name);
    if (is_section(name.substr(0, name.find('.'))) || is_slip(name, nearest))
      return unknown("variable", variable, "environment", nearest.empty() ? "" : environment_name(nearest));
  }
  return {};
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  constexpr char kHex[] = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20) {
      out += {'\\', 'u', '0', '0', kHex[byte >> 4U], kHex[byte & 15U]};
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

std::string environment_name(std::string_view setting) {
  std::string out = "KVFERRY_";
  for (const char c : setting)
    out += c == '.' ? '_' : (c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
  return out;
}

Result<Resolved> resolve(const Layers& layers) {
  Resolved out;
  out.origins.assign(settings().size(), "default");
  if (!layers.file_name.empty())
    if (auto ok = apply_file(out, layers); !ok) return tl::unexpected(ok.error());
  if (auto ok = apply_environment(out, layers); !ok) return tl::unexpected(ok.error());
  for (const auto& flag : layers.flags) {
    const Setting* s = find_setting(flag.name);
    if (s == nullptr) return unknown("setting", flag.name, flag.spelled, nearest_setting(flag.name));
    if (auto ok = apply(out, *s, flag.value, flag.spelled); !ok) return tl::unexpected(ok.error());
  }
  if (auto ok = check(out.config); !ok) return tl::unexpected(ok.error());
  return out;
}

Result<std::string> read_file(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return fail(
        Code::kUsage, Who::kConfig, Next::kAfterFix, "configuration file " + path,
        std::string("cannot be opened: ") + std::strerror(errno) + "; correct --file or KVFERRY_CONFIG");
  std::string text(kMaxFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (in.bad() || (in.fail() && !in.eof()))
    return fail(Code::kEnvironment, Who::kConfig, Next::kAfterFix, "configuration file " + path,
                "cannot be read (is it a directory?)");
  return text;
}

std::vector<std::string> differing(const Config& config) {
  const Config defaults;
  std::vector<std::string> out;
  for (const Setting& s : settings()) {
    std::string value = value_of(config, s);
    if (value != value_of(defaults, s)) out.push_back(std::string(s.name) + "=" + value);
  }
  return out;
}

Result<Config> from_differing(const std::vector<std::string>& pairs) {
  Layers layers;
  for (const std::string& pair : pairs) {
    const std::size_t equals = std::min(pair.find('='), pair.size());
    layers.flags.push_back(
        {pair.substr(0, equals), pair.substr(std::min(equals + 1, pair.size())), "from the parent process"});
  }
  auto resolved = resolve(layers);
  if (!resolved) return tl::unexpected(resolved.error());
  return std::move(resolved->config);
}

std::string table_text(const Resolved& r) {
  std::size_t name = 0, value = 0, origin = 0;
  for (std::size_t i = 0; i < settings().size(); ++i) {
    name = std::max(name, settings()[i].name.size());
    value = std::max(value, value_of(r.config, settings()[i]).size());
    origin = std::max(origin, r.origins[i].size());
  }
  const auto padded = [](std::string text, std::size_t width) {
    return text.append(width - std::min(width, text.size()), ' ');
  };
  std::string out;
  for (std::size_t i = 0; i < settings().size(); ++i) {
    const Setting& s = settings()[i];
    out += padded(std::string(s.name), name) + "  " + padded(value_of(r.config, s), value) + "  " +
           padded(r.origins[i], origin) + "  " + std::string(s.help) + " [" + bounds_of(s) + "]\n";
  }
  return out;
}

std::string table_json(const Resolved& r, std::string_view file) {
  const Config defaults;
  std::string out = "{\"file\":" + json_quoted(file) + ",\"settings\":[";
  for (std::size_t i = 0; i < settings().size(); ++i) {
    const Setting& s = settings()[i];
    out += i > 0 ? ",{" : "{";
    out += "\"name\":" + json_quoted(s.name) + ",\"type\":" + json_quoted(name_of(s.kind)) +
           ",\"value\":" + json_quoted(value_of(r.config, s)) + ",\"origin\":" + json_quoted(r.origins[i]) +
           ",\"default\":" + json_quoted(value_of(defaults, s)) + ",\"bounds\":" + json_quoted(bounds_of(s)) +
           ",\"environment\":" + json_quoted(environment_name(s.name)) + ",\"help\":" + json_quoted(s.help) +
           "}";
  }
  return out + "]}";
}

}  // namespace kvferry::config
