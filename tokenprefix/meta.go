package tokenprefix

// Meta is what a body says beside its prompt. The byte slices are parts of the
// body, or copies where it spells them with escapes: copy them before the body's
// memory is used again. They are nil where the body has no such field, or not a
// text in it. Everything here is the client's word.
type Meta struct {
	// Shape is the layout that was recognised or named.
	Shape Shape

	// Absence says why there is no signature; AbsenceNone means there is one.
	Absence Absence

	Model     []byte // model
	Adapter   []byte // lora_path (SGLang) or adapter_id (TGI), not lora (llama.cpp), which is a list
	CacheSalt []byte // cache_salt (vLLM)

	// Stream says that the answer is to be streamed.
	Stream bool

	// MaxOutputTokens is the limit that the client sets on the answer, in
	// tokens; 0 if it sets none.
	MaxOutputTokens int

	// PromptCacheKey is prompt_cache_key, which clients set to keep a session
	// together. It takes no part in the signature. A key built from it has to
	// include the tenant, or one tenant could follow another.
	PromptCacheKey []byte

	// PreviousResponseID and Conversation name history that one engine holds.
	// The signature covers only what the body itself says; to find the engine,
	// remember which one answered with this id.
	PreviousResponseID []byte
	Conversation       []byte
}

// Absence is the reason why a body has no signature.
type Absence uint8

// The reasons for having no signature.
const (
	AbsenceNone        Absence = iota // there is a signature
	AbsenceEmptyBody                  // nothing but white space
	AbsenceMalformed                  // not JSON; Body returned an error
	AbsenceNotObject                  // a list, text, number or word, not an object
	AbsenceNoPrompt                   // no field that holds a prompt
	AbsenceEmptyPrompt                // a prompt of nothing
	AbsenceWrongType                  // model or prompt of a type that no engine takes
)

// String returns the reason in a few words.
func (a Absence) String() string {
	switch a {
	case AbsenceNone:
		return "signature present"
	case AbsenceEmptyBody:
		return "empty body"
	case AbsenceMalformed:
		return "malformed body"
	case AbsenceNotObject:
		return "body is no object"
	case AbsenceNoPrompt:
		return "no prompt"
	case AbsenceEmptyPrompt:
		return "empty prompt"
	case AbsenceWrongType:
		return "wrong type of model or prompt"
	}
	return "unknown"
}

// readMeta sets the fields of m from the fields of the body.
func (w *bodyWriter) readMeta(m *Meta) {
	f := &w.top
	if m.Shape == ShapeUnknown {
		m.Shape = w.recognise()
	}
	m.Model = w.stringOf(f.model)
	if w.present(f.model) && m.Model == nil {
		m.Absence = AbsenceWrongType
	}
	m.CacheSalt = w.stringOf(f.cacheSalt)
	m.PromptCacheKey = w.stringOf(f.promptCacheKey)
	m.PreviousResponseID = w.stringOf(f.previousResponse)
	m.Conversation = w.stringOf(f.conversation)
	if w.is(f.conversation, '{') {
		m.Conversation = w.stringOf(w.memberOf(f.conversation, "id"))
	}
	m.Stream = w.is(f.stream, 't')
	m.Adapter = w.adapter()
	m.MaxOutputTokens = w.maxOutputTokens()
}

// adapter returns what the body calls its adapter, or nil.
func (w *bodyWriter) adapter() []byte {
	f := &w.top
	for _, v := range [...]span{f.loraPath, f.adapterID, w.memberOf(f.parameters, "adapter_id")} {
		if a := w.stringOf(v); len(a) > 0 {
			return a
		}
	}
	return nil
}

// maxOutputTokens returns the first positive limit on the answer in the body, or
// 0.
func (w *bodyWriter) maxOutputTokens() int {
	f := &w.top
	for _, v := range [...]span{
		f.maxCompletion, f.maxOutput, f.maxTokens, f.nPredict,
		w.memberOf(f.samplingParams, "max_new_tokens"),
		w.memberOf(f.parameters, "max_new_tokens"),
		w.memberOf(f.options, "num_predict"),
	} {
		if n := w.intOf(v); n > 0 {
			return n
		}
	}
	return 0
}
