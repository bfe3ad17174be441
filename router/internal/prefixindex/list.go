package prefixindex

// list is a doubly linked list of holdings.
type list struct{ first, last *holding }

func (l *list) pushBack(h *holding) { l.link(h, l.last) }

// insert puts h before the first holding that was used later. What becomes idle
// was nearly always used last of all, or is what an evicted leaf hung on and as
// old as that one, so few steps are taken from either end.
func (l *list) insert(h *holding) {
	if l.last == nil || l.last.used <= h.used {
		l.link(h, l.last)
		return
	}
	after := l.first
	for after.used < h.used {
		after = after.next
	}
	l.link(h, after.prev)
}

// link puts h behind prev, or first if prev is nil.
func (l *list) link(h, prev *holding) {
	h.prev = prev
	if prev == nil {
		h.next, l.first = l.first, h
	} else {
		h.next, prev.next = prev.next, h
	}
	if h.next == nil {
		l.last = h
	} else {
		h.next.prev = h
	}
}

func (l *list) remove(h *holding) {
	if h.prev == nil {
		l.first = h.next
	} else {
		h.prev.next = h.next
	}
	if h.next == nil {
		l.last = h.prev
	} else {
		h.next.prev = h.prev
	}
	h.prev, h.next = nil, nil
}
