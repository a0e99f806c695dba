package comfyfake

// video is the value of a VIDEO slot; it has no sound.
type video struct {
	frames pictures
	fps    float64
}

// videoClasses are without the tooltips of the real ones.
func videoClasses(g Generation) []*class {
	const module = "comfy_extras.nodes_video"
	prefix := func(folder string) input {
		return input{name: "filename_prefix", kind: "STRING", options: obj("default", folder, "multiline", false)}
	}
	category := either(g, "video", "image/video")
	webm := []input{{name: "images", kind: "IMAGE", options: obj()},
		prefix("ComfyUI"), {name: "codec", schema: true, choices: words("vp9", "av1"), options: obj()},
		{name: "fps", kind: "FLOAT", options: obj("default", 24.0, "min", 0.01, "max", 1000.0, "step", 0.01)},
		{name: "crf", kind: "FLOAT", options: obj("default", 32.0, "min", 0, "max", 63.0, "step", 1)}}
	save := &class{name: "SaveVideo", display: "Save Video", category: category, module: module, schema: true, aliases: []string{"export video"}, essentials: "Basics",
		about:  either(g, "Saves the input videos to your ComfyUI output directory.", about),
		hidden: hiddenMeta(), outputNode: true, outputs: []string{"VIDEO"}, outputNames: []string{"video"}, outputTips: either(g, []any{nil}, nil), run: runSaveVideo}
	save.required, save.optional = savedVideo(g)
	return []*class{
		{name: "CreateVideo", display: "Create Video", about: "Create a video from images.", category: category, module: module, schema: true,
			aliases: []string{"images to video"}, essentials: "Video Tools",
			required: []input{{name: "images", kind: "IMAGE", options: obj()},
				{name: "fps", kind: "FLOAT", options: obj("default", 30.0, "min", 1.0, "max", 120.0, "step", 1.0)}},
			optional: createdVideo(g), outputs: []string{"VIDEO"}, outputNames: []string{"VIDEO"}, outputTips: []any{nil}, run: runCreateVideo},
		save,
		{name: "SaveWEBM", display: either(g, "Save WEBM", ""), category: category, module: module, schema: true, experimental: true, aliases: []string{"export webm"},
			required: webm, hidden: hiddenMeta(), outputNode: true, outputs: []string{"IMAGE"}, outputNames: []string{"images"},
			outputTips: either(g, []any{nil}, nil), run: runSaveWEBM},
	}
}

func createdVideo(g Generation) []input {
	list := []input{{name: "audio", kind: "AUDIO", options: obj()}}
	if g >= V0_33_0 {
		list = append(list, input{name: "bit_depth", kind: "INT", options: obj("default", 8, "min", 8, "max", 10, "step", 2, "display", "number")})
	}
	return list
}

// savedVideo is the inputs of SaveVideo. The newer generation nests the codec
// in the format and still takes it beside; of the nested ones only the keys
// are told here.
func savedVideo(g Generation) (required, optional []input) {
	required = []input{{name: "video", kind: "VIDEO", options: obj()},
		{name: "filename_prefix", kind: "STRING", options: obj("tooltip", prefixTip, "default", "video/ComfyUI", "multiline", false)}}
	if g < V0_33_0 {
		return append(required,
			input{name: "format", schema: true, choices: words("auto", "mp4"), options: obj("default", "auto")},
			input{name: "codec", schema: true, choices: words("auto", "h264"), options: obj("default", "auto")}), nil
	}
	return append(required, nested("format", "auto", "mp4", "mkv", "webm")), []input{nested("codec", "auto", "h264", "av1")}
}

func nested(name string, keys ...string) input {
	list := []any{}
	for _, k := range keys {
		list = append(list, obj("key", k, "inputs", obj("required", obj())))
	}
	return input{name: name, kind: "COMFY_DYNAMICCOMBO_V3", options: obj("options", list)}
}

func runCreateVideo(c *call) (result, error) {
	list, err := c.images("images")
	if err != nil {
		return result{}, err
	}
	return one(video{frames: list, fps: c.number("fps")}), nil
}

// runSaveVideo writes MP4, or WebM if asked to.
func runSaveVideo(c *call) (result, error) {
	v, ok := c.inputs["video"].(video)
	if !ok {
		return result{}, &nodeError{kind: "AttributeError", text: "'" + pythonType(c.inputs["video"]) + "' object has no attribute 'get_dimensions'"}
	}
	switch format := c.text("format"); format {
	case "auto", "mp4":
		return c.saveVideo(v, v, "_.mp4", encodeMP4(v))
	case "webm":
		return c.saveVideo(v, v, "_.webm", encodeWebM(v, "V_AV1"))
	default:
		return result{}, &nodeError{kind: "ValueError", text: "Unsupported format: " + format}
	}
}

func runSaveWEBM(c *call) (result, error) {
	list, err := c.images("images")
	if err != nil {
		return result{}, err
	}
	codec := map[string]string{"vp9": "V_VP9", "av1": "V_AV1"}[c.text("codec")]
	if codec == "" {
		return result{}, &nodeError{kind: "KeyError", text: repr(c.text("codec"))}
	}
	v := video{frames: list, fps: c.number("fps")}
	return c.saveVideo(v, list, "_.webm", encodeWebM(v, codec))
}

// saveVideo files the bytes and passes the value on.
func (c *call) saveVideo(v video, value any, ending string, data []byte) (result, error) {
	b := v.frames[0].Bounds()
	at, err := c.place("output", c.text("filename_prefix"), b.Dx(), b.Dy())
	if err != nil {
		return result{}, err
	}
	item, err := at.write("0", ending, data)
	if err != nil {
		return result{}, err
	}
	return result{values: []any{value}, ui: obj("images", []any{item}, "animated", []any{true})}, nil
}
