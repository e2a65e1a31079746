"""Chooses tokens. A choice depends on its row alone, never on the batch.

The rules, in the order in which they act:

1. `bias`: `logit_bias` is added; banned ids get -infinity. `mask`: so does what a constraint
   does not allow.
2. `penalties`: the repetition penalty, over prompt and output; then frequency and presence, over
   the output.
3. Temperature divides. 0 takes the most likely token and ends here.
4. Top-k keeps the k most likely; of equals the lower id comes first.
5. Top-p keeps, of these, the most likely until their mass reaches p: a token stays if the mass
   before it is less than p of the mass of all that top-k kept.
6. Min-p keeps what is at least that share as likely as the most likely token.
7. Of what is left, the token of the largest sum of score and `noise` is chosen (Gumbel-max),
   which draws from the softmax.

Bias before penalties is the order of transformers and vLLM; top-k, top-p, min-p that of
transformers, while vLLM has min-p first. Penalties over the output alone are OpenAI's rule. Log
probabilities are of the raw logits, before all of it.
"""
