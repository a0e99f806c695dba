package sidecar

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// mediaTypes are the input types whose values name files.
var mediaTypes = []string{"image", "video", "audio", "file"}

// mediaError is a sentence for people about the value of a media input.
type mediaError string

func (e mediaError) Error() string { return string(e) }

// resolveMedia turns references to uploads into the file names that ComfyUI
// knows. Files inside the request are refused: they belong into an upload.
func resolveMedia(contract *manifest.Contract, values manifest.Values) (manifest.Values, error) {
	resolved := slices.Clone(values)
	for _, in := range contract.Inputs {
		if !slices.Contains(mediaTypes, strings.ToLower(in.Type)) {
			continue
		}
		for i, field := range resolved {
			if field.Name != in.Name {
				continue
			}
			value, err := resolveValue(in.Name, field.Value)
			if err != nil {
				return nil, err
			}
			resolved[i].Value = value
		}
	}
	return resolved, nil
}

func resolveValue(name string, value json.RawMessage) (json.RawMessage, error) {
	var text string
	if json.Unmarshal(value, &text) == nil {
		if strings.HasPrefix(strings.ToLower(strings.TrimSpace(text)), "data:") {
			return nil, mediaError(fmt.Sprintf("Input '%s' uses an inline data URL. Upload the file first and submit a file_ref.", name))
		}
		return value, nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(value, &object) != nil || object == nil {
		return value, nil
	}
	if textOf(object["kind"]) == "file_ref" {
		return nil, unknownUpload(name, object)
	}
	for _, key := range []string{"data_url", "base64", "data"} {
		if _, inline := object[key]; inline {
			return nil, mediaError(fmt.Sprintf("Input '%s' uses inline file bytes. Upload the file first and submit a file_ref.", name))
		}
	}
	return value, nil
}

func unknownUpload(name string, object map[string]json.RawMessage) error {
	if textOf(object["ref"]) == "" && textOf(object["upload_id"]) == "" {
		return mediaError(fmt.Sprintf("Input '%s' file_ref is missing a ref.", name))
	}
	return mediaError(fmt.Sprintf("Input '%s' references an unknown upload.", name))
}

func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
