package comfyfake

import (
	"bytes"
	"fmt"
	"image"
	"image/color/palette"
	"image/gif"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/image/draw"
)

func hiddenMeta() *object { return obj("prompt", "PROMPT", "extra_pnginfo", "EXTRA_PNGINFO") }

const prefixTip = "The prefix for the file to save. This may include formatting information such as %date:yyyy-MM-dd% or %Empty Latent Image.width% to include values from nodes."

func saverClasses() []*class {
	return []*class{
		{name: "SaveImage", display: "Save Image", about: about, category: "image", module: "nodes", method: "save_images", essentials: "Basics",
			aliases: []string{"save", "save image", "export image", "output image", "write image", "download"},
			required: []input{{name: "images", kind: "IMAGE", options: obj("tooltip", "The images to save.")},
				{name: "filename_prefix", kind: "STRING", options: obj("default", "ComfyUI", "tooltip", prefixTip)}},
			hidden: hiddenMeta(), outputNode: true, outputs: []string{"IMAGE"}, outputNames: []string{"images"}, run: runSaveImage},
		{name: "PreviewImage", display: "Preview Image", about: about, category: "image", module: "nodes", method: "save_images",
			aliases:  []string{"preview", "preview image", "show image", "view image", "display image", "image viewer"},
			required: []input{{name: "images", kind: "IMAGE"}},
			hidden:   hiddenMeta(), outputNode: true, outputs: []string{"IMAGE"}, outputNames: []string{"images"}, run: runPreviewImage},
		{name: "SaveAnimatedGIF", display: "Save Animated GIF", category: "image/animation", module: "comfyfake",
			required: []input{{name: "images", kind: "IMAGE"}, {name: "filename_prefix", kind: "STRING", options: obj("default", "ComfyUI")},
				{name: "fps", kind: "FLOAT", options: obj("default", 6.0, "min", 0.01, "max", 100.0, "step", 0.01)}},
			hidden: hiddenMeta(), outputNode: true, run: runSaveGIF},
		{name: "SaveImageWebsocket", display: "SaveImageWebsocket", category: "api/image", module: "custom_nodes.websocket_image_save",
			required: []input{{name: "images", kind: "IMAGE"}}, outputNode: true, never: true, run: runSaveWebsocket},
	}
}

func runSaveImage(c *call) (result, error) {
	list, err := c.images("images")
	if err != nil {
		return result{}, err
	}
	return c.save(list, "output", c.text("filename_prefix"))
}

func runPreviewImage(c *call) (result, error) {
	list, err := c.images("images")
	if err != nil {
		return result{}, err
	}
	return c.save(list, "temp", c.r.p.temp)
}

// save writes one PNG for each picture.
func (c *call) save(list pictures, kind, prefix string) (result, error) {
	chunks, err := c.metadata()
	if err != nil {
		return result{}, err
	}
	b := list[0].Bounds()
	place, err := c.place(kind, prefix, b.Dx(), b.Dy())
	if err != nil {
		return result{}, err
	}
	items := []any{}
	for i, pic := range list {
		data, err := encodePNG(pic, chunks)
		if err != nil {
			return result{}, err
		}
		item, err := place.write(strconv.Itoa(i), "_.png", data)
		if err != nil {
			return result{}, err
		}
		items = append(items, item)
	}
	return result{values: []any{list}, ui: obj("images", items)}, nil
}

// metadata is what SaveImage writes into its files: the graph, and each key of
// extra_pnginfo.
func (c *call) metadata() ([]textChunk, error) {
	chunks := []textChunk{{"prompt", dumps(c.r.it.prompt)}}
	extra, ok := c.r.it.extra.(*object)
	if !ok {
		return nil, &nodeError{kind: "AttributeError", text: "'str' object has no attribute 'get'"}
	}
	if extra.at["extra_pnginfo"] == nil {
		return chunks, nil
	}
	info := extra.object("extra_pnginfo")
	if info == nil {
		return nil, &nodeError{kind: "TypeError", text: "string indices must be integers, not 'str'"}
	}
	for _, k := range info.keys {
		chunks = append(chunks, textChunk{k, dumps(info.at[k])})
	}
	return chunks, nil
}

// place is where a node saves: folder, name and the next free number.
type place struct {
	kind, folder, subfolder, name string
	next                          int
}

// place resolves a prefix, which may hold folders and %width% and the like.
// The number goes on over all extensions.
func (c *call) place(kind, prefix string, width, height int) (*place, error) {
	now := c.r.p.s.opts.Now()
	prefix = strings.NewReplacer("%width%", strconv.Itoa(width), "%height%", strconv.Itoa(height),
		"%year%", now.Format("2006"), "%month%", now.Format("01"), "%day%", now.Format("02"),
		"%hour%", now.Format("15"), "%minute%", now.Format("04"), "%second%", now.Format("05")).Replace(prefix)
	base := c.r.p.s.files.dir(kind)
	sub, name := filepath.Split(filepath.Clean(prefix))
	sub = strings.TrimSuffix(sub, "/")
	folder := filepath.Join(base, sub)
	if !inside(base, folder) || filepath.IsAbs(prefix) {
		return nil, &nodeError{kind: "Exception", text: "**** ERROR: Saving image outside the output folder is not allowed."}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("save: %w", err)
	}
	next, err := nextNumber(folder, name)
	return &place{kind: kind, folder: folder, subfolder: sub, name: name, next: next}, err
}

func nextNumber(folder, name string) (int, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return 0, fmt.Errorf("save: %w", err)
	}
	highest := 0
	for _, e := range entries {
		rest, ok := strings.CutPrefix(strings.ToLower(e.Name()), strings.ToLower(name)+"_")
		if !ok {
			continue
		}
		digits, _, _ := strings.Cut(strings.TrimSuffix(rest, filepath.Ext(rest)), "_")
		if n, err := strconv.Atoi(digits); err == nil {
			highest = max(highest, n)
		}
	}
	return highest + 1, nil
}

// write saves one file and returns its output item.
func (pl *place) write(batch, ending string, data []byte) (*object, error) {
	name := fmt.Sprintf("%s_%05d%s", strings.ReplaceAll(pl.name, "%batch_num%", batch), pl.next, ending)
	pl.next++
	if err := os.WriteFile(filepath.Join(pl.folder, name), data, 0o644); err != nil {
		return nil, fmt.Errorf("save: %w", err)
	}
	return obj("filename", name, "subfolder", pl.subfolder, "type", pl.kind), nil
}

func encodePNG(pic *image.NRGBA, chunks []textChunk) ([]byte, error) {
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, opaque(pic)); err != nil {
		return nil, fmt.Errorf("encode PNG: %w", err)
	}
	return withText(b.Bytes(), chunks), nil
}

// runSaveGIF writes a looping GIF, which goes under "images" with the flag
// "animated" as the real animated savers do.
func runSaveGIF(c *call) (result, error) {
	list, err := c.images("images")
	if err != nil {
		return result{}, err
	}
	anim := &gif.GIF{}
	for _, pic := range list {
		frame := image.NewPaletted(pic.Bounds(), palette.Plan9)
		draw.FloydSteinberg.Draw(frame, frame.Bounds(), pic, pic.Bounds().Min)
		anim.Image = append(anim.Image, frame)
		anim.Delay = append(anim.Delay, max(1, int(100/max(c.number("fps"), 0.01))))
	}
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, anim); err != nil {
		return result{}, fmt.Errorf("encode GIF: %w", err)
	}
	place, err := c.place("output", c.text("filename_prefix"), list[0].Bounds().Dx(), list[0].Bounds().Dy())
	if err != nil {
		return result{}, err
	}
	item, err := place.write("0", "_.gif", b.Bytes())
	if err != nil {
		return result{}, err
	}
	return result{ui: obj("images", []any{item}, "animated", []any{true})}, nil
}

// runSaveWebsocket sends each picture as a PNG frame and keeps nothing. Its
// progress starts at 0 and never reaches the end.
func runSaveWebsocket(c *call) (result, error) {
	list, err := c.images("images")
	if err != nil {
		return result{}, err
	}
	for i, pic := range list {
		if err := c.tick(i, len(list), &preview{picture: pic, png: true}); err != nil {
			return result{}, err
		}
	}
	return result{}, nil
}
