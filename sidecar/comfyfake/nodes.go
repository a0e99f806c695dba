package comfyfake

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	_ "image/gif"  // LoadImage reads GIF
	_ "image/jpeg" // LoadImage reads JPEG
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // LoadImage reads WebP
)

const about = "Saves the input images to your ComfyUI output directory."

// classes is the table of all node classes of a generation.
func classes(g Generation) []*class {
	return slices.Concat(imageClasses(g), saverClasses(), videoClasses(g), textClasses(), audioClasses(g), trialClasses(), painterClasses())
}

// either picks what the newer or the older generation has.
func either[T any](g Generation, newer, older T) T {
	if g >= V0_33_0 {
		return newer
	}
	return older
}

func imageClasses(g Generation) []*class {
	return []*class{
		{name: "EmptyImage", display: either(g, "Empty Image", "EmptyImage"), method: "generate", category: "image", module: "nodes",
			required: []input{integer("width", 512, 1, 16384, "step", 1), integer("height", 512, 1, 16384, "step", 1),
				integer("batch_size", 1, 1, 4096), integer("color", 0, 0, 0xffffff, "step", 1, "display", "color")},
			outputs: []string{"IMAGE"}, outputNames: []string{"IMAGE"}, run: runEmptyImage},
		{name: "LoadImage", display: "Load Image", category: "image", module: "nodes", method: "load_image", essentials: "Basics",
			aliases:  []string{"load image", "open image", "import image", "image input", "upload image", "read image", "image loader"},
			required: []input{{name: "image", choices: inputFiles, options: obj("image_upload", true)}},
			outputs:  []string{"IMAGE", "MASK"}, outputNames: []string{"IMAGE", "MASK"},
			own: []string{"image"}, validate: checkInputFile, stamp: stampInputFile, run: runLoadImage},
		{name: "ImageInvert", display: either(g, "Invert Image Colors", "Invert Image"), category: either(g, "image/color", "image"), module: "nodes", method: "invert",
			aliases: []string{"reverse colors"}, essentials: "Image Tools",
			required: []input{{name: "image", kind: "IMAGE"}},
			outputs:  []string{"IMAGE"}, outputNames: []string{"IMAGE"}, run: runInvert},
		{name: "ImageScale", display: "Upscale Image", category: "image/upscaling", module: "nodes",
			required: []input{{name: "image", kind: "IMAGE"},
				{name: "upscale_method", choices: words("nearest-exact", "bilinear", "area", "bicubic", "lanczos")},
				integer("width", 512, 0, 16384, "step", 1), integer("height", 512, 0, 16384, "step", 1),
				{name: "crop", choices: words("disabled", "center")}},
			outputs: []string{"IMAGE"}, outputNames: []string{"IMAGE"}, run: runScale},
		{name: "ImageBlur", display: "Image Blur", category: "image/postprocessing", module: "comfy_extras.nodes_post_processing",
			required: []input{{name: "image", kind: "IMAGE", options: obj()}, integer("blur_radius", 1, 1, 31, "step", 1),
				{name: "sigma", kind: "FLOAT", options: obj("default", 1.0, "min", 0.1, "max", 10.0, "step", 0.1)}},
			outputs: []string{"IMAGE"}, outputNames: []string{"IMAGE"}, run: runBlur},
		{name: "SolidMask", display: "SolidMask", category: "mask", module: "comfy_extras.nodes_mask",
			required: []input{{name: "value", kind: "FLOAT", options: obj("default", 1.0, "min", 0.0, "max", 1.0, "step", 0.01)},
				integer("width", 512, 1, 16384, "step", 1), integer("height", 512, 1, 16384, "step", 1)},
			outputs: []string{"MASK"}, outputNames: []string{"MASK"}, run: func(*call) (result, error) { return one(nil), nil }},
		{name: "ImageBatch", display: "Batch Images", category: "image", module: "nodes",
			required: []input{{name: "image1", kind: "IMAGE"}, {name: "image2", kind: "IMAGE"}},
			outputs:  []string{"IMAGE"}, outputNames: []string{"IMAGE"}, run: runBatch},
		{name: "RepeatImageBatch", display: "RepeatImageBatch", category: "image/batch", module: "comfy_extras.nodes_images",
			required: []input{{name: "image", kind: "IMAGE"}, integer("amount", 1, 1, 4096)},
			outputs:  []string{"IMAGE"}, outputNames: []string{"IMAGE"}, run: runRepeat},
	}
}

func one(value any) result { return result{values: []any{value}} }

func runEmptyImage(c *call) (result, error) {
	rgb := c.integer("color")
	fill := color.NRGBA{R: uint8(rgb >> 16), G: uint8(rgb >> 8), B: uint8(rgb), A: 255}
	pic := image.NewNRGBA(image.Rect(0, 0, int(c.integer("width")), int(c.integer("height"))))
	draw.Draw(pic, pic.Bounds(), image.NewUniform(fill), image.Point{}, draw.Src)
	return one(repeat(pictures{pic}, int(c.integer("batch_size")))), nil
}

// repeat shares pixels: nodes never write to a picture that they got.
func repeat(list pictures, n int) pictures {
	var out pictures
	for range n {
		out = append(out, list...)
	}
	return out
}

func runRepeat(c *call) (result, error) {
	list, err := c.images("image")
	if err != nil {
		return result{}, err
	}
	return one(repeat(list, int(c.integer("amount")))), nil
}

func runBatch(c *call) (result, error) {
	first, err := c.images("image1")
	if err != nil {
		return result{}, err
	}
	second, err := c.images("image2")
	if err != nil {
		return result{}, err
	}
	size := first[0].Bounds()
	out := slices.Clone(first)
	for _, pic := range second {
		if pic.Bounds() != size {
			pic = scaled(pic, size.Dx(), size.Dy(), draw.ApproxBiLinear)
		}
		out = append(out, pic)
	}
	return one(out), nil
}

// runBlur refuses a radius that the picture has no room for, as the real node
// does.
func runBlur(c *call) (result, error) {
	list, err := c.images("image")
	if err != nil {
		return result{}, err
	}
	b, radius := list[0].Bounds(), int(c.integer("blur_radius"))
	if radius >= b.Dx() || radius >= b.Dy() {
		return result{}, &nodeError{kind: "RuntimeError", text: fmt.Sprintf("Argument #4: Padding size should be less than the corresponding input dimension, but got: padding (%d, %d) at dimension 3 of input [%d, 3, %d, %d]",
			radius, radius, len(list), b.Dy(), b.Dx())}
	}
	out := make(pictures, len(list))
	for i, pic := range list {
		out[i] = scaled(scaled(pic, max(1, b.Dx()/(radius+1)), max(1, b.Dy()/(radius+1)), draw.BiLinear), b.Dx(), b.Dy(), draw.BiLinear)
	}
	return one(out), nil
}

// runInvert subtracts, which Python refuses before it looks for a shape.
func runInvert(c *call) (result, error) {
	list, ok := c.inputs["image"].(pictures)
	if !ok {
		return result{}, &nodeError{kind: "TypeError", text: fmt.Sprintf("unsupported operand type(s) for -: 'float' and '%s'", pythonType(c.inputs["image"]))}
	}
	out := make(pictures, len(list))
	for i, pic := range list {
		inverted := image.NewNRGBA(pic.Bounds())
		for n, v := range pic.Pix {
			if n%4 != 3 {
				v = 255 - v
			}
			inverted.Pix[n] = v
		}
		out[i] = inverted
	}
	return one(out), nil
}

// runScale keeps the picture if both sides are 0 and the ratio if one is.
func runScale(c *call) (result, error) {
	list, err := c.images("image")
	if err != nil {
		return result{}, err
	}
	size := list[0].Bounds()
	w, h := int(c.integer("width")), int(c.integer("height"))
	switch {
	case w == 0 && h == 0:
		return one(list), nil
	case w == 0:
		w = max(1, size.Dx()*h/size.Dy())
	case h == 0:
		h = max(1, size.Dy()*w/size.Dx())
	}
	var filter draw.Scaler = draw.CatmullRom
	switch c.text("upscale_method") {
	case "nearest-exact":
		filter = draw.NearestNeighbor
	case "bilinear", "area":
		filter = draw.BiLinear
	}
	out := make(pictures, len(list))
	for i, pic := range list {
		if c.text("crop") == "center" {
			pic = centered(pic, w, h)
		}
		out[i] = scaled(pic, w, h, filter)
	}
	return one(out), nil
}

func scaled(src *image.NRGBA, w, h int, filter draw.Scaler) *image.NRGBA {
	dst := image.NewNRGBA(image.Rect(0, 0, w, h))
	filter.Scale(dst, dst.Bounds(), src, src.Bounds(), draw.Src, nil)
	return dst
}

// centered cuts the middle part that has the ratio w:h.
func centered(src *image.NRGBA, w, h int) *image.NRGBA {
	b := src.Bounds()
	cw, ch := b.Dx(), b.Dy()
	if cw*h > ch*w {
		cw = max(1, ch*w/h)
	} else {
		ch = max(1, cw*h/w)
	}
	x, y := b.Min.X+(b.Dx()-cw)/2, b.Min.Y+(b.Dy()-ch)/2
	cut, _ := src.SubImage(image.Rect(x, y, x+cw, y+ch)).(*image.NRGBA)
	return cut
}

// inputFiles lists what lies directly in the input folder.
func inputFiles(s *Server) []string {
	entries, err := os.ReadDir(s.files.dir("input"))
	if err != nil {
		return []string{}
	}
	names := []string{}
	for _, e := range entries {
		if e.Type().IsRegular() && picture(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

func picture(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp":
		return true
	}
	return false
}

// inputPath resolves "sub/name.png [output]"; empty if it leaves the folder.
func inputPath(s *Server, value string) string {
	name, kind := annotated(value)
	if kind == "" {
		kind = "input"
	}
	base := s.files.dir(kind)
	path := filepath.Join(base, name)
	if !inside(base, path) {
		return ""
	}
	return path
}

func checkInputFile(s *Server, _ string, v any) string {
	path := inputPath(s, str(v))
	if st, err := os.Stat(path); path == "" || err != nil || !st.Mode().IsRegular() {
		return "Invalid image file: " + str(v)
	}
	return ""
}

func stampInputFile(s *Server, inputs *object) string {
	for _, name := range []string{"image", "audio"} {
		if inputs.has(name) {
			data, err := os.ReadFile(inputPath(s, str(inputs.at[name])))
			if err == nil {
				return shortHash(string(data))
			}
		}
	}
	return ""
}

func runLoadImage(c *call) (result, error) {
	path := inputPath(c.r.p.s, c.text("image"))
	data, err := os.ReadFile(path)
	if err != nil {
		return result{}, fmt.Errorf("load image: %w", err)
	}
	src, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return result{}, c.unreadable(path, data)
	}
	pic := image.NewNRGBA(image.Rect(0, 0, src.Bounds().Dx(), src.Bounds().Dy()))
	draw.Draw(pic, pic.Bounds(), image.Black, image.Point{}, draw.Src)
	draw.Draw(pic, pic.Bounds(), src, src.Bounds().Min, draw.Over)
	return result{values: []any{pictures{pic}, nil}}, nil
}

// unreadable is how the two generations fail at a file that is no picture.
// The newer one asks a video library first, which takes any bytes under a
// picture's name for a picture without frames and leaves them to Pillow.
func (c *call) unreadable(path string, data []byte) error {
	const pillow, site = "/ComfyUI/node_helpers.py pillow", "/venv/site-packages/PIL/"
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG")):
		return &nodeError{kind: "OSError", text: "Truncated File Read", frames: []string{pillow, site + "Image.py open", site + "Image.py _open_core",
			site + "ImageFile.py __init__", site + "PngImagePlugin.py _open", site + "ImageFile.py _safe_read"}}
	case c.r.p.s.opts.Generation >= V0_33_0 && !picture(path):
		const core = "av/container/core.py av.container.core."
		return &nodeError{kind: "av.error.InvalidDataError", text: "[Errno 1094995529] Invalid data found when processing input: '" + path + "'",
			frames: []string{"/ComfyUI/comfy_api/latest/_input_impl/video_types.py get_components", core + "open", core + "Container.__cinit__",
				core + "Container.err_check", "av/error.py av.error.err_check"}}
	}
	return &nodeError{kind: "PIL.UnidentifiedImageError", text: "cannot identify image file '" + path + "'", frames: []string{pillow, site + "Image.py open"}}
}
