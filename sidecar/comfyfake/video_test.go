package comfyfake_test

import (
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

const (
	frames    = `"1":{"class_type":"EmptyImage","inputs":{"width":70,"height":50,"batch_size":8,"color":9}}`
	saveVideo = `{` + frames + `,"2":{"class_type":"CreateVideo","inputs":{"images":["1",0],"fps":8.0}},"3":{"class_type":"SaveVideo","inputs":{"video":["2",0],"filename_prefix":"video/v","format":"auto","codec":"auto"}}}`
	silence   = `"1":{"class_type":"EmptyAudio","inputs":{"duration":1.0,"sample_rate":44100,"channels":2}}`
)

func saveWEBM(codec string) string {
	return `{` + frames + `,"2":{"class_type":"SaveWEBM","inputs":{"images":["1",0],"filename_prefix":"video/v","codec":"` + codec + `","fps":8.0,"crf":32.0}}}`
}

func saveAudio(class string) string {
	return `{` + silence + `,"2":{"class_type":"` + class + `","inputs":{"audio":["1",0],"filename_prefix":"audio/w"}}}`
}

var generations = []comfyfake.Generation{comfyfake.V0_3_64, comfyfake.V0_33_0}

func TestVideo(t *testing.T) {
	for _, gen := range generations {
		t.Run(gen.String()+"/one_counter_for_both_kinds_and_bytes_that_browsers_know", func(t *testing.T) {
			within(t, comfyfake.Options{Generation: gen}, func(g *rig) {
				for _, c := range []struct{ id, graph, node, file, kind string }{
					{idA, saveVideo, "3", "v_00001_.mp4", "video/mp4"},
					{idB, saveWEBM("vp9"), "2", "v_00002_.webm", "video/webm"},
				} {
					g.submit(c.id, "a", c.graph)
					synctest.Wait()
					want := `"outputs": {"` + c.node + `": {"images": [{"filename": "` + c.file + `", "subfolder": "video", "type": "output"}], "animated": [true]}}`
					if h := g.get("/history/" + c.id); !strings.Contains(h.Body, want) {
						g.t.Errorf("%s: history: %s", c.kind, h.Body)
					}
					a := g.get("/view?subfolder=video&filename=" + c.file)
					if got := http.DetectContentType([]byte(a.Body)); got != c.kind || a.Header.Get("Content-Type") != c.kind {
						g.t.Errorf("%s: the bytes look like %s, the answer says %s", c.file, got, a.Header.Get("Content-Type"))
					}
				}
			})
		})
	}
	t.Run("an_equal_frame_of_an_MP4_takes_a_few_bytes", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.submit(idA, "a", saveVideo)
			synctest.Wait()
			file := g.get("/view?subfolder=video&filename=v_00001_.mp4").Body
			sizes := file[strings.Index(file, "stsz"):]
			if n := binary.BigEndian.Uint32([]byte(sizes[12:])); n != 8 {
				g.t.Fatalf("%d frames", n)
			}
			first, second := binary.BigEndian.Uint32([]byte(sizes[16:])), binary.BigEndian.Uint32([]byte(sizes[20:]))
			const raw = 5 * 4 * 384 // macroblocks of 70x50
			if first < raw || second > 20 {
				g.t.Errorf("frames of %d and %d bytes", first, second)
			}
		})
	})
	t.Run("a_codec_that_is_none", func(t *testing.T) {
		within(t, comfyfake.Options{Generation: comfyfake.V0_33_0}, func(g *rig) {
			a := g.post("/prompt", body(idA, "a", saveWEBM("h264")))
			want := `{"type": "value_not_in_list", "message": "Value not in list", "details": "codec: 'h264' not in ['vp9', 'av1']", "extra_info": {"input_name": "codec", "input_config": ["COMBO", {"multiselect": false, "options": ["vp9", "av1"]}], "received_value": "h264"}}`
			if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, want) {
				g.t.Errorf("the newer answers %d %s", a.Status, a.Body)
			}
		})
		within(t, comfyfake.Options{}, func(g *rig) {
			g.submit(idA, "a", saveWEBM("h264"))
			synctest.Wait()
			if h := g.get("/history/" + idA); !strings.Contains(h.Body, `"exception_message": "'h264'\n", "exception_type": "KeyError"`) || !strings.Contains(h.Body, `"codec": ["h264"], "fps": [8.0]`) {
				g.t.Errorf("the older has %s", h.Body)
			}
		})
	})
}

func TestAudio(t *testing.T) {
	for gen, name := range map[comfyfake.Generation]string{comfyfake.V0_3_64: "w_00001_.flac", comfyfake.V0_33_0: "w_00001.flac"} {
		t.Run(gen.String()+"/silence_is_a_short_FLAC", func(t *testing.T) {
			within(t, comfyfake.Options{Generation: gen}, func(g *rig) {
				g.submit(idA, "a", saveAudio("SaveAudio"))
				synctest.Wait()
				if h := g.get("/history/" + idA); !strings.Contains(h.Body, `"outputs": {"2": {"audio": [{"filename": "`+name+`", "subfolder": "audio", "type": "output"}]}}`) {
					g.t.Errorf("history: %s", h.Body)
				}
				a := g.get("/view?subfolder=audio&filename=" + name)
				const frames, head = 11, 42
				if !strings.HasPrefix(a.Body, "fLaC\x80\x00\x00\x22") || len(a.Body) != head+frames*16 || a.Header.Get("Content-Type") != "audio/flac" {
					g.t.Errorf("%d bytes of %s: %.60q", len(a.Body), a.Header.Get("Content-Type"), a.Body)
				}
			})
		})
	}
	t.Run("channels_reach_the_file", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.submit(idA, "a", saveAudio("SaveAudioWAV"))
			synctest.Wait()
			a := g.get("/view?subfolder=audio&filename=w_00001_.wav")
			if len(a.Body) != 44+2*2*44100 || a.Body[22] != 2 {
				g.t.Errorf("%d bytes, %d channels", len(a.Body), a.Body[22])
			}
		})
	})
	t.Run("no_room_for_a_clip_is_an_error_of_the_node", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.submit(idA, "a", strings.Replace(saveAudio("SaveAudio"), "1.0", "1e18", 1))
			synctest.Wait()
			if h := g.get("/history/" + idA); !strings.Contains(h.Body, "can't allocate memory") {
				g.t.Errorf("history: %s", h.Body)
			}
		})
	})
	t.Run("sound_does_not_go_into_a_picture", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			a := g.post("/prompt", body(idA, "a", `{`+silence+`,"2":{"class_type":"SaveImage","inputs":{"images":["1",0],"filename_prefix":"x"}}}`))
			if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "images, received_type(AUDIO) mismatch input_type(IMAGE)") {
				g.t.Errorf("answer: %d %s", a.Status, a.Body)
			}
		})
	})
}

// TestSchemaInfo holds what classes declared by schema tell to recordings, of
// which the tooltips were left out.
func TestSchemaInfo(t *testing.T) {
	for _, c := range []struct {
		gen         comfyfake.Generation
		class, want string
	}{
		{comfyfake.V0_3_64, "SaveVideo", `{"SaveVideo": {"input": {"required": {"video": ["VIDEO", {}], "filename_prefix": ["STRING", {"tooltip": "The prefix for the file to save. This may include formatting information such as %date:yyyy-MM-dd% or %Empty Latent Image.width% to include values from nodes.", "default": "video/ComfyUI", "multiline": false}], "format": ["COMBO", {"default": "auto", "multiselect": false, "options": ["auto", "mp4"]}], "codec": ["COMBO", {"default": "auto", "multiselect": false, "options": ["auto", "h264"]}]}, "hidden": {"prompt": ["PROMPT"], "extra_pnginfo": ["EXTRA_PNGINFO"]}}, "input_order": {"required": ["video", "filename_prefix", "format", "codec"], "hidden": ["prompt", "extra_pnginfo"]}, "output": [], "output_is_list": [], "output_name": [], "output_tooltips": [], "name": "SaveVideo", "display_name": "Save Video", "description": "Saves the input images to your ComfyUI output directory.", "python_module": "comfy_extras.nodes_video", "category": "image/video", "output_node": true, "deprecated": false, "experimental": false, "api_node": false}}`},
		{comfyfake.V0_33_0, "CreateVideo", `{"CreateVideo": {"input": {"required": {"images": ["IMAGE", {}], "fps": ["FLOAT", {"default": 30.0, "min": 1.0, "max": 120.0, "step": 1.0}]}, "optional": {"audio": ["AUDIO", {}], "bit_depth": ["INT", {"default": 8, "min": 8, "max": 10, "step": 2, "display": "number"}]}}, "input_order": {"required": ["images", "fps"], "optional": ["audio", "bit_depth"]}, "is_input_list": false, "output": ["VIDEO"], "output_is_list": [false], "output_name": ["VIDEO"], "output_tooltips": [null], "output_matchtypes": null, "name": "CreateVideo", "display_name": "Create Video", "description": "Create a video from images.", "python_module": "comfy_extras.nodes_video", "category": "video", "output_node": false, "deprecated": false, "experimental": false, "dev_only": false, "api_node": false, "price_badge": null, "search_aliases": ["images to video"], "essentials_category": "Video Tools", "has_intermediate_output": false}}`},
	} {
		t.Run(c.gen.String()+"/"+c.class, func(t *testing.T) {
			within(t, comfyfake.Options{Generation: c.gen}, func(g *rig) {
				var want, got any
				if err := json.Unmarshal([]byte(c.want), &want); err != nil {
					g.t.Fatal(err)
				}
				if err := json.Unmarshal([]byte(g.get("/object_info/"+c.class).Body), &got); err != nil {
					g.t.Fatal(err)
				}
				if d := cmp.Diff(want, got); d != "" {
					g.t.Errorf("-real +fake:\n%s", d)
				}
			})
		})
	}
}
