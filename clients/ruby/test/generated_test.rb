# frozen_string_literal: true

require "test_helper"
require "google/protobuf/descriptor_pb"
require "tmpdir"

# The code in lib/headrace/v1 is that of the contract; `rake protos` makes it.
class GeneratedTest < Minitest::Test
  PROTOS = File.expand_path("../../../protos", __dir__)
  LIB = File.expand_path("../lib", __dir__)

  def test_is_of_the_contract
    names = Dir.chdir(PROTOS) { Dir["headrace/v1/*.proto"] }
    refute_empty names
    described(names).each { |file| assert_equal file, generated(file.name), "#{file.name}: rake protos" }
  end

  private

  def described(names)
    Dir.mktmpdir do |folder|
      assert system("protoc", "-I", PROTOS, "--descriptor_set_out=#{folder}/set", *names), "protoc is missing"
      set = Google::Protobuf::FileDescriptorSet.decode(File.binread("#{folder}/set"))
      set.file.each { |file| file.message_type.each { |message| forget_json_names(message) } }
    end
  end

  def generated(name)
    source = File.binread("#{LIB}/#{name.sub('.proto', '_pb.rb')}")
    text = source[/^descriptor_data = ("(?:[^"\\]|\\.)*")$/, 1] or flunk("#{name} has no descriptor")
    Google::Protobuf::FileDescriptorProto.decode(eval(text)) # rubocop:disable Security/Eval
  end

  # Only one of the two has them, and they follow from the names.
  def forget_json_names(message)
    message.field.each { |field| field.clear_json_name }
    message.nested_type.each { |nested| forget_json_names(nested) }
  end
end
