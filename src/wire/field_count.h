// How many fields an aggregate has, at compile time: encode.cc and decode name every field by hand, and a
// field that is added to message.h and forgotten there must not compile.
#pragma once

#include <cstddef>

namespace kvferry::wire {

struct AnyField {
  template <class T>
  operator T() const;  // declared only: stands for a value of any type
};

template <class T, class... Fields>
consteval std::size_t field_count() {
  if constexpr (requires { T{Fields{}..., AnyField{}}; }) {
    return field_count<T, Fields..., AnyField>();
  } else {
    return sizeof...(Fields);
  }
}

}  // namespace kvferry::wire
