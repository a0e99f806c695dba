package sqlite

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// Cells are written as nil, string, prose, int64 or []byte, so that two rows can
// be compared by what would be stored.

// prose is a text that may be large: it is copied when it is written, not to be
// compared.
type prose []byte

// nullable writes an empty text as NULL, as the reference keeps what is not
// known.
func nullable[T ~string](s T) any {
	if s == "" {
		return nil
	}
	return string(s)
}

// dimension writes an unknown width or height as NULL.
func dimension(n int) any {
	if n == 0 {
		return nil
	}
	return int64(n)
}

func document(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	return prose(raw)
}

func object(raw json.RawMessage) any {
	if len(raw) == 0 {
		return prose("{}")
	}
	return prose(raw)
}

func flag(b bool) any {
	if b {
		return int64(1)
	}
	return int64(0)
}

func blob(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

func sameCell(a, b any) bool {
	p, pIsProse := a.(prose)
	q, qIsProse := b.(prose)
	if pIsProse || qIsProse {
		return pIsProse && qIsProse && bytes.Equal(p, q)
	}
	x, xIsBlob := a.([]byte)
	y, yIsBlob := b.([]byte)
	if xIsBlob || yIsBlob {
		return xIsBlob && yIsBlob && bytes.Equal(x, y)
	}
	return a == b
}

// textCell reads any cell as text. SQLite puts no type on a cell, and files
// that others wrote are read for what they are worth.
type textCell string

// Scan implements [sql.Scanner].
func (c *textCell) Scan(value any) error {
	switch v := value.(type) {
	case string:
		*c = textCell(v)
		return nil
	case nil:
		*c = ""
		return nil
	}
	var text sql.NullString
	err := text.Scan(value)
	*c = textCell(text.String)
	return err
}

// numberCell reads a number, and anything else as 0.
type numberCell int64

// Scan implements [sql.Scanner].
func (c *numberCell) Scan(value any) error {
	switch v := value.(type) {
	case int64:
		*c = numberCell(v)
	case float64:
		*c = numberCell(v)
	default:
		*c = 0
	}
	return nil
}

// objectOf reads a document that is always there: {} where the text is none.
func objectOf(cell textCell) json.RawMessage {
	if raw := jsonOf(string(cell)); raw != nil {
		return raw
	}
	return json.RawMessage("{}")
}

// documentOf reads a document that may be absent: nil for null and for what is
// no JSON.
func documentOf(cell textCell) json.RawMessage { return documentIn([]byte(cell)) }

// documentIn does not write into raw, of which what it returns may be.
func documentIn(raw []byte) json.RawMessage {
	raw = jsonIn(raw)
	if string(bytes.TrimSpace(raw)) == "null" {
		return nil
	}
	return raw
}

func jsonOf(text string) json.RawMessage { return jsonIn([]byte(text)) }

// jsonIn is a text as JSON, or nil. The reference writes NaN and infinities as
// Python does; they become null.
func jsonIn(raw []byte) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if json.Valid(raw) {
		return raw
	}
	if raw = manifest.WithoutOddNumbers(raw); json.Valid(raw) {
		return raw
	}
	return nil
}

// timeOf reads a time as we and the reference write it, and as near as can be
// what others wrote. The zero time stands for a text that is none; it is not
// written back, since only cells that changed are.
func timeOf[T ~string](cell T) time.Time {
	text := string(cell)
	if text == "" {
		return time.Time{}
	}
	for _, layout := range []string{sidecar.TimeFormat, time.RFC3339Nano, time.DateTime, "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}
