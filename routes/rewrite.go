package routes

import "bytes"

// rewriter makes a stored JSON document fit for one class of callers: its
// addresses become public ones, and what only a direct caller on this machine
// may see is left out.
type rewriter struct {
	addresses
	direct bool
}

// rewrite returns doc itself where nothing is to be changed. doc has to be
// valid JSON.
func (w rewriter) rewrite(doc []byte) []byte {
	if !w.touches(doc) {
		return doc
	}
	walk := walker{rewriter: w, in: doc, out: make([]byte, 0, len(doc)+8*len(w.prefix)+64)}
	walk.value()
	return walk.out
}

func (w rewriter) touches(doc []byte) bool {
	switch {
	case !w.direct && (bytes.Contains(doc, []byte(`"comfy_url"`)) || bytes.Contains(doc, []byte(`"proxy_url"`))):
		return true
	case w.prefix != "":
		return bytes.Contains(doc, []byte(`/outputs/view`)) || bytes.Contains(doc, []byte(`/uploads/`))
	}
	return bytes.Contains(doc, []byte("type=temp")) || bytes.Contains(doc, []byte("type=input"))
}

// walker copies one JSON text, changing members on its way.
type walker struct {
	rewriter
	in  []byte
	pos int
	out []byte
}

func (w *walker) value() {
	w.space()
	if w.pos >= len(w.in) {
		return
	}
	switch w.in[w.pos] {
	case '{':
		w.object()
	case '[':
		w.array()
	default:
		w.out = append(w.out, w.scalar()...)
	}
}

func (w *walker) space() {
	for w.pos < len(w.in) && (w.in[w.pos] == ' ' || w.in[w.pos] == '\n' || w.in[w.pos] == '\t' || w.in[w.pos] == '\r') {
		w.pos++
	}
}

func (w *walker) peek() byte {
	w.space()
	if w.pos < len(w.in) {
		return w.in[w.pos]
	}
	return 0
}

// scalar moves over a string, number or word.
func (w *walker) scalar() []byte {
	start := w.pos
	if w.in[w.pos] == '"' {
		for w.pos++; w.pos < len(w.in) && w.in[w.pos] != '"'; w.pos++ {
			if w.in[w.pos] == '\\' {
				w.pos++
			}
		}
		w.pos = min(w.pos+1, len(w.in))
		return w.in[start:w.pos]
	}
	for w.pos < len(w.in) && !bytes.ContainsRune([]byte(",]} \n\t\r"), rune(w.in[w.pos])) {
		w.pos++
	}
	return w.in[start:w.pos]
}

func (w *walker) array() {
	w.out = append(w.out, '[')
	w.pos++
	for first := true; w.peek() != ']' && w.peek() != 0; first = false {
		if !first {
			w.out = append(w.out, ',')
		}
		w.value()
		w.comma()
	}
	w.pos++
	w.out = append(w.out, ']')
}

func (w *walker) comma() {
	if w.peek() == ',' {
		w.pos++
	}
}

func (w *walker) object() {
	w.out = append(w.out, '{')
	w.pos++
	for w.peek() == '"' {
		w.member()
		w.comma()
	}
	w.pos++
	w.out = append(w.out, '}')
}

func (w *walker) member() {
	key := w.scalar()
	w.peek() // the colon
	w.pos++
	kept := len(w.out)
	if kept > 0 && w.out[kept-1] != '{' {
		w.out = append(w.out, ',')
	}
	w.out = append(append(w.out, key...), ':')
	isText := w.peek() == '"'
	switch string(key) {
	case `"url"`, `"upload_url"`:
		if isText {
			w.out = appendString(w.out, w.public(unquote(w.scalar())))
			return
		}
	case `"comfy_url"`, `"proxy_url"`:
		if !w.direct {
			w.value()
			w.out = w.out[:kept]
			return
		}
	case `"inputs"`:
		start := w.pos
		out := len(w.out)
		w.value()
		w.out = append(w.out[:out], w.in[start:w.pos]...)
		return
	}
	w.value()
}
