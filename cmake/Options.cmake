# Compiler settings and build options shared by every target.
option(KIMI_K3_TESTS "Build the tests" ON)
option(KIMI_K3_BENCH "Build the benchmarks" OFF)
option(KIMI_K3_FUZZ "Build the fuzz targets (clang only)" OFF)
option(KIMI_K3_PCH "Precompile the headers that every test includes" OFF)
set(KIMI_K3_SANITIZE "" CACHE STRING "Sanitizers: empty, 'address,undefined' or 'thread'")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  if(KIMI_K3_PCH)  # what ccache asks for with precompiled headers
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
                                    ${CCACHE_PROGRAM})
    add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  endif()
endif()

# CMAKE_UNITY_BUILD: several sources of a room are compiled as one, in a quarter of the time, which
# spares who builds once. A source is then included, and its unnamed types are none of a header's.
if(CMAKE_UNITY_BUILD)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()

# Contraction would let the compiler fuse differently for each instruction set; the summation
# contract (docs/arithmetic.md) needs every multiply-add to be where the source says it is.
add_compile_options(-ffp-contract=off -fno-math-errno)
if(KIMI_K3_SANITIZE)
  add_compile_options(-fsanitize=${KIMI_K3_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${KIMI_K3_SANITIZE})
endif()

# A library of one room: warnings are errors, headers are found from src/ and include/.
function(kimi_k3_library name)
  add_library(${name} STATIC ${ARGN})
  kimi_k3_settings(${name})
endfunction()

function(kimi_k3_settings target)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                         -Wno-sign-conversion -Wnon-virtual-dtor -Werror)
endfunction()
