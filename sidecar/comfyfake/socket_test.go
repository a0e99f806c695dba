package comfyfake_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// silent says that nothing comes for a minute, and leaves the socket unusable.
func silent(g *rig, c *websocket.Conn) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	if _, data, err := c.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
		g.t.Errorf("a silent socket got %s (%v)", data, err)
	}
}

func TestSocket(t *testing.T) {
	t.Run("makes_up_an_id_that_works", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			c := g.dial("/ws")
			defer c.CloseNow()
			sid, _ := read(g.t, c).Data["sid"].(string)
			if len(sid) != 32 {
				g.t.Fatalf("sid %q", sid)
			}
			synctest.Wait() // it is not told of a node at work any more
			g.submit(idA, sid, saveGraph("x"))
			if got := types(until(g.t, c, "executing")); got != whole {
				g.t.Errorf("messages: %s", got)
			}
		})
	})
	t.Run("the_newest_of_an_id_gets_all_until_the_older_one_closes", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			older := g.dial("/ws?clientId=a")
			newer := g.dial("/ws?clientId=a")
			defer newer.CloseNow()
			read(g.t, newer)
			g.submit(idA, "a", saveGraph("x"))
			until(g.t, newer, "executing")
			older.CloseNow() // only its end matters
			synctest.Wait()
			g.submit(idB, "a", saveGraph("y"))
			silent(g, newer)
			if h := g.get("/history/" + idB); !strings.Contains(h.Body, "success") {
				g.t.Errorf("the run did not end: %s", h.Body)
			}
		})
	})
	t.Run("a_reconnect_hears_only_the_node_at_work", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.fake.Hold()
			g.submit(idA, "a", saveGraph("x"))
			synctest.Wait()
			own, other := g.dial("/ws?clientId=a"), g.dial("/ws?clientId=b")
			defer own.CloseNow()
			defer other.CloseNow()
			read(g.t, own)
			if d := cmp.Diff(map[string]any{"node": "1"}, read(g.t, own).Data); d != "" {
				g.t.Errorf("second message (-want +got):\n%s", d)
			}
			read(g.t, other)
			silent(g, other)
		})
	})
	t.Run("flags_count_only_in_the_first_object", func(t *testing.T) {
		const flags = `{"type":"feature_flags","data":{"supports_preview_metadata":true}}`
		for name, c := range map[string]struct {
			sent   []string
			answer bool
		}{
			"first":                {[]string{flags}, true},
			"after_broken_JSON":    {[]string{"{", flags}, true},
			"after_a_list":         {[]string{"[]", flags}, true},
			"after_another_object": {[]string{"{}", flags}, false},
		} {
			t.Run(name, func(t *testing.T) {
				within(t, comfyfake.Options{}, func(g *rig) {
					s := g.dial("/ws?clientId=a")
					defer s.CloseNow()
					read(g.t, s)
					for _, m := range c.sent {
						if err := s.Write(g.t.Context(), websocket.MessageText, []byte(m)); err != nil {
							g.t.Fatal(err)
						}
					}
					if !c.answer {
						silent(g, s)
						return
					}
					if e := read(g.t, s); e.Type != "feature_flags" || e.Data["max_upload_size"] != float64(100<<20) {
						g.t.Errorf("answer: %+v", e)
					}
				})
			})
		}
	})
	t.Run("without_a_client_progress_goes_to_everybody_and_the_rest_to_nobody", func(t *testing.T) {
		within(t, comfyfake.Options{StepDelay: time.Second}, func(g *rig) {
			c := g.dial("/ws?clientId=b")
			defer c.CloseNow()
			g.submit(idA, "", between(slow))
			pass(time.Minute)
			g.submit(idB, "b", saveGraph("end"))
			seen := map[string]bool{}
			for _, e := range until(g.t, c, "execution_start") {
				seen[e.Type] = true
			}
			want := map[string]bool{"status": true, "progress_state": true, "progress": true, "execution_start": true}
			if d := cmp.Diff(want, seen); d != "" {
				g.t.Errorf("kinds (-want +got):\n%s", d)
			}
		})
	})
}

func TestPreviews(t *testing.T) {
	for name, c := range map[string]struct {
		flags string
		want  string
	}{
		"with_metadata_before_progress":   {`{"type":"feature_flags","data":{"supports_preview_metadata":true}}`, "progress_state frame 4 progress"},
		"without_metadata_after_progress": {`{}`, "progress_state progress frame 1"},
	} {
		t.Run(name, func(t *testing.T) {
			within(t, comfyfake.Options{Previews: true, StepDelay: time.Second}, func(g *rig) {
				s := g.dial("/ws?clientId=a")
				defer s.CloseNow()
				if err := s.Write(g.t.Context(), websocket.MessageText, []byte(c.flags)); err != nil {
					g.t.Fatal(err)
				}
				synctest.Wait()
				g.submit(idA, "a", between(slow))
				got := types(until(g.t, s, "executing"))
				if n := strings.Count(got, c.want); n != 4 {
					g.t.Errorf("%d of 4 steps in order: %s", n, got)
				}
			})
		})
	}
	t.Run("only_the_newer_generation_lets_a_prompt_ask", func(t *testing.T) {
		for gen, want := range map[comfyfake.Generation]int{comfyfake.V0_3_64: 0, comfyfake.V0_33_0: 4} {
			within(t, comfyfake.Options{Generation: gen}, func(g *rig) {
				s := g.dial("/ws?clientId=a")
				defer s.CloseNow()
				post := strings.TrimSuffix(body(idA, "a", between(slow)), "}") + `,"extra_data":{"preview_method":"latent2rgb"}}`
				if a := g.post("/prompt", post); a.Status != http.StatusOK {
					g.t.Fatal(a)
				}
				if n := strings.Count(types(until(g.t, s, "executing")), "frame 1"); n != want {
					g.t.Errorf("%s: %d frames, want %d", gen, n, want)
				}
			})
		}
	})
}

func TestSocketFaults(t *testing.T) {
	t.Run("mute_accepts_and_sends_nothing", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			release := g.fake.Fault(comfyfake.Fault{Kind: comfyfake.MuteSocket, Route: "/ws"})
			c := g.dial("/ws?clientId=a")
			defer c.CloseNow()
			release()
			g.submit(idA, "a", saveGraph("x"))
			silent(g, c)
		})
	})
	t.Run("duplicates", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.fake.Fault(comfyfake.Fault{Kind: comfyfake.DuplicateMessages})
			c := g.dial("/ws?clientId=a")
			defer c.CloseNow()
			g.submit(idA, "a", saveGraph("x"))
			if got := types(until(g.t, c, "execution_cached")); !strings.HasSuffix(got, "execution_start execution_start execution_cached") {
				g.t.Errorf("messages: %s", got)
			}
		})
	})
	t.Run("reorders_neighbours", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.fake.Fault(comfyfake.Fault{Kind: comfyfake.ReorderMessages})
			c := g.dial("/ws?clientId=a")
			defer c.CloseNow()
			g.submit(idA, "a", saveGraph("x"))
			if got := types(until(g.t, c, "execution_start")); !strings.HasSuffix(got, "execution_cached execution_start") {
				g.t.Errorf("messages: %s", got)
			}
		})
	})
	t.Run("drop_ends_sockets_and_leaves_runs", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			c := g.dial("/ws?clientId=a")
			read(g.t, c)
			g.fake.DropSockets()
			if n := g.fake.Sockets(); n != 0 {
				g.t.Errorf("%d sockets open", n)
			}
			if _, _, err := c.Read(g.t.Context()); err == nil || websocket.CloseStatus(err) != -1 {
				g.t.Errorf("read: %v, want an end without a close frame", err)
			}
		})
	})
}

// TestDropInHandshake ends sockets at whatever point they are: none of those
// that stood then may go on.
func TestDropInHandshake(t *testing.T) {
	l, dial := comfyfake.Pipe()
	fake := comfyfake.New(comfyfake.Options{})
	served := make(chan error, 1)
	go func() { served <- fake.Serve(l) }()
	tr := &http.Transport{DialContext: dial}
	defer func() {
		tr.CloseIdleConnections()
		if err := errors.Join(fake.Close(), <-served); err != nil {
			t.Error(err)
		}
	}()
	for round := range 200 {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c, _, err := websocket.Dial(ctx, "ws://fake:8188/ws", &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}})
			for err == nil {
				_, _, err = c.Read(ctx)
			}
		}()
		for fake.Sockets() == 0 && ctx.Err() == nil {
			runtime.Gosched()
		}
		for range round % 20 {
			runtime.Gosched()
		}
		fake.DropSockets()
		<-ended
		if ctx.Err() != nil {
			t.Fatalf("round %d: a socket goes on", round)
		}
		stop()
	}
}

func TestFrameText(t *testing.T) {
	within(t, comfyfake.Options{}, func(g *rig) {
		c := g.dial("/ws?clientId=a")
		defer c.CloseNow()
		g.submit(idA, "a", `{"1":{"class_type":"EmptyImage","inputs":{"width":64,"height":48,"batch_size":2,"color":1}},"2":{"class_type":"GetImageSize","inputs":{"image":["1",0]}},"3":{"class_type":"PreviewAny","inputs":{"source":["2",0]}}}`)
		for _, e := range until(g.t, c, "executed") {
			if e.Type == "frame 3" && string(e.Raw[4:9]) != "\x00\x00\x00\x012" {
				g.t.Errorf("frame: %q", e.Raw)
			}
			if e.Type == "executed" {
				text, err := json.Marshal(e.Data["output"])
				if err != nil || string(text) != `{"text":["64"]}` {
					g.t.Errorf("output: %s %v", text, err)
				}
			}
		}
	})
}
