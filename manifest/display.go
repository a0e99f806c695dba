package manifest

import (
	"bytes"
	"encoding/json"
	"strings"
)

// DisplayInputs is what a run stores and shows of its inputs: inline data is
// cut after 48 characters, references to uploads keep their known members, and
// everything else stays as it was written. Nil values give {}.
func DisplayInputs(values Values) json.RawMessage {
	shown := Values{}
	for _, f := range values {
		shown = append(shown, Field{f.Name, display(f.Value)})
	}
	return marshalled(shown)
}

func display(value json.RawMessage) json.RawMessage {
	if len(value) == 0 {
		return json.RawMessage("null")
	}
	if !bytes.Contains(value, []byte("data:")) && !bytes.Contains(value, []byte("file_ref")) && !bytes.Contains(value, []byte(`\u`)) {
		return value // large plain values are not taken apart
	}
	switch value[0] {
	case '{':
		if isFileRef(value) {
			return displayRef(value)
		}
		shown := Values{}
		for _, m := range members(value) {
			shown = append(shown, Field{m.name, display(value[m.start:m.end])})
		}
		return marshalled(shown)
	case '[':
		items, _ := elements(value)
		return jsonList(len(items), func(i int) json.RawMessage { return display(items[i]) })
	case '"':
		return displayText(value)
	}
	return value
}

func displayRef(ref json.RawMessage) json.RawMessage {
	shown := Values{}
	for _, key := range []string{"kind", "ref", "filename", "mime_type", "size"} {
		if _, v, ok := find(ref, key); ok {
			shown = append(shown, Field{key, v})
		}
	}
	return marshalled(shown)
}

func displayText(quoted json.RawMessage) json.RawMessage {
	text := unquote(quoted)
	if !strings.HasPrefix(text, "data:") {
		return quoted
	}
	end := 0
	for n := 0; n < 48 && end < len(text); n++ {
		_, size := nextRune(text[end:])
		end += size
	}
	return appendQuoted(nil, text[:end]+"... [inline data omitted]")
}
