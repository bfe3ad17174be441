package prefixindex

import "slices"

// leaves are the holdings of one endpoint that nothing follows, by their last use. It
// is a heap of four branches, which is half as deep as one of two, and
// it is lazy: a use changes the holding and leaves the heap alone, which learns of it
// when the entry comes to the top.
type leaves struct {
	heap []leaf
	// pinned are those that were in use when they came, or were found so at the top;
	// they go to the heap when their requests are over.
	pinned []*holding
}

// leaf is an entry of the heap. Its key is a last use of the holding, which may have
// been used again since.
type leaf struct {
	key int64
	at  *holding
}

// add puts in a leaf that is not there.
func (l *leaves) add(h *holding) {
	h.queued = true
	if h.active > 0 {
		l.putAside(h)
		return
	}
	l.heap = append(l.heap, leaf{})
	l.up(len(l.heap)-1, leaf{h.used, h})
}

// oldest returns the leaf that is not in use and was used least recently, nil if all
// are in use. It is first in the heap then.
func (l *leaves) oldest() *holding {
	for len(l.heap) > 0 {
		top := &l.heap[0]
		switch h := top.at; {
		case h.kids > 0:
			h.queued = false
			l.removeFirst()
		case h.active > 0:
			l.putAside(h)
			l.removeFirst()
		case h.used > top.key:
			l.down(leaf{h.used, h})
		default:
			return h
		}
	}
	return nil
}

func (l *leaves) putAside(h *holding) {
	h.aside = true
	l.pinned = append(l.pinned, h)
}

// remove takes out a holding that is not in use.
func (l *leaves) remove(h *holding) {
	h.queued = false
	if l.heap[0].at == h {
		l.removeFirst()
		return
	}
	i := slices.IndexFunc(l.heap, func(e leaf) bool { return e.at == h })
	l.up(i, leaf{-1 << 63, h})
	l.removeFirst()
}

// over is called when a holding that was put aside is not in use any more.
func (l *leaves) over(h *holding) {
	i, last := slices.Index(l.pinned, h), len(l.pinned)-1
	l.pinned[i] = l.pinned[last]
	l.pinned[last] = nil
	l.pinned = l.pinned[:last]
	h.aside, h.queued = false, false
	if h.kids == 0 {
		l.add(h)
	}
}

// all calls yield with every holding that is here, which are all leaves and some
// others.
func (l *leaves) all(yield func(*holding) bool) {
	for _, e := range l.heap {
		if !yield(e.at) {
			return
		}
	}
	for _, h := range l.pinned {
		if !yield(h) {
			return
		}
	}
}

// up moves the free place i up until e may have it.
func (l *leaves) up(i int, e leaf) {
	for i > 0 {
		parent := (i - 1) / 4
		if l.heap[parent].key <= e.key {
			break
		}
		l.heap[i] = l.heap[parent]
		i = parent
	}
	l.heap[i] = e
}

// down moves the free first place down until e may have it.
func (l *leaves) down(e leaf) {
	heap, i := l.heap, 0
	for {
		first := 4*i + 1
		if first >= len(heap) {
			break
		}
		least := first
		for k := first + 1; k < min(first+4, len(heap)); k++ {
			if heap[k].key < heap[least].key {
				least = k
			}
		}
		if heap[least].key >= e.key {
			break
		}
		heap[i] = heap[least]
		i = least
	}
	heap[i] = e
}

func (l *leaves) removeFirst() {
	last := len(l.heap) - 1
	e := l.heap[last]
	l.heap[last] = leaf{}
	l.heap = l.heap[:last]
	if last > 0 {
		l.down(e)
	}
}
