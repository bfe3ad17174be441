package prefixindex

// list is a doubly linked list of holdings.
type list struct{ first, last *holding }

func (l *list) pushBack(h *holding) { l.link(h, l.last) }

// insert puts h where the order by last use wants it. What becomes idle was
// mostly used last of all; what an evicted leaf hung on is as old as that one, or
// anywhere if it had other leaves, so it is looked for from both ends.
func (l *list) insert(h *holding) {
	if l.last == nil || l.last.used <= h.used {
		l.link(h, l.last)
		return
	}
	older, newer := l.first, l.last
	for older.used < h.used && newer.used > h.used {
		older, newer = older.next, newer.prev
	}
	if older.used >= h.used {
		l.link(h, older.prev)
	} else {
		l.link(h, newer)
	}
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
