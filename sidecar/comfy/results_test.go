package comfy_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/image/bmp"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// shelf is a ComfyUI that holds files and counts the bytes it sends of each.
type shelf struct {
	files    map[string][]byte
	unranged bool // Range is not understood

	mu    sync.Mutex
	sent  map[string]int
	open  int
	peak  int
	query []string
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("filename")
	s.mu.Lock()
	s.open++
	s.peak = max(s.peak, s.open)
	s.query = append(s.query, r.URL.RawQuery)
	s.mu.Unlock()
	pause(r.Context(), 50*time.Millisecond)
	s.mu.Lock()
	s.open--
	s.mu.Unlock()
	data, ok := s.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if s.unranged {
		r.Header.Del("Range")
	}
	http.ServeContent(&counting{ResponseWriter: w, shelf: s, name: name}, r, name, time.Time{}, bytes.NewReader(data))
}

type counting struct {
	http.ResponseWriter
	shelf *shelf
	name  string
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.shelf.mu.Lock()
	defer c.shelf.mu.Unlock()
	if c.shelf.sent == nil {
		c.shelf.sent = map[string]int{}
	}
	c.shelf.sent[c.name] += n
	return n, err
}

// seen is a sighting whose node 2 shows these items under a key.
func seen(key string, items ...string) sidecar.Sighting {
	return sidecar.Sighting{Place: sidecar.PlaceDone, Outputs: map[string]json.RawMessage{
		"2": json.RawMessage(fmt.Sprintf(`{%q:[%s]}`, key, strings.Join(items, ","))),
	}}
}

func item(name, kind string) string {
	return fmt.Sprintf(`{"filename":%q,"subfolder":"","type":%q}`, name, kind)
}

func encoded(t *testing.T, encode func(io.Writer, image.Image) error, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := encode(&b, image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.Black, color.White})); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func toJPEG(w io.Writer, m image.Image) error { return jpeg.Encode(w, m, nil) }

func toGIF(w io.Writer, m image.Image) error { return gif.Encode(w, m, nil) }

func webp(kind string, body ...byte) []byte {
	chunk := append([]byte(kind), binary.LittleEndian.AppendUint32(nil, uint32(len(body)))...)
	chunk = append(chunk, body...)
	riff := append([]byte("RIFF"), binary.LittleEndian.AppendUint32(nil, uint32(len(chunk)+4))...)
	return append(append(riff, "WEBP"...), chunk...)
}

// fat puts segments of 64 KiB in front of a JPEG's size.
func fat(plain []byte, segments int) []byte {
	out := append([]byte{}, plain[:2]...)
	for range segments {
		out = append(append(out, 0xff, 0xe2, 0xff, 0xff), make([]byte, 0xffff-2)...)
	}
	return append(out, plain[2:]...)
}

func TestResultsMeasuresPictures(t *testing.T) {
	big := append(encoded(t, png.Encode, 30, 20), make([]byte, 8<<20)...)
	photo := encoded(t, toJPEG, 33, 21)
	files := map[string][]byte{
		"a.png": big, "b.jpg": photo, "c.gif": encoded(t, toGIF, 7, 5), "d.bmp": encoded(t, bmp.Encode, 6, 4),
		"vp8x.webp":   webp("VP8X", 0, 0, 0, 0, 39, 0, 0, 29, 0, 0),
		"vp8l.webp":   webp("VP8L", 0x2f, 39, 0x40, 7, 0, 0, 0, 0, 0, 0),
		"vp8.webp":    webp("VP8 ", 0, 0, 0, 0x9d, 1, 0x2a, 40, 0, 30, 0),
		"profile.jpg": fat(photo, 3), "endless.jpg": fat(photo, 40), "text.png": []byte("no picture"), "empty.png": {},
		"cut.jpg": fat(photo, 3)[:100_000],
	}
	want := map[string][2]int{
		"a.png": {30, 20}, "b.jpg": {33, 21}, "c.gif": {7, 5}, "d.bmp": {6, 4}, "vp8x.webp": {40, 30}, "vp8l.webp": {40, 30},
		"vp8.webp": {40, 30}, "profile.jpg": {33, 21}, "endless.jpg": {}, "text.png": {}, "empty.png": {}, "cut.jpg": {}, "gone.png": {},
	}
	for _, unranged := range []bool{false, true} {
		t.Run(fmt.Sprint("without_ranges_", unranged), func(t *testing.T) {
			s := &shelf{files: files, unranged: unranged}
			var names, items []string
			for name := range want {
				names, items = append(names, name), append(items, item(name, "output"))
			}
			scripted(t, s, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
				results, err := exec.Results(t.Context(), job(promptA, "{}"), seen("images", items...))
				if err != nil {
					t.Fatal(err)
				}
				got := map[string][2]int{}
				for i, f := range results[0].Files {
					got[names[i]] = [2]int{f.Width, f.Height}
					if f.Ref != "" {
						t.Errorf("%s was copied", names[i])
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
			for name, n := range s.sent {
				// What net/http and the pipe hold back beyond what was read.
				if limit := 1<<20 + 1<<19; n > limit || name == "a.png" && !unranged && n > 64<<10 {
					t.Errorf("%s: %d bytes were sent", name, n)
				}
			}
			if s.peak != 4 {
				t.Errorf("%d at once", s.peak)
			}
		})
	}
}

func TestResults(t *testing.T) {
	t.Run("of_a_run", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			j := job(promptA, picture(1), manifest.Output{Name: "image", Type: "image", NodeID: "2"}, manifest.Output{Name: "none", Type: "image", NodeID: "9"})
			r.submit(j)
			results, err := r.exec.Results(r.Context(), j, r.await(j, sidecar.PlaceDone))
			if err != nil || len(results) != 2 {
				r.Fatal(results, err)
			}
			if diff := cmp.Diff([]sidecar.File{{Width: 64, Height: 48, Bytes: results[0].Files[0].Bytes}}, results[0].Files); diff != "" || results[0].Files[0].Bytes == 0 {
				r.Error(diff)
			}
			if len(results[1].Files) != 0 || results[1].Name != "none" {
				r.Errorf("none: %+v", results[1])
			}
		})
	})
	t.Run("reported_sizes_are_kept_and_not_asked_for", func(t *testing.T) {
		s := &shelf{files: map[string][]byte{}}
		scripted(t, s, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
			results, err := exec.Results(t.Context(), job(promptA, "{}"), seen("images",
				`{"filename":"a.png","width":5,"height":6.0}`, `{"filename":"b.mp4","width":7,"height":8}`, `{"filename":"c.wav","width":7,"height":8}`,
				`{"filename":"d.png","width":0,"height":6}`, `{"subfolder":"x"}`, `"text"`, `5`))
			if err != nil {
				t.Fatal(err)
			}
			want := []sidecar.File{{Width: 5, Height: 6}, {Width: 7, Height: 8}, {}, {}, {}, {}, {}}
			if diff := cmp.Diff(want, results[0].Files); diff != "" {
				t.Error(diff)
			}
		})
		if diff := cmp.Diff([]string{"filename=d.png&subfolder=&type=output"}, s.query); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a_file_named_twice_is_looked_at_once", func(t *testing.T) {
		s := &shelf{files: map[string][]byte{"a.png": encoded(t, png.Encode, 3, 2)}}
		j := job(promptA, "{}", manifest.Output{Name: "x", Type: "image", NodeID: "2"}, manifest.Output{Name: "y", Type: "image", NodeID: "2"})
		scripted(t, s, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
			results, err := exec.Results(t.Context(), j, seen("images", item("a.png", "output")))
			if err != nil || results[0].Files[0].Width != 3 || results[1].Files[0].Width != 3 || len(s.query) != 1 {
				t.Errorf("%+v, %v, %d questions", results, err, len(s.query))
			}
		})
	})
	t.Run("a_comfyui_that_went_away_costs_sizes_only", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			defer r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Hang, Route: "/view"})()
			items := make([]string, 100)
			for i := range items {
				items[i] = item(fmt.Sprint(i, ".png"), "output")
			}
			began := time.Now()
			results, err := r.exec.Results(r.Context(), job(promptA, "{}"), seen("images", items...))
			if err != nil || len(results[0].Files) != 100 || time.Since(began) > 30*time.Second {
				r.Errorf("%v after %v", err, time.Since(began))
			}
		})
	})
	t.Run("an_ended_context_is_an_error", func(t *testing.T) {
		scripted(t, &shelf{}, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			_, err := exec.Results(ctx, job(promptA, "{}"), seen("images", item("a.png", "output")))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("err = %v", err)
			}
		})
	})
}

// TestResultsMeasuresForEach: what two outputs name is measured for each.
func TestResultsMeasuresForEach(t *testing.T) {
	t.Setenv("PATH", "") // no ffprobe
	bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
		j := job(promptA, picture(1))
		node := j.Outputs[0].NodeID
		j.Outputs = []manifest.Output{{Name: "a", Type: "image", NodeID: node}, {Name: "b", Type: "video", NodeID: node}, {Name: "c", Type: "file", NodeID: node}}
		r.submit(j)
		results, err := r.exec.Results(r.Context(), j, r.await(j, sidecar.PlaceDone))
		if err != nil || len(results[0].Files) != 1 || len(results[1].Files) != 1 {
			r.Fatal(results, err)
		}
		if still, clip := results[0].Files[0], results[1].Files[0]; still.Width != 64 || clip.Width != 0 {
			r.Errorf("as a picture %+v, as a video %+v", still, clip)
		}
	})
}

func TestResultsMeasuresVideos(t *testing.T) {
	for name, c := range map[string]struct {
		script string // of ffprobe; none: it is not installed
		want   sidecar.File
	}{
		"by_ffprobe":      {`echo "$@" > "$0.args"; echo '{"streams":[{"width":640,"height":360}]}'`, sidecar.File{Width: 640, Height: 360}},
		"no_video_stream": {`echo '{"streams":[]}'`, sidecar.File{}},
		"a_failure":       {`exit 1`, sidecar.File{}},
		"no_json":         {`echo oops`, sidecar.File{}},
		"not_installed":   {"", sidecar.File{}},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			tool := filepath.Join(path, "ffprobe")
			if c.script != "" {
				if err := os.WriteFile(tool, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", path)
			exec := comfy.New(comfy.Options{URL: "http://127.0.0.1:9"})
			defer exec.Close()
			j := job(promptA, "{}", manifest.Output{Name: "v", Type: "video", NodeID: "2"})
			results, err := exec.Results(t.Context(), j, seen("gifs", item("a b.mp4", "output")))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]sidecar.File{c.want}, results[0].Files); diff != "" {
				t.Error(diff)
			}
			if c.want.Width == 0 {
				return
			}
			args, err := os.ReadFile(tool + ".args")
			if err != nil || !strings.Contains(string(args), "http://127.0.0.1:9/view?filename=a+b.mp4&subfolder=&type=output") {
				t.Errorf("%s, %v", args, err)
			}
		})
	}
}
