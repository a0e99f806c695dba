// Package static holds the web panel: plain HTML, CSS and ES modules, served as they are.
//
// The server fills two placeholders of index.html before it sends it: __STUDIO_BASE__, the path of
// these files with a trailing slash, and __STUDIO_CONFIG__, a JSON object with apiBase, uiBase,
// environment and version. Both go into attributes and must be escaped for HTML.
package static

import (
	"embed"
	"io/fs"
)

//go:embed index.html icon.svg css js
var files embed.FS

// FS holds the files of the panel; index.html is at its root.
func FS() fs.FS { return files }
