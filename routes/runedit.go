package routes

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// editBytes bounds the body of a route that reads a title and a flag, or
// nothing.
const editBytes = 64 << 10

// editRun writes a title on a run, and pins it.
func (c *call) editRun() error {
	raw, err := c.readUpTo(editBytes)
	if err != nil {
		return err
	}
	edit, err := decodeEdit(raw)
	if err != nil {
		return err
	}
	v := c.session()
	run, err := c.studio.EditRun(c.r.Context(), v.Scope, sidecar.RunID(c.path("run_id")), edit)
	if err != nil {
		return err
	}
	body := c.renderRun(v, run)
	c.w.Header().Set("ETag", tagOf(run, body))
	c.json(http.StatusOK, body)
	return nil
}

// decodeEdit reads {"title": text or null, "pinned": boolean}.
func decodeEdit(raw []byte) (sidecar.Edit, error) {
	var edit sidecar.Edit
	fields, err := parseBody(raw, `Send {"title": "TITLE", "pinned": true}, or one of both.`)
	if err != nil {
		return edit, err
	}
	for _, field := range fields {
		switch field.Name {
		case "title":
			var title *string
			if json.Unmarshal(field.Value, &title) != nil {
				return edit, badRequest("'title' must be a text.", "Send a JSON string, or null to take the title away.")
			}
			if title == nil {
				title = new(string)
			}
			edit.Title = title
		case "pinned":
			var pinned *bool
			if json.Unmarshal(field.Value, &pinned) != nil || pinned == nil {
				return edit, badRequest("'pinned' must be true or false.", "Send it as a JSON boolean.")
			}
			edit.Pinned = pinned
		default:
			return edit, badRequest(fmt.Sprintf("A run has no '%s' that can be written.", field.Name), "Send title, pinned, or both.")
		}
	}
	if edit == (sidecar.Edit{}) {
		return edit, badRequest("There is nothing to write.", "Send title, pinned, or both.")
	}
	return edit, nil
}

// deleteRun removes a finished run.
func (c *call) deleteRun() error {
	v := c.session()
	c.foretell(http.StatusOK, renderDeleted(true))
	if err := c.studio.DeleteRun(c.r.Context(), v.Scope, sidecar.RunID(c.path("run_id"))); err != nil {
		return err
	}
	c.json(http.StatusOK, renderDeleted(true))
	return nil
}
