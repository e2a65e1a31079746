# add_proto_library(NAME ROOT FILES…) compiles protos, whose paths are from ROOT, with their
# services where they have some: those that are named *_service.proto.
function(add_proto_library name root)
  set(out ${PROJECT_BINARY_DIR}/protos)
  file(MAKE_DIRECTORY ${out})
  set(sources)
  set(inputs)
  set(services)
  foreach(proto IN LISTS ARGN)
    string(REGEX REPLACE "\\.proto$" "" stem ${proto})
    list(APPEND inputs ${root}/${proto})
    list(APPEND sources ${out}/${stem}.pb.cc)
    if(proto MATCHES "_service\\.proto$")
      list(APPEND services ${root}/${proto})
      list(APPEND sources ${out}/${stem}.grpc.pb.cc)
    endif()
  endforeach()
  set(generate_services)
  if(services)
    set(generate_services COMMAND protobuf::protoc -I${root} --grpc_out=${out}
                          --plugin=protoc-gen-grpc=${grpc_cpp_plugin} ${services})
  endif()
  add_custom_command(
    OUTPUT ${sources}
    COMMAND protobuf::protoc -I${root} --cpp_out=${out} ${inputs}
    ${generate_services}
    DEPENDS ${inputs}
    COMMENT "Generating ${name}"
    VERBATIM)
  add_library(${name} STATIC ${sources})
  target_compile_features(${name} PUBLIC cxx_std_17)
  # As a system folder, so that warnings are about one's own code.
  target_include_directories(${name} SYSTEM PUBLIC ${out})
  target_link_libraries(${name} PUBLIC gRPC::grpc++ protobuf::libprotobuf Threads::Threads)
endfunction()
