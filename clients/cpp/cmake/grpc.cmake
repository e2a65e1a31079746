# Finds gRPC, by its own package for CMake or else by pkg-config, and the plugin of protoc.
# Defines the target gRPC::grpc++ and the variable grpc_cpp_plugin.

find_package(gRPC CONFIG)
find_package(Protobuf REQUIRED)
if(NOT TARGET gRPC::grpc++)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(grpcpp REQUIRED IMPORTED_TARGET GLOBAL grpc++)
  add_library(gRPC::grpc++ ALIAS PkgConfig::grpcpp)
endif()
if(TARGET gRPC::grpc_cpp_plugin)
  set(grpc_cpp_plugin $<TARGET_FILE:gRPC::grpc_cpp_plugin>)
else()
  find_program(grpc_cpp_plugin grpc_cpp_plugin REQUIRED)
endif()
