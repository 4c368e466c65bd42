# Every object of this project is compiled with these; packages come in as system headers and are exempt.
add_compile_options(-Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(KVFERRY_WERROR)
  add_compile_options(-Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    add_compile_options(-Wno-restrict -Wno-maybe-uninitialized) # GCC 12 reports it for "text" + std::string (bug 105651)
  endif()
  if(KVFERRY_SANITIZE)
    add_compile_options(-Wno-maybe-uninitialized) # false alarms in instrumented code
  endif()
endif()
