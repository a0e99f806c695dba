package comfyfake

import (
	"net/http"
	"runtime"
)

func (s *Server) features() *object {
	o := obj("supports_preview_metadata", true)
	if s.opts.Generation < V0_33_0 {
		o.set("max_upload_size", s.opts.MaxUpload)
		return o
	}
	o.set("supports_model_type_tags", true)
	o.set("max_upload_size", s.opts.MaxUpload)
	o.set("extension", obj("manager", obj("supports_v4", true)))
	o.set("node_replacements", true)
	o.set("assets", false)
	return o
}

func (p *process) handleFeatures(w http.ResponseWriter, _ *http.Request, _ string) {
	writeJSON(w, http.StatusOK, p.s.features())
}

func (p *process) handleStats(w http.ResponseWriter, _ *http.Request, _ string) {
	const memory = 16 << 30
	name := "posix"
	if p.s.opts.Generation >= V0_33_0 {
		name = runtime.GOOS
	}
	system := obj("os", name, "ram_total", memory, "ram_free", memory/2, "comfyui_version", p.s.opts.Generation.String(),
		"required_frontend_version", "1.27.10", "installed_templates_version", "0.1.95", "required_templates_version", "0.1.95",
		"python_version", "3.11.7 (fake)", "pytorch_version", "2.8.0+cpu", "embedded_python", false, "argv", []string{"main.py", "--cpu"})
	device := obj("name", "cpu", "type", "cpu", "index", nil, "vram_total", memory, "vram_free", memory/2,
		"torch_vram_total", memory, "torch_vram_free", memory/2)
	writeJSON(w, http.StatusOK, obj("system", system, "devices", []any{device}))
}

func (p *process) handleAllClasses(w http.ResponseWriter, _ *http.Request, _ string) {
	all := obj()
	for _, k := range p.s.table {
		all.set(k.name, k.info(p.s))
	}
	writeJSON(w, http.StatusOK, all)
}

func (p *process) handleClass(w http.ResponseWriter, _ *http.Request, name string) {
	answer := obj()
	if k := p.s.class(name); k != nil {
		answer.set(name, k.info(p.s))
	}
	writeJSON(w, http.StatusOK, answer)
}

// info is the class's entry in /object_info.
func (k *class) info(s *Server) *object {
	newer := s.opts.Generation >= V0_33_0
	inputs, order := k.inputInfo(s)
	lists := make([]any, len(k.slots(s)))
	for i := range lists {
		lists[i] = false
	}
	o := obj("input", inputs, "input_order", order)
	if newer {
		o.set("is_input_list", false)
	}
	o.set("output", anyList(k.slots(s)))
	o.set("output_is_list", lists)
	o.set("output_name", anyList(k.outputNames[:len(lists)]))
	o.set("name", k.name)
	o.set("display_name", k.display)
	o.set("description", k.about)
	o.set("python_module", k.module)
	o.set("category", k.category)
	o.set("output_node", k.outputNode)
	if newer {
		o.set("has_intermediate_output", false)
		o.set("search_aliases", []any{})
	}
	return o
}

// inputInfo is the inputs by group, and the order of their names.
func (k *class) inputInfo(s *Server) (inputs, order *object) {
	inputs, order = obj(), obj()
	add := func(group string, list []input) {
		specs, names := obj(), []string{}
		for _, in := range list {
			specs.set(in.name, in.config(s))
			names = append(names, in.name)
		}
		inputs.set(group, specs)
		order.set(group, names)
	}
	add("required", k.required)
	if len(k.optional) > 0 {
		add("optional", k.optional)
	}
	if k.hidden != nil {
		inputs.set("hidden", k.hidden)
		order.set("hidden", k.hidden.keys)
	}
	return inputs, order
}
