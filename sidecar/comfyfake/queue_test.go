package comfyfake_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// pending lists the ids in line as /queue gives them.
func (g *rig) pending() []string {
	g.t.Helper()
	var q struct {
		Pending [][]any `json:"queue_pending"`
	}
	if err := json.Unmarshal([]byte(g.get("/queue").Body), &q); err != nil {
		g.t.Fatal(err)
	}
	ids := []string{}
	for _, item := range q.Pending {
		ids = append(ids, fmt.Sprint(item[1]))
	}
	return ids
}

func (g *rig) postJSON(fields string) answer {
	g.t.Helper()
	return g.post("/prompt", `{"prompt":`+saveGraph("x")+fields+`}`)
}

func TestQueue(t *testing.T) {
	t.Run("front_goes_first_and_pending_is_a_heap", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.fake.Hold()
			for _, f := range []string{`"r"`, `"b"`, `"c"`, `"d","front":true`, `"e","front":"false"`, `"f","number":-100`} {
				g.postJSON(`,"prompt_id":` + f)
				synctest.Wait()
			}
			if d := cmp.Diff([]string{"f", "e", "b", "c", "d"}, g.pending()); d != "" {
				g.t.Errorf("pending (-want +got):\n%s", d)
			}
			g.fake.Release()
		})
	})
	t.Run("same_id_and_number_is_500_and_runs", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.fake.Hold()
			g.postJSON(`,"prompt_id":"r"`)
			synctest.Wait()
			first := g.postJSON(`,"prompt_id":"x","number":5`)
			second := g.postJSON(`,"prompt_id":"x","number":5`)
			if first.Status != http.StatusOK || second.Status != http.StatusInternalServerError {
				g.t.Errorf("%d %d", first.Status, second.Status)
			}
			g.fake.Release()
			synctest.Wait()
			if n := g.fake.Submissions().ByPrompt["x"]; n != (comfyfake.Count{Queued: 2, Executed: 2}) {
				g.t.Errorf("counts: %+v", n)
			}
		})
	})
	t.Run("delete_takes_the_first_of_an_id_and_leaves_no_trace", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.fake.Hold()
			for _, id := range []string{"r", "x", "x", "y"} {
				g.postJSON(`,"prompt_id":"` + id + `"`)
				synctest.Wait()
			}
			g.post("/queue", `{"delete":["x","nobody"]}`)
			if d := cmp.Diff([]string{"x", "y"}, g.pending()); d != "" {
				g.t.Errorf("pending (-want +got):\n%s", d)
			}
			g.post("/queue", `{"clear":true}`)
			g.fake.Release()
			synctest.Wait()
			if h := g.get("/history"); strings.Contains(h.Body, `"x": {`) || !strings.Contains(h.Body, `"r"`) {
				g.t.Errorf("history: %s", h.Body)
			}
		})
	})
	t.Run("deleting_the_only_one_in_line_is_told_twice", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.fake.Hold()
			for _, id := range []string{"r", "x", "y"} {
				g.postJSON(`,"prompt_id":"` + id + `"`)
				synctest.Wait()
			}
			c := g.dial("/ws?clientId=a")
			defer c.CloseNow()
			read(g.t, c)
			g.post("/queue", `{"delete":["x"]}`)
			g.post("/queue", `{"delete":["nobody"]}`)
			g.post("/queue", `{"delete":["y"]}`)
			var left []any
			for range 3 {
				status, _ := read(g.t, c).Data["status"].(map[string]any)
				info, _ := status["exec_info"].(map[string]any)
				left = append(left, info["queue_remaining"])
			}
			if d := cmp.Diff([]any{2.0, 1.0, 1.0}, left); d != "" {
				g.t.Errorf("queue_remaining (-want +got):\n%s", d)
			}
			g.fake.Release()
		})
	})
	t.Run("ids_are_text_in_the_older_and_UUIDs_in_the_newer", func(t *testing.T) {
		for gen, want := range map[comfyfake.Generation][]int{comfyfake.V0_3_64: {200, 200, 200}, comfyfake.V0_33_0: {400, 400, 200}} {
			within(t, comfyfake.Options{Generation: gen}, func(g *rig) {
				var got []int
				for _, id := range []string{`42`, `"RUN"`, `"` + idA + `"`} {
					got = append(got, g.postJSON(`,"prompt_id":`+id).Status)
				}
				if d := cmp.Diff(want, got); d != "" {
					g.t.Errorf("%s (-want +got):\n%s", gen, d)
				}
			})
		}
	})
	t.Run("refused_prompts_use_up_numbers", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.post("/prompt", `{}`)
			if a := g.postJSON(""); !strings.Contains(a.Body, `"number": 1`) {
				g.t.Errorf("answer: %s", a.Body)
			}
		})
	})
	t.Run("a_bad_output_beside_a_good_one_is_dropped_with_a_word", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			a := g.post("/prompt", `{"prompt_id":"p","prompt":{"1":{"class_type":"EmptyImage","inputs":{"width":8,"height":8,"batch_size":1,"color":1}},"2":{"class_type":"EmptyImage","inputs":{"width":0,"height":8,"batch_size":1,"color":1}},"3":{"class_type":"SaveImage","inputs":{"images":["1",0],"filename_prefix":"a"}},"4":{"class_type":"SaveImage","inputs":{"images":["2",0],"filename_prefix":"b"}}}}`)
			if a.Status != http.StatusOK || !strings.Contains(a.Body, `"value_smaller_than_min"`) || !strings.Contains(a.Body, `"dependent_outputs": ["4"]`) {
				g.t.Errorf("answer: %d %s", a.Status, a.Body)
			}
			synctest.Wait()
			if h := g.get("/history/p"); !strings.Contains(h.Body, `["3"]], "outputs": {"3":`) {
				g.t.Errorf("history: %s", h.Body)
			}
		})
	})
	t.Run("history_evicts_the_oldest_on_insert", func(t *testing.T) {
		within(t, comfyfake.Options{HistoryLimit: 2}, func(g *rig) {
			for _, id := range []string{"a", "b", "c", "d"} {
				g.postJSON(`,"prompt_id":"` + id + `"`)
				synctest.Wait()
			}
			var h map[string]any
			if err := json.Unmarshal([]byte(g.get("/history").Body), &h); err != nil {
				g.t.Fatal(err)
			}
			if len(h) != 3 || h["a"] != nil {
				g.t.Errorf("%d entries", len(h))
			}
		})
	})
}

// multipartOf is an upload body and its content type.
func multipartOf(t *testing.T, name string, data []byte) (string, string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("image", name)
	if err != nil {
		t.Fatal(err)
	}
	part.Write(data) // a buffer
	w.Close()        // a buffer
	return b.String(), w.FormDataContentType()
}

func TestUpload(t *testing.T) {
	t.Run("over_the_limit_is_413", func(t *testing.T) {
		within(t, comfyfake.Options{MaxUpload: 1 << 16}, func(g *rig) {
			form, kind := multipartOf(g.t, "big.png", make([]byte, 1<<17))
			a := g.do(http.MethodPost, "/upload/image", form, "Content-Type", kind)
			if a.Status != http.StatusRequestEntityTooLarge || a.Body != "Maximum request body size 65536 exceeded." {
				g.t.Errorf("answer: %d %s", a.Status, a.Body)
			}
			if names, err := os.ReadDir(g.fake.Dir("input")); err != nil || len(names) != 0 {
				g.t.Errorf("input folder: %v %v", names, err)
			}
		})
	})
	t.Run("a_loaded_file_that_changes_is_not_cached", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			graph := `{"1":{"class_type":"LoadImage","inputs":{"image":"in.png"}},"2":{"class_type":"SaveImage","inputs":{"images":["1",0],"filename_prefix":"x"}}}`
			for i, id := range []string{idA, idB} {
				if err := os.WriteFile(filepath.Join(g.fake.Dir("input"), "in.png"), fileOf("in.png", 100+i), 0o600); err != nil {
					g.t.Fatal(err)
				}
				g.submit(id, "a", graph)
				synctest.Wait()
			}
			if h := g.get("/history/" + idB); !strings.Contains(h.Body, "x_00002_.png") {
				g.t.Errorf("history: %s", h.Body)
			}
		})
	})
}

func TestFolders(t *testing.T) {
	t.Run("private_ones_go_with_close", func(t *testing.T) {
		fake := comfyfake.New(comfyfake.Options{})
		dir := fake.Dir("output")
		if err := fake.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("still there: %v", err)
		}
	})
	t.Run("given_ones_stay", func(t *testing.T) {
		dir := t.TempDir()
		if err := comfyfake.New(comfyfake.Options{Dir: dir}).Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "output")); err != nil {
			t.Error(err)
		}
	})
	t.Run("that_cannot_be_made_are_told_by_serve", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		l, _ := comfyfake.Pipe()
		fake := comfyfake.New(comfyfake.Options{Dir: file})
		defer fake.Close()
		if err := fake.Serve(l); err == nil {
			t.Error("Serve said nothing")
		}
	})
}
