package tokenprefix

// topFields are the members of a body that a signature or a Meta depends on.
type topFields struct {
	model, cacheSalt, loraPath, adapterID, lora         span // scope
	messages, system, tools, functions, documents       span // conversations
	input, instructions, previousResponse, conversation span // Responses
	chatTemplate, mmProcessor                           span
	prompt, suffix, context, images                     span // completions
	text, inputIDs, inputs, imageData                   span // generate
	encodingFormat, dimensions                          span // embeddings
	stream, promptCacheKey                              span
	maxCompletion, maxOutput, maxTokens, nPredict       span
	samplingParams, parameters, options                 span
}

// at returns the place for the member with the given name, or nil if nothing
// depends on it.
func (f *topFields) at(name []byte) *span {
	switch string(name) {
	case "model":
		return &f.model
	case "cache_salt":
		return &f.cacheSalt
	case "lora_path":
		return &f.loraPath
	case "adapter_id":
		return &f.adapterID
	case "lora":
		return &f.lora
	case "messages":
		return &f.messages
	case "system":
		return &f.system
	case "tools":
		return &f.tools
	case "functions":
		return &f.functions
	case "documents":
		return &f.documents
	case "input":
		return &f.input
	case "instructions":
		return &f.instructions
	case "previous_response_id":
		return &f.previousResponse
	case "conversation":
		return &f.conversation
	case "chat_template":
		return &f.chatTemplate
	case "mm_processor_kwargs":
		return &f.mmProcessor
	case "prompt":
		return &f.prompt
	case "suffix":
		return &f.suffix
	case "context":
		return &f.context
	case "images":
		return &f.images
	case "text":
		return &f.text
	case "input_ids":
		return &f.inputIDs
	case "inputs":
		return &f.inputs
	case "image_data":
		return &f.imageData
	case "encoding_format":
		return &f.encodingFormat
	case "dimensions":
		return &f.dimensions
	case "stream":
		return &f.stream
	case "prompt_cache_key":
		return &f.promptCacheKey
	case "max_completion_tokens":
		return &f.maxCompletion
	case "max_output_tokens":
		return &f.maxOutput
	case "max_tokens":
		return &f.maxTokens
	case "n_predict":
		return &f.nPredict
	case "sampling_params":
		return &f.samplingParams
	case "parameters":
		return &f.parameters
	case "options":
		return &f.options
	}
	return nil
}

// recognise returns the shape that the fields of the body speak for.
func (w *bodyWriter) recognise() Shape {
	f := &w.top
	switch {
	case w.present(f.messages) && w.present(f.system):
		return ShapeMessages
	case w.present(f.messages):
		return ShapeChat
	case w.present(f.input):
		if w.present(f.encodingFormat) || w.present(f.dimensions) || w.listsPlainInputs(f.input) {
			return ShapeEmbeddings
		}
		return ShapeResponses
	case w.present(f.prompt):
		return ShapeCompletions
	case w.present(f.text) || w.present(f.inputIDs) || w.present(f.inputs):
		return ShapeGenerate
	}
	return ShapeUnknown
}

// listsPlainInputs reports whether v is a list of texts or token ids, as
// embeddings take it, in contrast to the items of a response.
func (w *bodyWriter) listsPlainInputs(v span) bool {
	if !w.is(v, '[') {
		return false
	}
	for x := range w.elements(v) {
		return !w.is(x, '{')
	}
	return false
}

// promptOf returns the member that holds the prompt of a body of the shape.
func (w *bodyWriter) promptOf(shape Shape) span {
	f := &w.top
	switch shape {
	case ShapeChat, ShapeMessages:
		return f.messages
	case ShapeResponses, ShapeEmbeddings:
		return f.input
	case ShapeCompletions:
		return f.prompt
	case ShapeGenerate:
		for _, v := range [...]span{f.text, f.inputIDs, f.inputs, f.prompt} {
			if w.present(v) {
				return v
			}
		}
	}
	return span{}
}
