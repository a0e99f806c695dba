package comfyfake

// bits writes numbers bit by bit, highest first.
type bits struct {
	data []byte
	free int // unused bits of the last byte
}

func (w *bits) put(v uint64, n int) {
	for n > 0 {
		if w.free == 0 {
			w.data = append(w.data, 0)
			w.free = 8
		}
		take := min(n, w.free)
		part := byte(v>>(n-take)) & (1<<take - 1)
		w.free -= take
		n -= take
		w.data[len(w.data)-1] |= part << w.free
	}
}

// bytes appends whole bytes and is called at byte borders only.
func (w *bits) bytes(b []byte) { w.data = append(w.data, b...) }

// align fills the last byte with zeros.
func (w *bits) align() { w.free = 0 }

// ue writes an unsigned Exp-Golomb code, the number format of H.264.
func (w *bits) ue(v uint64) {
	length := 0
	for (v+1)>>length > 1 {
		length++
	}
	w.put(0, length)
	w.put(v+1, length+1)
}

// ues writes several.
func (w *bits) ues(list ...uint64) {
	for _, v := range list {
		w.ue(v)
	}
}
