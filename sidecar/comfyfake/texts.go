package comfyfake

import "fmt"

func textClasses() []*class {
	source := []input{{name: "source", kind: "*", options: obj()}}
	return []*class{
		{name: "PrimitiveString", display: "String", category: "utils/primitive", module: "comfy_extras.nodes_primitive",
			required: []input{{name: "value", kind: "STRING", options: obj("multiline", false)}},
			outputs:  []string{"STRING"}, outputNames: []string{"STRING"}, run: runPrimitive},
		{name: "PrimitiveInt", display: "Int", category: "utils/primitive", module: "comfy_extras.nodes_primitive",
			required: []input{{name: "value", kind: "INT", options: obj("control_after_generate", true)}},
			outputs:  []string{"INT"}, outputNames: []string{"INT"}, run: runPrimitive},
		{name: "PreviewAny", display: "Preview Any", category: "utils", module: "comfy_extras.nodes_preview_any",
			required: source, outputNode: true, outputs: []string{"STRING"}, outputNames: []string{"STRING"}, run: runPreviewAny},
		{name: "ShowText|pysssss", display: "Show Text", category: "utils", module: "custom_nodes.showtext",
			required: []input{{name: "text", kind: "STRING", options: obj("forceInput", true)}}, outputNode: true,
			outputs: []string{"STRING"}, outputNames: []string{"STRING"}, run: runShowText},
		{name: "GetImageSize", display: "Get Image Size", category: "image", module: "comfy_extras.nodes_images",
			required: []input{{name: "image", kind: "IMAGE", options: obj()}},
			outputs:  []string{"INT", "INT", "INT"}, outputNames: []string{"width", "height", "batch_size"}, run: runImageSize},
	}
}

func runPrimitive(c *call) (result, error) { return one(c.inputs["value"]), nil }

func runPreviewAny(c *call) (result, error) {
	text := printValue(c.inputs["source"])
	return result{values: []any{text}, ui: obj("text", []any{text})}, nil
}

func runShowText(c *call) (result, error) {
	text := str(c.inputs["text"])
	return result{values: []any{text}, ui: obj("text", []any{text})}, nil
}

// runImageSize also tells the size in a text frame.
func runImageSize(c *call) (result, error) {
	list, err := c.images("image")
	if err != nil {
		return result{}, err
	}
	b := list[0].Bounds()
	c.r.sendText(c.id, fmt.Sprintf("width: %d, height: %d\n batch size: %d", b.Dx(), b.Dy(), len(list)))
	return result{values: []any{b.Dx(), b.Dy(), len(list)}}, nil
}
