package comfyfake_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

func loadAs(name string) string {
	return `{"1":{"class_type":"LoadImage","inputs":{"image":"` + name + `"}},"2":{"class_type":"SaveImage","inputs":{"images":["1",0],"filename_prefix":"x"}}}`
}

const invertText = `{"1":{"class_type":"ImageInvert","inputs":{"image":"no link"}},"2":{"class_type":"SaveImage","inputs":{"images":["1",0],"filename_prefix":"x"}}}`

// TestErrors holds what failing nodes say to recordings of both generations.
func TestErrors(t *testing.T) {
	older := []string{"execution.py 496 execute", "execution.py 315 get_output_data", "execution.py 289 _async_map_node_over_list", "execution.py 277 process_inputs"}
	newer := []string{"execution.py 545 execute", "execution.py 344 get_output_data", "execution.py 318 _async_map_node_over_list", "execution.py 306 process_inputs"}
	for name, c := range map[string]struct {
		gen           comfyfake.Generation
		graph         string
		kind, message string
		trace         []string
	}{
		"no_picture_by_a_picture's_name": {comfyfake.V0_33_0, loadAs("broken.png"), "PIL.UnidentifiedImageError", "cannot identify image file '{input}/broken.png'",
			append(newer[:4:4], "nodes.py load_image", "node_helpers.py pillow", "Image.py open")},
		"no_picture_by_another_name": {comfyfake.V0_33_0, loadAs("notes.txt"), "av.error.InvalidDataError", "[Errno 1094995529] Invalid data found when processing input: '{input}/notes.txt'",
			append(newer[:4:4], "nodes.py load_image", "video_types.py get_components", "core.py av.container.core.open", "core.py av.container.core.Container.__cinit__",
				"core.py av.container.core.Container.err_check", "error.py av.error.err_check")},
		"no_picture_in_the_older": {comfyfake.V0_3_64, loadAs("notes.txt"), "PIL.UnidentifiedImageError", "cannot identify image file '{input}/notes.txt'",
			append(older[:4:4], "nodes.py load_image", "node_helpers.py pillow", "Image.py open")},
		"text_for_a_picture": {comfyfake.V0_3_64, invertText, "TypeError", "unsupported operand type(s) for -: 'float' and 'str'",
			append(older[:4:4], "nodes.py invert")},
		"a_class_declared_by_schema": {comfyfake.V0_3_64, saveWEBM("h264"), "KeyError", "'h264'",
			append(older[:4:4], "__init__.py 149 wrapped_func", "_io.py 1270 EXECUTE_NORMALIZED", "nodes_video.py execute")},
	} {
		t.Run(name, func(t *testing.T) {
			within(t, comfyfake.Options{Generation: c.gen}, func(g *rig) {
				for _, file := range []string{"broken.png", "notes.txt"} {
					if err := os.WriteFile(filepath.Join(g.fake.Dir("input"), file), []byte("no picture"), 0o600); err != nil {
						g.t.Fatal(err)
					}
				}
				ws := g.dial("/ws?clientId=a")
				defer ws.CloseNow()
				g.submit(idA, "a", c.graph)
				events := until(g.t, ws, "execution_error")
				e := events[len(events)-1].Data
				want := strings.ReplaceAll(c.message, "{input}", g.fake.Dir("input")) + "\n"
				if e["exception_type"] != c.kind || e["exception_message"] != want {
					g.t.Errorf("%v: %q", e["exception_type"], e["exception_message"])
				}
				if d := cmp.Diff(c.trace, frameNames(e["traceback"])); d != "" {
					g.t.Errorf("traceback (-want +got):\n%s", d)
				}
			})
		})
	}
}

// frameNames shortens a traceback to file, line and function; a line that the
// fake does not know is left out.
func frameNames(traceback any) []string {
	list, _ := traceback.([]any)
	var names []string
	for _, v := range list {
		text, _ := v.(string)
		parts := strings.Split(strings.TrimSpace(text), ", ")
		if len(parts) != 3 || !strings.HasPrefix(text, "  File \"") || !strings.HasSuffix(text, "\n") {
			return append(names, "bad frame "+text)
		}
		name := filepath.Base(strings.Trim(strings.TrimPrefix(parts[0], "File "), `"`))
		if line := strings.TrimPrefix(parts[1], "line "); line != "100" {
			name += " " + line
		}
		names = append(names, name+" "+strings.TrimPrefix(parts[2], "in "))
	}
	return names
}
