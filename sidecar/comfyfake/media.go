package comfyfake

import (
	"bytes"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// mediaTypes is a fixed table, so that answers do not depend on the machine.
var mediaTypes = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
	".bmp": "image/bmp", ".avif": "image/avif", ".svg": "image/svg+xml", ".exr": "image/aces",
	".mp4": "video/mp4", ".webm": "video/webm", ".mov": "video/quicktime", ".mkv": "video/x-matroska",
	".wav": "audio/wav", ".flac": "audio/flac", ".mp3": "audio/mpeg", ".opus": "audio/ogg", ".ogg": "audio/ogg",
	".glb": "model/gltf-binary", ".gltf": "model/gltf+json", ".obj": "model/obj", ".stl": "model/stl",
	".txt": "text/plain", ".md": "text/markdown", ".csv": "text/csv", ".json": "application/json", ".pdf": "application/pdf",
	".html": "text/html", ".htm": "text/html", ".xhtml": "application/xhtml+xml", ".xml": "text/xml", ".css": "text/css",
	".js": "application/javascript; charset=utf-8", ".mjs": "text/javascript", ".mht": "message/rfc822",
}

func mediaType(name string) string {
	if kind := mediaTypes[strings.ToLower(path.Ext(name))]; kind != "" {
		return kind
	}
	return "application/octet-stream"
}

func htmlLike(kind string) bool {
	switch kind {
	case "text/html", "application/xhtml+xml", "text/javascript", "text/css":
		return true
	}
	return false
}

// active says whether a browser would run or lay out the file.
func active(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".html", ".htm", ".xhtml", ".xml", ".css", ".js", ".mjs", ".svg", ".mht":
		return true
	}
	return false
}

// writePreview recodes a picture. Only JPEG comes out: there is no WebP
// encoder here, and a client goes by the content type.
func writePreview(w http.ResponseWriter, f io.Reader, name, how string) {
	src, _, err := image.Decode(f)
	if err != nil {
		writeTrouble(w)
		return
	}
	quality := 90
	if _, text, ok := strings.Cut(how, ";"); ok {
		if n, err := strconv.Atoi(text); err == nil {
			quality = min(max(n, 1), 100)
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, src, &jpeg.Options{Quality: quality}); err != nil {
		writeTrouble(w)
		return
	}
	writeComputed(w, name, "image/jpeg", b.Bytes())
}

// writeChannel answers with the colours or the transparency of a picture.
func writeChannel(w http.ResponseWriter, f io.Reader, name, channel string) {
	src, _, err := image.Decode(f)
	if err != nil {
		writeTrouble(w)
		return
	}
	b := src.Bounds()
	dst := image.NewNRGBA(image.Rect(0, 0, b.Dx(), b.Dy()))
	for y := range b.Dy() {
		for x := range b.Dx() {
			c := nrgbaAt(src, b.Min.X+x, b.Min.Y+y)
			if channel == "a" {
				c.R, c.G, c.B = 0, 0, 0
			} else {
				c.A = 255
			}
			dst.SetNRGBA(x, y, c)
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, opaque(dst)); err != nil {
		writeTrouble(w)
		return
	}
	writeComputed(w, name, "image/png", out.Bytes())
}

func writeComputed(w http.ResponseWriter, name, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", `filename="`+name+`"`)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	w.Write(body) // the client is gone
}
