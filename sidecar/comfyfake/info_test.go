package comfyfake_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

func TestObjectInfo(t *testing.T) {
	for gen, want := range map[comfyfake.Generation]string{
		comfyfake.V0_3_64: `{"EmptyImage": {"input": {"required": {"width": ["INT", {"default": 512, "min": 1, "max": 16384, "step": 1}], "height": ["INT", {"default": 512, "min": 1, "max": 16384, "step": 1}], "batch_size": ["INT", {"default": 1, "min": 1, "max": 4096}], "color": ["INT", {"default": 0, "min": 0, "max": 16777215, "step": 1, "display": "color"}]}}, "input_order": {"required": ["width", "height", "batch_size", "color"]}, "output": ["IMAGE"], "output_is_list": [false], "output_name": ["IMAGE"], "name": "EmptyImage", "display_name": "EmptyImage", "description": "", "python_module": "nodes", "category": "image", "output_node": false}}`,
		comfyfake.V0_33_0: `{"EmptyImage": {"input": {"required": {"width": ["INT", {"default": 512, "min": 1, "max": 16384, "step": 1}], "height": ["INT", {"default": 512, "min": 1, "max": 16384, "step": 1}], "batch_size": ["INT", {"default": 1, "min": 1, "max": 4096}], "color": ["INT", {"default": 0, "min": 0, "max": 16777215, "step": 1, "display": "color"}]}}, "input_order": {"required": ["width", "height", "batch_size", "color"]}, "is_input_list": false, "output": ["IMAGE"], "output_is_list": [false], "output_name": ["IMAGE"], "name": "EmptyImage", "display_name": "Empty Image", "description": "", "python_module": "nodes", "category": "image", "output_node": false, "has_intermediate_output": false, "search_aliases": []}}`,
	} {
		t.Run(gen.String(), func(t *testing.T) {
			within(t, comfyfake.Options{Generation: gen}, func(g *rig) {
				if d := cmp.Diff(want, g.get("/api/object_info/EmptyImage").Body); d != "" {
					g.t.Errorf("EmptyImage (-want +got):\n%s", d)
				}
				if a := g.get("/object_info/Nobody"); a.Body != "{}" {
					g.t.Errorf("unknown class: %s", a.Body)
				}
				var all map[string]struct {
					Output     []string
					OutputNode bool     `json:"output_node"`
					Aliases    []string `json:"search_aliases"`
					Essentials *string  `json:"essentials_category"`
				}
				if err := json.Unmarshal([]byte(g.get("/object_info").Body), &all); err != nil {
					g.t.Fatal(err)
				}
				if n := len(all["SaveImage"].Output); !all["SaveImage"].OutputNode || (n == 0) != (gen == comfyfake.V0_3_64) {
					g.t.Errorf("SaveImage: %+v", all["SaveImage"])
				}
				aliases, essentials := []string(nil), (*string)(nil)
				if gen == comfyfake.V0_33_0 {
					basics := "Basics"
					aliases, essentials = []string{"save", "save image", "export image", "output image", "write image", "download"}, &basics
				}
				if d := cmp.Diff(aliases, all["SaveImage"].Aliases); d != "" {
					g.t.Errorf("aliases of SaveImage (-want +got):\n%s", d)
				}
				if d := cmp.Diff(essentials, all["SaveImage"].Essentials); d != "" {
					g.t.Errorf("essentials of SaveImage (-want +got):\n%s", d)
				}
			})
		})
	}
}

func TestStats(t *testing.T) {
	within(t, comfyfake.Options{Generation: comfyfake.V0_33_0}, func(g *rig) {
		var s struct {
			System struct {
				Version string `json:"comfyui_version"`
			}
			Devices []any
		}
		if err := json.Unmarshal([]byte(g.get("/system_stats").Body), &s); err != nil || s.System.Version != "0.33.0" || len(s.Devices) != 1 {
			g.t.Errorf("%+v %v", s, err)
		}
		want := `{"supports_preview_metadata": true, "supports_model_type_tags": true, "max_upload_size": 104857600, "extension": {"manager": {"supports_v4": true}}, "node_replacements": true, "assets": false}`
		if a := g.get("/features"); a.Body != want {
			g.t.Errorf("features: %s", a.Body)
		}
	})
}

func TestStatsKeys(t *testing.T) {
	both := []string{"argv", "comfyui_version", "embedded_python", "installed_templates_version", "os", "python_version", "pytorch_version",
		"ram_free", "ram_total", "required_frontend_version", "required_templates_version"}
	for gen, more := range map[comfyfake.Generation][]string{comfyfake.V0_3_64: nil, comfyfake.V0_33_0: {"comfy_package_versions", "deploy_environment"}} {
		within(t, comfyfake.Options{Generation: gen}, func(g *rig) {
			var stats struct{ System map[string]json.RawMessage }
			if err := json.Unmarshal([]byte(g.get("/system_stats").Body), &stats); err != nil {
				g.t.Fatal(err)
			}
			want := slices.Sorted(slices.Values(append(slices.Clone(both), more...)))
			if d := cmp.Diff(want, slices.Sorted(maps.Keys(stats.System))); d != "" {
				g.t.Errorf("%s (-real +fake):\n%s", gen, d)
			}
		})
	}
}
