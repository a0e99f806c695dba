package comfyfake

// class is a node class: what /object_info tells of it and what it does.
type class struct {
	name, display, about, category, module string
	aliases                                []string // told by the newer generation only
	essentials                             string   // likewise
	schema                                 bool     // declared by schema, which tells more in /object_info
	experimental                           bool     // of a class declared by schema
	method                                 string   // the Python method that runs it, for tracebacks; "" is execute
	required, optional                     []input
	hidden                                 *object
	outputs, outputNames                   []string
	outputTips                             []any // of a class declared by schema
	outputNode                             bool
	deaf                                   bool // ignores interrupts
	never                                  bool // is never cached

	run func(*call) (result, error)
	// lazy names the lazy inputs that the node wants, by what it knows.
	lazy func(*call) []string
	// validate is the class's own look at its literals: the text after
	// "name - " of custom_validation_failed, or "".
	validate func(s *Server, name string, v any) string
	// own names the inputs that validate judges in place of the range and
	// list checks.
	own []string
	// stamp is what makes a cached result stale besides the inputs.
	stamp func(s *Server, inputs *object) string
}

// input is one input of a class: the type word or the choices, and options.
type input struct {
	name    string
	kind    string
	choices func(s *Server) []string // a combo if not nil
	options *object                  // nil: the config has one element
	schema  bool                     // of a class declared by schema: the choices lie in the options
}

// config is the input's entry in /object_info and in node errors.
func (in input) config(s *Server) []any {
	var kind any = in.kind
	if in.schema {
		options := in.options.clone()
		options.set("multiselect", false)
		options.set("options", in.choices(s))
		return []any{"COMBO", options}
	}
	if in.choices != nil {
		kind = in.choices(s)
	}
	if in.options == nil {
		return []any{kind}
	}
	return []any{kind, in.options}
}

func (in input) lazy() bool { return in.options != nil && in.options.at["lazy"] == true }

// info is what input_config in an error shows: always two elements.
func (in input) info(s *Server) []any {
	if in.options == nil {
		return append(in.config(s), obj())
	}
	return in.config(s)
}

func (k *class) inputs() []input { return append(append([]input{}, k.required...), k.optional...) }

func (k *class) print(r *run, inputs *object) string {
	if k.stamp == nil {
		return ""
	}
	return "#" + k.stamp(r.p.s, inputs)
}

func (k *class) judges(name string) bool {
	for _, n := range k.own {
		if n == name {
			return true
		}
	}
	return false
}

func words(list ...string) func(*Server) []string {
	return func(*Server) []string { return list }
}

func integer(name string, def, low, high int64, more ...any) input {
	return input{name: name, kind: "INT", options: obj(append([]any{"default", def, "min", low, "max", high}, more...)...)}
}

// class finds a class by name; nil if there is none.
func (s *Server) class(name string) *class {
	return s.byName[name]
}
