// Verified FlatBuffers -> values of message.h: bounds of FrameLimits, ranges of enums, then copies. Private
// to decode. The first thing that is wrong is kept as text and everything returns false from then on. Thread
// rule: one per call of decode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "wire/codec.h"
#include "wire/kvferry_generated.h"

namespace kvferry::wire {

class Reading {
 public:
  explicit Reading(const FrameLimits& limits) : limits_(limits) {}

  bool body(const fb::Frame&, Body& out);
  const std::string& why() const { return why_; }

 private:
  template <class T>
  using List = flatbuffers::Vector<T>;

  bool bad(std::string why);
  bool too_many(const char* field, std::size_t size, const char* limit_name, std::size_t limit);
  bool out_of_range(const char* field, unsigned value);

  bool read(const fb::Hello&, Hello&);
  bool read(const fb::WhoBody&, Who&);
  bool read(const fb::Grant&, Grant&);
  bool read(const fb::Ready&, Ready&);
  bool read(const fb::Revoke&, Revoke&);
  bool read(const fb::Revoked&, Revoked&);
  bool read(const fb::Done&, Done&);
  bool read(const fb::Fail&, Fail&);
  bool read(const fb::Offer&, Offer&);
  bool read(const fb::Release&, Release&);
  bool read(const fb::Ack&, Ack&);
  bool read(const fb::Renew&, Renew&);
  bool read(const fb::Renewed&, Renewed&);
  bool read(const fb::Computing&, Computing&);
  bool read(const fb::Ping&, Ping&);
  bool read(const fb::Stall&, Stall&);
  bool read(const fb::Regions&, Regions&);
  bool read(const fb::Resend&, Resend&);

  bool cause(const fb::Cause*, Cause&);
  bool manifest(const fb::Manifest*, Manifest&);
  bool hello_rest(const fb::Hello&, Hello&);
  bool layout(const fb::Layout*, Layout&);
  bool component(const fb::Component&, Component&);
  bool movers(const fb::Hello&, std::vector<MoverOffer>&);
  bool mover(const fb::MoverOffer&, MoverOffer&);
  bool mover_enums(const fb::MoverOffer&, MoverOffer&);
  bool pages(const List<const fb::PageRun*>*, PageRuns&);
  bool renewals(const List<const fb::RenewItem*>*, std::vector<RenewItem>&);
  bool text(const flatbuffers::String*, const char* field, std::string& out);
  bool octets(const List<std::uint8_t>*, const char* field, std::vector<std::byte>& out);
  bool numbers(const List<std::uint32_t>*, const char* field, const char* limit_name, std::size_t limit,
               std::vector<std::uint32_t>& out);

  // An enum of the wire whose numbers run from `first` to `last` of the public one.
  template <class To, class From>
  bool pick(const char* field, From value, To first, To last, To& out) {
    using Number = std::underlying_type_t<To>;
    const auto number = static_cast<Number>(value);
    if (number < static_cast<Number>(first) || number > static_cast<Number>(last)) {
      return out_of_range(field, number);
    }
    out = static_cast<To>(number);
    return true;
  }

  // The bytes of a verified list of structs. Elements are loaded from bytes and not through pointers: the
  // verifier does not look at the alignment of list elements. take(bytes of one element) stores it.
  template <class T, class Take>
  static void each(const List<const T*>& list, Take take) {
    std::span<const std::byte> rest = bytes_of_octets({list.Data(), list.size() * sizeof(T)});
    for (; !rest.empty(); rest = rest.subspan(sizeof(T))) {
      take(rest.first(sizeof(T)));
    }
  }

  FrameLimits limits_;
  std::string why_;
};

}  // namespace kvferry::wire
