// What one token of a model costs in KV cache, as rows: a row is what one layer of one component keeps for
// one token. Values; no thread rule.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/error.h"

namespace kvferry::replay {

inline constexpr std::uint32_t kMaxBytesPerToken = 1U << 24;

struct ModelPart {           // one component of the layout
  std::string name;          // "k", "v", "latent", "kv"
  std::uint32_t row_bytes = 0;  // bytes of one token in one layer
};

struct Model {
  std::string name;
  std::string dtype;
  bool mla = false;
  std::uint32_t layers = 1;
  std::vector<ModelPart> parts;

  std::uint64_t bytes_per_token() const;
};

// "Llama-3.1-8B", "DeepSeek-V3", "SmolLM2-135M", in any case. kUsage lists the known names.
Result<Model> find_model(std::string_view name);
// One component with one layer of `bytes` a token; bytes in [1, kMaxBytesPerToken].
Model plain_model(std::uint32_t bytes);

}  // namespace kvferry::replay
