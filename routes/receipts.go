package routes

import (
	"net/http"
	"strconv"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// listCommands lists what was asked for under keys: everything to whoever has
// the server's token, else what the caller's own session asked for.
func (c *call) listCommands() error {
	query := c.r.URL.Query()
	limit, err := readLimit(query.Get("limit"))
	if err != nil {
		return err
	}
	filter := sidecar.CommandFilter{Limit: limit}
	if limit == 0 {
		filter.Limit = pageLimit
	}
	if after := query.Get("after"); after != "" {
		filter.After, err = strconv.ParseInt(after, 10, 64)
		if err != nil || filter.After < 0 {
			return badRequest("'after' must be the number of a command.", "Use next_after of an earlier answer, or leave it out.")
		}
	}
	var found sidecar.CommandPage
	if c.guard.token == "" {
		filter.Session = sidecar.SessionID(c.givenSession())
	}
	if c.guard.token != "" || filter.Session != "" {
		if found, err = c.studio.Commands(c.r.Context(), filter); err != nil {
			return err
		}
	}
	c.json(http.StatusOK, renderCommands(found, filter.After))
	return nil
}

func renderCommands(found sidecar.CommandPage, after int64) []byte {
	t := text{}
	t.open('{')
	t.key("commands")
	t.open('[')
	for _, command := range found.Commands {
		t.open('{')
		t.int("seq", command.Seq)
		t.str("key", command.Key)
		t.str("kind", command.Kind)
		t.optStr("run_id", string(command.Run))
		t.str("at", sidecar.FormatTime(command.At))
		if command.Answer != nil {
			t.int("status", int64(command.Answer.Status))
		}
		t.close('}')
		after = command.Seq
	}
	t.close(']')
	t.int("next_after", after)
	t.bool("has_more", found.More)
	t.close('}')
	return t.b
}
