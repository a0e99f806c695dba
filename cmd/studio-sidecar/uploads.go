package main

import (
	"log/slog"
	"path/filepath"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar/upload"
)

// openUploads opens the folder that the environment's ComfyUI loads files
// from, or, where there is none that can be written to, a folder beside the
// artifacts. What ComfyUI does not see is handed on when a run needs it.
func openUploads(env manifest.Environment, artifacts string, log *slog.Logger) (*upload.Folder, error) {
	input := env.InputDir()
	if isDir(input) {
		folder, err := upload.Open(input)
		if err == nil {
			return folder, nil
		}
		log.Warn("uploads are kept elsewhere and handed on to ComfyUI", "folder", input, "err", err)
	}
	return upload.Open(uploadsBeside(artifacts))
}

func uploadsBeside(artifacts string) string {
	return filepath.Join(filepath.Dir(artifacts), "uploads")
}
