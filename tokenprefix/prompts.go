package tokenprefix

// prompts writes a body that consists of one prompt or a list of them.
func (w *bodyWriter) prompts(prompt span) {
	w.message("system", w.top.system)
	w.named("context", w.top.context)
	w.medias(w.top.imageData)
	w.medias(w.top.images)
	if w.is(prompt, '[') {
		for v := range w.elements(prompt) {
			w.prompt(v)
		}
	} else {
		w.prompt(prompt)
	}
	w.named("suffix", w.top.suffix)
}

// prompt writes one prompt.
func (w *bodyWriter) prompt(v span) {
	if w.is(v, '"') {
		w.text(tagPrompt, v)
		return
	}
	w.raw(v)
}

// hasExtras reports whether something beside the prompt is part of it.
func (w *bodyWriter) hasExtras() bool {
	f := &w.top
	for _, v := range [...]span{f.system, f.context, f.imageData, f.images, f.suffix} {
		if w.present(v) {
			return true
		}
	}
	return false
}

// listsIDs reports whether the prompt looks like a list of token ids, or a list
// of such lists.
func (w *bodyWriter) listsIDs(prompt span) bool {
	if !w.is(prompt, '[') {
		return false
	}
	for v := range w.elements(prompt) {
		return w.isDigit(v) || w.is(v, '[')
	}
	return false
}

// idPrompts writes a list of token ids or a list of such lists, with a cut
// between two of them. It returns false, with a chain that is of no use, if
// something else is among them.
func (w *bodyWriter) idPrompts(prompt span) bool {
	if w.b[w.space(prompt.start+1)] != '[' {
		return w.ids(prompt)
	}
	first := true
	for v := range w.elements(prompt) {
		if !first {
			w.cut()
		}
		first = false
		if !w.is(v, '[') || !w.ids(v) {
			return false
		}
	}
	return true
}

// ids writes the token ids listed in v, and returns whether there are only such.
func (w *bodyWriter) ids(v span) bool {
	var buf [256]uint32
	n := 0
	i := w.space(v.start + 1)
	for i < v.end-1 {
		id, start := uint64(0), i
		for ; w.b[i]-'0' <= 9; i++ {
			id = 10*id + uint64(w.b[i]-'0')
			if id > 1<<32-1 {
				return false
			}
		}
		if i == start {
			return false
		}
		buf[n] = uint32(id)
		if n++; n == len(buf) {
			w.writeIDs(buf[:])
			n = 0
		}
		i = w.space(i)
		if i == v.end-1 {
			break
		}
		if w.b[i] != ',' {
			return false
		}
		i = w.space(i + 1)
	}
	w.writeIDs(buf[:n])
	return true
}
