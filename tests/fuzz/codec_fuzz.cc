// Invariant: every byte string is either refused as kBadMessage with a reason, or decodes to a message that
// survives encode and decode unchanged, at any address.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "wire/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvferry;
  // A copy that ends with the input, so that the sanitizer sees a read behind it, at an address that is often
  // odd.
  std::vector<std::byte> moved(size % 8);
  const auto input = bytes_of_octets({data, size});
  moved.insert(moved.end(), input.begin(), input.end());
  moved.shrink_to_fit();
  const Result<wire::Message> message = wire::decode(std::span<const std::byte>(moved).subspan(size % 8));
  if (!message) {
    KVF_CHECK(message.error().code == Code::kBadMessage, "a refusal with another code");
    KVF_CHECK(!message.error().why.empty() && !message.error().what.empty(), "a refusal without a reason");
    return 0;
  }
  wire::Encoder encoder;
  const Result<wire::Message> again = wire::decode(encoder.encode(*message));
  KVF_CHECK(again.has_value(), "what was decoded cannot be encoded and read again");
  KVF_CHECK(*again == *message, "a round trip changed the message");
  return 0;
}
