package comfy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/internal/bounded"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
)

// kinds are all that a message may become.
var kinds = map[sidecar.NewsKind]bool{
	sidecar.NewsQueue: true, sidecar.NewsStarted: true, sidecar.NewsCached: true, sidecar.NewsNode: true,
	sidecar.NewsNodeDone: true, sidecar.NewsProgress: true, sidecar.NewsPreview: true, sidecar.NewsEnding: true,
}

func FuzzMessage(f *testing.F) {
	const a = `"prompt_id":"` + string(promptA) + `"`
	for _, text := range []string{
		`{"type":"status","data":{"status":{"exec_info":{"queue_remaining":1}}}}`,
		`{"type":"execution_cached","data":{"nodes":["1"],` + a + `}}`,
		`{"type":"executing","data":{"node":"1","display_node":"1",` + a + `}}`,
		`{"type":"executing","data":{"node":null,` + a + `}}`,
		`{"type":"progress","data":{"value":1,"max":2,"node":"1",` + a + `}}`,
		`{"type":"progress_state","data":{` + a + `,"nodes":{"1":{"value":1,"max":1,"state":"finished"},"2":{"state":"running"}}}}`,
		`{"type":"executed","data":{"node":"1","output":null,` + a + `}}`,
		`{"type":"execution_error","data":{"node_id":"1","exception_type":"E",` + a + `}}`,
	} {
		f.Add([]byte(text), []byte("\x00\x00\x00\x01\x00\x00\x00\x01jpeg"))
	}
	meta := `{"image_type":"image/png",` + a + `}`
	f.Add([]byte(`{}`), fmt.Appendf(nil, "\x00\x00\x00\x04\x00\x00\x00%c%spng", len(meta), meta))
	f.Fuzz(func(t *testing.T, text, frame []byte) {
		bounded.Input(t, func() {
			opening := []byte(`{"type":"executing","data":{"node":"1",` + a + `}}`)
			comfy.Decode(job(promptA, picture(1)), [][]byte{opening, text, text}, [][]byte{frame}, func(n sidecar.News) {
				if !kinds[n.Kind] || n.Kind != sidecar.NewsQueue && n.Prompt != promptA || n.Epoch != 1 {
					t.Errorf("news: %+v", n)
				}
				if n.Kind == sidecar.NewsPreview && (n.Preview.Type == "" || len(n.Preview.Data) == 0) {
					t.Errorf("preview: %+v", n)
				}
			})
		})
	})
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"prompt":[1,"x",{},{},["2"]],"outputs":{"2":{}},"status":{"status_str":"success","completed":true,"messages":[["execution_cached",{"nodes":["2"]}]]}}`))
	f.Add([]byte(`{"outputs":{},"status":{"status_str":"error","messages":[["execution_error",{"node_id":"2","node_type":"T","exception_message":"m"}]]}}`))
	f.Add([]byte(`{"status":{"status_str":"error","messages":[["execution_interrupted",{}]]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounded.Input(t, func() {
			seen, err := comfy.SightingOf(promptA, raw)
			if err != nil {
				return
			}
			switch seen.Place {
			case sidecar.PlaceDone:
				if seen.Outputs == nil || seen.Failure != nil {
					t.Errorf("%+v", seen)
				}
			case sidecar.PlaceFailed:
				if seen.Failure == nil || seen.Failure.Message == "" || !json.Valid(seen.Failure.Detail) {
					t.Errorf("%+v", seen.Failure)
				}
			case sidecar.PlaceStopped:
			default:
				t.Errorf("place %q", seen.Place)
			}
		})
	})
}

// TestRecorded gives the decoder what a real ComfyUI said, as far as the
// recordings lie in testdata.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no recordings", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var rec struct {
				Prompt   sidecar.PromptID
				Graph    json.RawMessage
				Messages []json.RawMessage
				News     string
			}
			if err := json.Unmarshal(raw, &rec); err != nil {
				t.Fatal(err)
			}
			texts := make([][]byte, len(rec.Messages))
			for i, m := range rec.Messages {
				texts[i] = m
			}
			heard := &news{}
			comfy.Decode(sidecar.Job{Prompt: rec.Prompt, Graph: rec.Graph}, texts, nil, heard.report)
			if got := heard.line(rec.Prompt); got != rec.News {
				t.Errorf("news:\n got %s\nwant %s", got, rec.News)
			}
		})
	}
}

func TestMemoryOfPromptsIsBounded(t *testing.T) {
	exec := comfy.New(comfy.Options{URL: "http://127.0.0.1:9"})
	defer exec.Close()
	for i := range 3 * comfy.RegistryLimit {
		j := job(sidecar.PromptID(fmt.Sprint("p", i)), "{}")
		if _, err := exec.Look(t.Context(), j); err == nil {
			t.Fatal("nobody listens")
		}
	}
	if n := exec.Remembered(); n != comfy.RegistryLimit {
		t.Errorf("%d prompts remembered, want %d", n, comfy.RegistryLimit)
	}
}
