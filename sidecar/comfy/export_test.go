package comfy

import (
	"encoding/json"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// Decode gives messages to a decoder that knows one job: texts first, then
// binary ones.
func Decode(job sidecar.Job, texts, frames [][]byte, report func(sidecar.News)) {
	e := New(Options{URL: "http://127.0.0.1:9"})
	defer e.Close()
	e.jobs.remember(job)
	d := newDecoder(e, 1, report)
	for _, data := range texts {
		d.text(data)
	}
	for _, data := range frames {
		d.binary(data)
	}
}

// SightingOf reads a record of history.
func SightingOf(id sidecar.PromptID, raw json.RawMessage) (sidecar.Sighting, error) {
	return sightingOf(id, raw)
}

// RegistryLimit is how many prompts an executor remembers.
const RegistryLimit = registryLimit

// LimitRecords lets tests of too large answers be small.
func (e *Executor) LimitRecords(n int64) { e.http.records = n }

// Remembered counts the ids that an executor knows prompts by.
func (e *Executor) Remembered() int {
	e.jobs.mu.Lock()
	defer e.jobs.mu.Unlock()
	return len(e.jobs.entries)
}

// URL is where ComfyUI answers.
func (e *Executor) URL() string { return e.opts.URL }
