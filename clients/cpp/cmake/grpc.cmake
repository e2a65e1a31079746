# Finds gRPC and protobuf, by their own packages for CMake or else by pkg-config and CMake's
# module, and the plugin of protoc. Defines the targets gRPC::grpc++, protobuf::libprotobuf and
# protobuf::protoc, and the variable grpc_cpp_plugin.

find_package(Protobuf CONFIG QUIET)
if(NOT Protobuf_FOUND)
  find_package(Protobuf REQUIRED)
endif()
find_package(gRPC CONFIG QUIET)
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
