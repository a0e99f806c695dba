package comfy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

func TestWatch(t *testing.T) {
	for _, generation := range []comfyfake.Generation{comfyfake.V0_3_64, comfyfake.V0_33_0} {
		t.Run("tells_a_run_from_start_to_end_"+generation.String(), func(t *testing.T) {
			bubble(t, comfyfake.Options{Generation: generation}, comfy.Options{}, func(r *rig) {
				r.watch()
				j := job(promptA, picture(1))
				r.submit(j)
				r.await(j, sidecar.PlaceDone)
				synctest.Wait()
				want := "started progress node:1 node_done:1 progress node:2 node_done:2 ending"
				if diff := cmp.Diff(want, r.news.line(promptA)); diff != "" {
					r.Error(diff)
				}
				ground := sidecar.NodeRef{ID: "1", Class: "EmptyImage", Title: "Ground"}
				if diff := cmp.Diff(ground, r.news.of(sidecar.NewsNode)[0].Node); diff != "" {
					r.Error(diff)
				}
				progress := r.news.of(sidecar.NewsProgress)
				if last := progress[len(progress)-1].Progress; last.Node.ID != "2" || last.Done != 1 || last.Total != 2 || last.Max != 1 {
					r.Errorf("last progress: %+v", last)
				}
				queue := r.news.of(sidecar.NewsQueue)
				if len(queue) < 3 || queue[0].Remaining != 0 || queue[1].Remaining != 1 || queue[len(queue)-1].Remaining != 0 {
					r.Errorf("queue: %+v", queue)
				}
				for _, item := range r.news.all() {
					if item.Epoch != 1 {
						r.Errorf("epoch of %+v", item)
					}
				}
			})
		})
	}
	t.Run("tells_what_is_cached", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			r.watch()
			for _, p := range []sidecar.PromptID{promptA, promptB} {
				r.submit(job(p, picture(1)))
				r.await(job(p, picture(1)), sidecar.PlaceDone)
			}
			synctest.Wait()
			if diff := cmp.Diff("started cached:2 ending", r.news.line(promptB)); diff != "" {
				r.Error(diff)
			}
		})
	})
	t.Run("tells_steps_and_previews", func(t *testing.T) {
		bubble(t, comfyfake.Options{StepDelay: 10 * time.Millisecond, Previews: true}, comfy.Options{}, func(r *rig) {
			r.watch()
			j := job(promptA, slow(4))
			r.submit(j)
			r.await(j, sidecar.PlaceDone)
			synctest.Wait()
			var steps []string
			for _, item := range r.news.of(sidecar.NewsProgress) {
				if item.Progress.Node.Class == "TrialSlow" {
					steps = append(steps, fmt.Sprint(item.Progress.Value, "/", item.Progress.Max))
				}
			}
			if last := steps[len(steps)-1]; last != "4/4" {
				r.Errorf("steps: %v", steps)
			}
			previews := r.news.of(sidecar.NewsPreview)
			if len(previews) != 4 {
				r.Fatalf("%d previews", len(previews))
			}
			for _, p := range previews {
				if p.Prompt != promptA || p.Node.ID != "2" || p.Preview.Type != http.DetectContentType(p.Preview.Data) {
					r.Errorf("preview: %s %s %s", p.Prompt, p.Node.ID, p.Preview.Type)
				}
			}
		})
	})
	t.Run("tells_which_node_broke", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			r.watch()
			graph := `{"1":{"class_type":"EmptyImage","inputs":{"width":8,"height":8,"batch_size":1,"color":1}},` +
				`"5":{"class_type":"TrialError","inputs":{"image":["1",0],"message":"broke"}},` +
				`"2":{"class_type":"SaveImage","inputs":{"images":["5",0],"filename_prefix":"t"}}}`
			j := job(promptA, graph)
			r.submit(j)
			r.await(j, sidecar.PlaceFailed)
			synctest.Wait()
			done := r.news.of(sidecar.NewsNodeDone)
			want := sidecar.NodeRef{ID: "5", Class: "TrialError", Error: "broke\n"}
			if diff := cmp.Diff(want, done[len(done)-1].Node); diff != "" {
				r.Error(diff)
			}
			if line := r.news.line(promptA); !strings.HasSuffix(line, " ending") {
				r.Error(line)
			}
		})
	})
	t.Run("hears_nothing_of_prompts_of_others", func(t *testing.T) {
		bubble(t, comfyfake.Options{StepDelay: time.Millisecond, Previews: true}, comfy.Options{}, func(r *rig) {
			r.watch()
			// Without a client id much of a run is broadcast to every socket.
			body := `{"prompt":` + slow(4) + `}`
			resp, err := (&http.Client{Transport: &http.Transport{DialContext: r.dial, DisableKeepAlives: true}}).
				Post(base+"/prompt", "application/json", strings.NewReader(body))
			if err != nil {
				r.Fatal(err)
			}
			resp.Body.Close()
			r.pass(time.Second)
			for _, item := range r.news.all() {
				if item.Kind != sidecar.NewsConnected && item.Kind != sidecar.NewsQueue {
					r.Errorf("heard %+v", item)
				}
			}
			if n := r.news.count(sidecar.NewsQueue); n < 3 {
				r.Errorf("queue moved %d times", n)
			}
		})
	})
	t.Run("doubled_and_reordered_messages_do_no_harm", func(t *testing.T) {
		for _, kind := range []comfyfake.Kind{comfyfake.DuplicateMessages, comfyfake.ReorderMessages} {
			bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
				defer r.fake.Fault(comfyfake.Fault{Kind: kind})()
				r.watch()
				j := job(promptA, picture(1))
				r.submit(j)
				r.await(j, sidecar.PlaceDone)
			})
		}
	})
	t.Run("a_second_watch_is_refused", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			r.watch()
			if err := r.exec.Watch(r.Context(), func(sidecar.News) {}); err == nil {
				r.Error("no error")
			}
		})
	})
}

func TestWatchReconnects(t *testing.T) {
	t.Run("in_the_middle_of_a_run_with_a_fresh_id", func(t *testing.T) {
		bubble(t, comfyfake.Options{StepDelay: 100 * time.Millisecond}, comfy.Options{}, func(r *rig) {
			r.watch()
			j := job(promptA, slow(30))
			r.submit(j)
			r.await(j, sidecar.PlaceExecuting)
			r.fake.DropSockets()
			r.pass(time.Second)
			r.await(j, sidecar.PlaceDone)
			next := job(promptB, picture(1))
			r.submit(next)
			r.await(next, sidecar.PlaceDone)
			synctest.Wait()
			var kinds []string
			for _, item := range r.news.all() {
				if item.Kind == sidecar.NewsConnected || item.Kind == sidecar.NewsDisconnected {
					kinds = append(kinds, fmt.Sprint(item.Kind, item.Epoch))
				}
			}
			if diff := cmp.Diff([]string{"connected1", "disconnected1", "connected2"}, kinds); diff != "" {
				r.Error(diff)
			}
			sockets := r.requests(http.MethodGet, "/ws")
			if len(sockets) != 2 || sockets[0].Query == sockets[1].Query {
				r.Errorf("sockets: %d", len(sockets))
			}
			if line := r.news.line(promptB); !strings.HasSuffix(line, "node_done:2 ending") {
				r.Errorf("news after the reconnect: %s", line)
			}
		})
	})
	t.Run("to_a_new_process", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			r.watch()
			if err := r.fake.Restart(); err != nil {
				r.Fatal(err)
			}
			r.pass(time.Second)
			if n := r.news.count(sidecar.NewsConnected); n != 2 {
				r.Errorf("%d connects", n)
			}
		})
	})
	t.Run("ever_more_slowly_while_nobody_answers", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			defer r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Refuse, Route: "/ws"})()
			r.listen()
			r.pass(10 * time.Second)
			early := len(r.requests(http.MethodGet, "/ws"))
			r.pass(100 * time.Second)
			late := len(r.requests(http.MethodGet, "/ws")) - early
			if early < 6 || early > 15 || late < 19 || late > 41 {
				r.Errorf("%d attempts in 10 s, %d in 100 s after", early, late)
			}
		})
	})
	t.Run("when_a_mute_socket_says_nothing_at_all", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			release := r.fake.Fault(comfyfake.Fault{Kind: comfyfake.MuteSocket})
			r.listen()
			j := job(promptA, picture(1))
			r.submit(j)
			r.await(j, sidecar.PlaceDone) // looking alone finishes a run
			if r.news.count(sidecar.NewsConnected) != 0 {
				r.Error("a mute socket counts as connected")
			}
			release()
			r.pass(15 * time.Second)
			if r.news.count(sidecar.NewsConnected) != 1 {
				r.Error("the mute socket was not replaced")
			}
			if n := r.fake.Sockets(); n != 1 {
				r.Errorf("%d sockets", n)
			}
		})
	})
}
