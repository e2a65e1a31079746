# frozen_string_literal: true

require_relative "lib/headrace/version"

Gem::Specification.new do |spec|
  spec.name = "headrace"
  spec.version = Headrace::VERSION
  spec.authors = ["Headrace"]
  spec.summary = "A client of Headrace, a streaming inference service over gRPC."
  spec.license = "Apache-2.0"
  spec.required_ruby_version = ">= 3.1"
  spec.files = Dir["lib/**/*.rb", "exe/*", "README.md"]
  spec.bindir = "exe"
  spec.executables = ["headrace"]
  spec.metadata = { "rubygems_mfa_required" => "true" }

  spec.add_dependency "google-protobuf", ">= 3.21", "< 5"
  spec.add_dependency "googleapis-common-protos-types", "~> 1.4"
  spec.add_dependency "grpc", "~> 1.51"

  # Older ones, such as Debian 12's, write what google-protobuf 4 no longer reads.
  spec.add_development_dependency "grpc-tools", "~> 1.57"
  spec.add_development_dependency "minitest", "~> 5.15"
  spec.add_development_dependency "rake", "~> 13.0"
end
