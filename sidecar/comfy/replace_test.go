package comfy_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
)

func TestWatchReplaces(t *testing.T) {
	t.Run("a_socket_that_says_nothing_although_the_queue_moved", func(t *testing.T) {
		watched(t, talker{}, comfy.Options{PingEvery: time.Hour}, func(t *testing.T, exec *comfy.Executor, heard *news) {
			pause(t.Context(), time.Minute)
			if n := heard.count(sidecar.NewsDisconnected); n != 0 {
				t.Fatalf("an idle socket was replaced %d times", n)
			}
			if _, err := exec.Submit(t.Context(), job(promptA, picture(1))); err != nil {
				t.Fatal(err)
			}
			pause(t.Context(), 15*time.Second)
			if n := heard.count(sidecar.NewsConnected); n != 2 {
				t.Errorf("%d connects", n)
			}
		})
	})
	t.Run("one_that_is_deaf_to_a_prompt_leaving_the_queue", func(t *testing.T) {
		ui := &changing{comfyUI: comfyUI{queue: fmt.Sprintf(`{"queue_running":[],"queue_pending":[[1,%q,{},{},[]]]}`, promptA)}}
		mux := http.NewServeMux()
		mux.Handle("/ws", talker{})
		mux.Handle("/", ui)
		scripted(t, mux, comfy.Options{PingEvery: time.Hour}, func(t *testing.T, exec *comfy.Executor) {
			ctx, cancel := context.WithCancel(t.Context())
			heard := &news{}
			done := make(chan error, 1)
			go func() { done <- exec.Watch(ctx, heard.report) }()
			synctest.Wait()
			for i := range 3 {
				pause(ctx, time.Minute)
				if i == 2 {
					ui.comfyUI = recorded(`{}`)
				}
				if _, err := exec.Look(ctx, job(promptA, picture(1))); err != nil {
					t.Error(err)
				}
			}
			if n := heard.count(sidecar.NewsConnected); n != 1 {
				t.Errorf("%d connects before", n)
			}
			pause(ctx, 15*time.Second)
			if n := heard.count(sidecar.NewsConnected); n != 2 {
				t.Errorf("%d connects", n)
			}
			cancel()
			<-done
		})
	})
	t.Run("one_that_answers_no_ping", func(t *testing.T) {
		frozen := talker{then: func(ctx context.Context, _ *websocket.Conn) { <-ctx.Done() }}
		watched(t, frozen, comfy.Options{}, func(t *testing.T, _ *comfy.Executor, heard *news) {
			pause(t.Context(), 34*time.Second)
			if n := heard.count(sidecar.NewsDisconnected); n != 0 {
				t.Errorf("given up after %d", n)
			}
			pause(t.Context(), 6*time.Second)
			if heard.count(sidecar.NewsDisconnected) != 1 || heard.count(sidecar.NewsConnected) != 2 {
				t.Errorf("news: %+v", heard.all())
			}
		})
	})
	t.Run("not_one_whose_long_message_is_slow", func(t *testing.T) {
		slow := talker{then: func(ctx context.Context, c *websocket.Conn) {
			w, err := c.Writer(ctx, websocket.MessageText)
			if err != nil {
				return
			}
			for range 20 { // 40 s without a pong in between
				if _, err := w.Write([]byte(strings.Repeat(" ", 8<<10))); err != nil {
					return
				}
				pause(ctx, 2*time.Second)
			}
			if w.Close() != nil {
				return
			}
		}}
		watched(t, slow, comfy.Options{PingEvery: time.Second}, func(t *testing.T, _ *comfy.Executor, heard *news) {
			pause(t.Context(), time.Minute)
			if n := heard.count(sidecar.NewsDisconnected); n != 0 {
				t.Errorf("replaced %d times", n)
			}
		})
	})
}
