package comfy_test

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
)

// babbler is a talker whose first socket breaks the protocol.
type babbler struct {
	talker
	frames string
	opened *atomic.Int64
}

func (b babbler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/ws" || b.opened.Add(1) > 1 {
		b.talker.ServeHTTP(w, r)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	status := `{"type":"status","data":{"status":{"exec_info":{"queue_remaining":0}},"sid":"x"}}`
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n\x81%c%s%s",
		base64.StdEncoding.EncodeToString(sum[:]), len(status), status, b.frames)
	<-r.Context().Done()
}

// TestWatchReplacesABabblingSocket: whatever comes over it, and though it never
// answers a ping, another socket stands within a minute, and what that one says
// is heard.
func TestWatchReplacesABabblingSocket(t *testing.T) {
	for name, frames := range map[string]string{
		"reserved_bits":           "\xf1\x00",
		"unknown_opcode":          "\x83\x00",
		"masked":                  "\x81\x81\x01\x02\x03\x04a",
		"longer_than_anything":    "\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff",
		"longer_than_the_limit":   "\x82\x7f\x00\x00\x00\x00\x10\x00\x00\x00" + strings.Repeat("x", 1000),
		"continues_nothing":       "\x80\x00",
		"text_that_is_no_utf8":    "\x81\x02\xff\xfe",
		"a_close_that_means_none": "\x88\x02\x03\xed",
		"half_a_close":            "\x88\x01\x03",
		"a_long_ping":             "\x89\x7e\x01\x00" + strings.Repeat("x", 256),
		"empty_pieces_for_ever":   "\x01\x00" + strings.Repeat("\x00\x00", 10000),
		"half_a_message":          "\x81\x7e\x10\x00{",
		"nothing_more":            "",
	} {
		t.Run(name, func(t *testing.T) {
			var opened atomic.Int64
			b := babbler{frames: frames, opened: &opened, talker: talker{then: func(ctx context.Context, c *websocket.Conn) {
				pause(ctx, time.Second)
				say(ctx, c, `{"type":"execution_success","data":{"prompt_id":"`+string(promptA)+`"}}`)
			}}}
			scripted(t, b, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
				ctx, cancel := context.WithCancel(t.Context())
				heard := &news{}
				done := make(chan error, 1)
				go func() { done <- exec.Watch(ctx, heard.report) }()
				if _, err := exec.Submit(ctx, job(promptA, picture(1))); err != nil {
					t.Error(err)
				}
				pause(ctx, time.Minute)
				if n := heard.count(sidecar.NewsConnected); n != 2 || heard.count(sidecar.NewsEnding) != 1 {
					t.Errorf("%d connects, %d sockets opened, %d endings", n, opened.Load(), heard.count(sidecar.NewsEnding))
				}
				cancel()
				if err := <-done; err != context.Canceled {
					t.Error(err)
				}
			})
		})
	}
}
