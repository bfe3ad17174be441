// Package tokenprefix turns the prompt of an LLM request into a signature: a
// chain of block hashes that names every leading part of the prompt, so that a
// router can tell which engine replica already holds how much of it in its KV
// cache.
//
//	var h tokenprefix.Hasher      // shared by all requests
//	var sig tokenprefix.Signature // one for each request at a time, reused
//
//	meta, err := h.Body(&sig, tokenprefix.Scope{Tenant: tenant}, body)
//
// [Hasher.Body] reads the JSON bodies of the common APIs in one go, without
// decoding them and without allocating. Callers that have rendered the chat
// template use [Hasher.Text], those that have run the tokenizer
// [Hasher.Tokens].
//
// # What takes part
//
// Everything that the engine's own cache key depends on takes part: the
// [Scope], system prompt and tools, roles, texts, reasoning, tool calls and
// results, and images by their bytes as sent. Nothing else does: sampling,
// streaming, user, metadata, cache marks. Requests that spell the same prompt
// differently, by white space, escapes, the order of keys, or a text in place of
// a list of one text, have the same signature.
//
// A body is read as a canonical stream in the order of the prompt: system texts
// and tools, then turn after turn. The stream is cut into blocks of a fixed
// number of bytes, BlockTokens × BytesPerToken, 1 KiB by default, and each block
// is hashed together with the value of the block before. So
//
//   - two prompts that agree up to some byte agree in all full blocks up to there
//     and in none behind;
//   - the next turn of a conversation starts with the blocks of this one;
//   - no two different prompts meet because their parts happen to join up, as
//     every part has a tag and an end.
//
// Without a Hasher.Key, signatures depend on nothing but the prompt, the scope
// and the two sizes. They are the same in every process, on every architecture
// and in every version of this package with the same format; a change of the
// format is announced in the changelog, since it moves every conversation once.
package tokenprefix
