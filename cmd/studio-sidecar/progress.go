package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// progressEvent is what the event stream tells between events.
type progressEvent struct {
	Node struct {
		Class string `json:"class_type"`
		Title string `json:"title"`
	} `json:"node"`
	Value float64 `json:"value"`
	Max   float64 `json:"max"`
}

// progressBar draws one line on a terminal, and nothing elsewhere: scripts want
// quiet.
type progressBar struct {
	w io.Writer // nil: nobody looks
}

func newProgressBar(w io.Writer, quiet bool) *progressBar {
	f, ok := w.(*os.File)
	if quiet || !ok {
		return &progressBar{}
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return &progressBar{}
	}
	return &progressBar{w: w}
}

const barWidth = 30

func (b *progressBar) show(p progressEvent) {
	if b.w == nil || p.Max <= 0 {
		return
	}
	name := p.Node.Title
	if name == "" {
		name = p.Node.Class
	}
	done := min(max(p.Value/p.Max, 0), 1)
	filled := int(done * barWidth)
	fmt.Fprintf(b.w, "\r\x1b[K%s%s %3.0f %% %s", strings.Repeat("━", filled), strings.Repeat("─", barWidth-filled), 100*done, name)
}

func (b *progressBar) clear() {
	if b.w != nil {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}
