#include "headrace/stream.h"

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <future>
#include <thread>

#include "check.h"
#include "headrace/client.h"
#include "headrace/v1/inference_service.grpc.pb.h"

namespace {

using namespace headrace;

v1::GenerateResponse response_with(const std::string& text) {
  v1::GenerateResponse response;
  response.add_deltas()->set_text(text);
  return response;
}

// Answers with the text of the question and a full stop, and to "for ever" until it is
// cancelled, which it tells.
class EchoService : public v1::InferenceService::Service {
 public:
  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    const auto key = context->client_metadata().find("authorization");
    if (key == context->client_metadata().end() || key->second != "Bearer secret") {
      return {grpc::StatusCode::UNAUTHENTICATED, "No key."};
    }
    context->AddInitialMetadata("x-request-id", "7");
    const std::string& question = request->chat().messages(0).content();
    while (writer->Write(response_with(question)) && question == "for ever") {
    }
    if (context->IsCancelled()) {
      cancelled_.set_value();
      return grpc::Status::CANCELLED;
    }
    writer->Write(response_with("."));
    return grpc::Status::OK;
  }

  bool was_cancelled() {
    return cancelled_.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  }

 private:
  std::promise<void> cancelled_;
};

// A server on a free port, and a client of it.
struct Served {
  explicit Served(const std::string& api_key = "secret") {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service);
    server = builder.BuildAndStart();
    ClientOptions options;
    options.api_key = api_key;
    client = std::make_unique<Client>("127.0.0.1:" + std::to_string(port), options);
  }

  EchoService service;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<Client> client;
};

grpc::StatusCode code_at_end_of(Stream& stream) {
  try {
    while (stream.next()) {
    }
  } catch (const Error& error) {
    return error.code();
  }
  return grpc::StatusCode::OK;
}

TEST(a_loop_reads_an_answer_to_its_end) {
  const Served served;
  Stream stream = served.client->stream(user_prompt("Paris"));
  std::string text;
  for (const v1::GenerateResponse& response : stream) text += text_of(response);
  EXPECT_EQUAL(text, "Paris.");
  EXPECT_EQUAL(stream.next().has_value(), false);
  EXPECT_EQUAL(stream.headers().find("x-request-id")->second, "7");
}

TEST(a_refusal_is_thrown_each_time) {
  const Served served("");
  Stream stream = served.client->stream(user_prompt("Paris"));
  EXPECT_EQUAL(code_at_end_of(stream), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQUAL(code_at_end_of(stream), grpc::StatusCode::UNAUTHENTICATED);
}

TEST(a_key_that_cannot_be_sent_is_refused_without_telling_it) {
  for (const char* key : {"secret\n", "se cret", "s\xc3\xa9"}) {
    std::string complaint;
    try {
      const Served served(key);
    } catch (const std::invalid_argument& error) {
      complaint = error.what();
    }
    EXPECT_EQUAL(complaint, "the API key holds characters other than visible ASCII ones");
  }
}

TEST(an_answer_that_is_left_is_cancelled_at_the_server) {
  Served served;
  {
    Stream stream = served.client->stream(user_prompt("for ever"));
    EXPECT_EQUAL(text_of(*stream.next()), "for ever");
  }
  EXPECT_EQUAL(served.service.was_cancelled(), true);
}

TEST(a_canceller_ends_a_call_from_another_thread) {
  Served served;
  Stream stream = served.client->stream(user_prompt("for ever"));
  EXPECT_EQUAL(text_of(*stream.next()), "for ever");
  std::thread([canceller = stream.canceller()] { canceller.cancel(); }).join();
  EXPECT_EQUAL(code_at_end_of(stream), grpc::StatusCode::CANCELLED);
  EXPECT_EQUAL(served.service.was_cancelled(), true);
}

TEST(a_call_that_was_cancelled_before_it_began_ends_so) {
  const Served served;
  Stream stream = served.client->stream(user_prompt("Paris"));
  const Canceller canceller = stream.canceller();
  canceller.cancel();
  EXPECT_EQUAL(code_at_end_of(stream), grpc::StatusCode::CANCELLED);
  canceller.cancel();
}

TEST(a_stream_can_be_moved_and_never_read) {
  const Served served;
  Stream stream = served.client->stream(user_prompt("Paris"));
  Stream moved = std::move(stream);
  EXPECT_EQUAL(code_at_end_of(moved), grpc::StatusCode::OK);
  const Stream unread = served.client->stream(user_prompt("Paris"));
}

}  // namespace
