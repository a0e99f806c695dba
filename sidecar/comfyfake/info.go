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
	const frontend, templates = "1.27.10", "0.1.95"
	newer := p.s.opts.Generation >= V0_33_0
	system := obj("os", either(p.s.opts.Generation, runtime.GOOS, "posix"), "ram_total", memory, "ram_free", memory/2, "comfyui_version", p.s.opts.Generation.String(),
		"required_frontend_version", frontend, "installed_templates_version", templates, "required_templates_version", templates)
	if newer {
		system.set("comfy_package_versions", []any{obj("name", "comfyui-frontend-package", "installed", frontend, "required", frontend),
			obj("name", "comfyui-workflow-templates", "installed", templates, "required", templates)})
	}
	system.set("python_version", "3.11.7 (fake)")
	system.set("pytorch_version", "2.8.0+cpu")
	system.set("embedded_python", false)
	if newer {
		system.set("deploy_environment", "local-git")
	}
	system.set("argv", []string{"main.py", "--cpu"})
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
	if k.schema {
		o.set("output_tooltips", append([]any{}, k.outputTips...))
		if newer {
			o.set("output_matchtypes", nil)
		}
	}
	o.set("name", k.name)
	o.set("display_name", k.display)
	if k.display == "" {
		o.set("display_name", nil)
	}
	o.set("description", k.about)
	o.set("python_module", k.module)
	o.set("category", k.category)
	o.set("output_node", k.outputNode)
	if k.schema {
		k.schemaInfo(o, newer)
	}
	if newer {
		o.set("has_intermediate_output", false)
		o.set("search_aliases", anyList(k.aliases))
		switch {
		case k.essentials != "":
			o.set("essentials_category", k.essentials)
		case k.schema:
			o.set("essentials_category", nil)
		}
	}
	return o
}

// schemaInfo adds what only classes declared by schema tell.
func (k *class) schemaInfo(o *object, newer bool) {
	o.set("deprecated", false)
	o.set("experimental", k.experimental)
	if newer {
		o.set("dev_only", false)
	}
	o.set("api_node", false)
	if newer {
		o.set("price_badge", nil)
	}
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
		inputs.set("hidden", k.hiddenInfo())
		order.set("hidden", k.hidden.keys)
	}
	return inputs, order
}

// hiddenInfo is the hidden inputs; a schema wraps each type in a list.
func (k *class) hiddenInfo() *object {
	if !k.schema {
		return k.hidden
	}
	wrapped := obj()
	for _, name := range k.hidden.keys {
		wrapped.set(name, []any{k.hidden.at[name]})
	}
	return wrapped
}
