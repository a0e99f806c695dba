package comfy_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
)

// talker is a ComfyUI whose socket says what it is told to, and that accepts
// every prompt.
type talker struct {
	then func(ctx context.Context, c *websocket.Conn) // after the first status
	comfyUI
}

func (f talker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/prompt":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"prompt_id":%q,"node_errors":{}}`, promptA)
	case r.URL.Path != "/ws":
		f.comfyUI.ServeHTTP(w, r)
	default:
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		say(r.Context(), c, `{"type":"status","data":{"status":{"exec_info":{"queue_remaining":0}},"sid":"x"}}`)
		if f.then != nil {
			f.then(r.Context(), c)
		}
		for {
			if _, _, err := c.Read(r.Context()); err != nil {
				return
			}
		}
	}
}

func say(ctx context.Context, c *websocket.Conn, texts ...string) {
	for _, text := range texts {
		if c.Write(ctx, websocket.MessageText, []byte(text)) != nil {
			return
		}
	}
}

func sayBinary(ctx context.Context, c *websocket.Conn, parts ...any) {
	var b []byte
	for _, part := range parts {
		switch part := part.(type) {
		case int:
			b = binary.BigEndian.AppendUint32(b, uint32(part))
		case string:
			b = append(b, part...)
		}
	}
	if c.Write(ctx, websocket.MessageBinary, b) != nil {
		return
	}
}

// watched runs Watch against a talker until quiet, and gives what was heard.
func watched(t *testing.T, f talker, o comfy.Options, during func(*testing.T, *comfy.Executor, *news)) {
	t.Helper()
	scripted(t, f, o, func(t *testing.T, exec *comfy.Executor) {
		ctx, cancel := context.WithCancel(t.Context())
		heard := &news{}
		done := make(chan error, 1)
		go func() { done <- exec.Watch(ctx, heard.report) }()
		synctest.Wait()
		during(t, exec, heard)
		cancel()
		<-done
	})
}
