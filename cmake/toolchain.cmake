# Language level, visibility, compiler cache and linker: the same for every object of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_INTERPROCEDURAL_OPTIMIZATION OFF)

find_program(KVFERRY_CCACHE ccache)
if(KVFERRY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${KVFERRY_CCACHE}")
endif()

find_program(KVFERRY_MOLD mold)
if(KVFERRY_MOLD)
  include(CheckLinkerFlag)
  check_linker_flag(CXX "-fuse-ld=mold" KVFERRY_MOLD_WORKS)
  if(KVFERRY_MOLD_WORKS)
    add_link_options("-fuse-ld=mold")
  endif()
endif()

# Colours survive ninja's pipe.
set(CMAKE_COLOR_DIAGNOSTICS ON)
