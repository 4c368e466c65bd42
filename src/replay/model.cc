#include "replay/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace kvferry::replay {
namespace {

constexpr std::uint32_t kBf16 = 2;  // bytes

struct Preset {
  const char* name;
  bool mla;
  std::uint32_t layers;
  std::uint32_t row_bytes;  // each of K and V; with MLA of the one latent row
};

// Llama: 8 KV heads x 128. DeepSeek-V3: 512 latent + 64 rotary values. SmolLM2: 3 KV heads x 64. All in bf16.
constexpr std::array<Preset, 3> kPresets{{
    {"Llama-3.1-8B", false, 32, 8 * 128 * kBf16},
    {"DeepSeek-V3", true, 61, (512 + 64) * kBf16},
    {"SmolLM2-135M", false, 30, 3 * 64 * kBf16},
}};

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::uint64_t Model::bytes_per_token() const {
  std::uint64_t bytes = 0;
  for (const ModelPart& part : parts) bytes += std::uint64_t{part.row_bytes} * layers;
  return bytes;
}

Result<Model> find_model(std::string_view name) {
  std::string known;
  for (const Preset& preset : kPresets) {
    if (same_name(name, preset.name)) {
      std::vector<ModelPart> parts;
      if (preset.mla) {
        parts.push_back({"latent", preset.row_bytes});
      } else {
        parts = {{"k", preset.row_bytes}, {"v", preset.row_bytes}};
      }
      return Model{preset.name, "bf16", preset.mla, preset.layers, std::move(parts)};
    }
    known += known.empty() ? preset.name : fmt::format(", {}", preset.name);
  }
  return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, "--model",
              fmt::format("\"{}\" is not a preset; known are {}; or give --bytes-per-token B", name, known));
}

Model plain_model(std::uint32_t bytes) {
  return Model{fmt::format("{} B a token", bytes), "u8", false, 1, {{"kv", bytes}}};
}

}  // namespace kvferry::replay
