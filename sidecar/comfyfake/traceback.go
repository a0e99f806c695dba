package comfyfake

import (
	"fmt"
	"strings"
)

// traceback is what execution_error shows: the frames of the executor, which
// every failure has, those of a class declared by schema, the node's own and
// the given ones below it, each as "file function". Line numbers of the
// executor are those of the generation; the others mean nothing.
func (r *run) traceback(k *class, below []string) []string {
	lines := either(r.p.s.opts.Generation, []int{545, 344, 318, 306}, []int{496, 315, 289, 277})
	var list []string
	for i, function := range []string{"execute", "get_output_data", "_async_map_node_over_list", "process_inputs"} {
		list = append(list, frame("/ComfyUI/execution.py", lines[i], function))
	}
	if k.schema {
		list = append(list, frame("/ComfyUI/comfy_api/internal/__init__.py", 149, "wrapped_func"),
			frame("/ComfyUI/comfy_api/latest/_io.py", either(r.p.s.opts.Generation, 1990, 1270), "EXECUTE_NORMALIZED"))
	}
	method := k.method
	if method == "" {
		method = "execute"
	}
	list = append(list, frame("/ComfyUI/"+strings.ReplaceAll(k.module, ".", "/")+".py", 100, method))
	for _, f := range below {
		file, function, _ := strings.Cut(f, " ")
		list = append(list, frame(file, 100, function))
	}
	return list
}

func frame(file string, line int, function string) string {
	return fmt.Sprintf("  File %q, line %d, in %s\n", file, line, function)
}
