#include "check.h"
#include "headrace/client.h"

namespace {

using namespace headrace;

void add_delta(v1::GenerateResponse& response, int candidate, const std::string& text) {
  v1::CandidateDelta* delta = response.add_deltas();
  delta->set_candidate_index(candidate);
  delta->set_text(text);
}

TEST(a_user_prompt_is_a_chat_with_one_message) {
  const v1::GenerateRequest request = user_prompt("Hi");
  EXPECT_EQUAL(request.chat().messages_size(), 1);
  EXPECT_EQUAL(request.chat().messages(0).role(), v1::ROLE_USER);
  EXPECT_EQUAL(request.chat().messages(0).content(), "Hi");
}

TEST(the_text_of_a_response_is_that_of_the_first_candidate) {
  v1::GenerateResponse response;
  EXPECT_EQUAL(text_of(response), "");
  add_delta(response, 1, "other");
  add_delta(response, 0, "Paris");
  EXPECT_EQUAL(text_of(response), "Paris");
}

}  // namespace
