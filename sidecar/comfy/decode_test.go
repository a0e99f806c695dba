package comfy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
)

func TestWatchDecodes(t *testing.T) {
	const a = `"prompt_id":"` + string(promptA) + `"`
	graph := `{"1":{"class_type":"One"},"4":{"class_type":"Four","_meta":{"title":"T"}},"7:2":{"class_type":"Inner"},"odd":5}`
	for name, c := range map[string]struct {
		say  []string
		want []sidecar.News
	}{
		"expanded_nodes_name_their_parent": {
			[]string{`{"type":"executing","data":{"node":"4.0.0.3","display_node":"4",` + a + `}}`},
			[]sidecar.News{{Kind: sidecar.NewsNode, Node: sidecar.NodeRef{ID: "4.0.0.3", Parent: "4"}}},
		},
		"nodes_of_a_subgraph_name_it": {
			[]string{`{"type":"executing","data":{"node":"7:2","display_node":"7:2",` + a + `}}`},
			[]sidecar.News{{Kind: sidecar.NewsNode, Node: sidecar.NodeRef{ID: "7:2", Class: "Inner", Parent: "7"}}},
		},
		"without_states_a_node_ends_where_the_next_begins": {
			[]string{`{"type":"executing","data":{"node":1,` + a + `}}`, `{"type":"executing","data":{"node":"4",` + a + `}}`},
			[]sidecar.News{
				{Kind: sidecar.NewsNode, Node: sidecar.NodeRef{ID: "1", Class: "One"}},
				{Kind: sidecar.NewsNodeDone, Node: sidecar.NodeRef{ID: "1", Class: "One"}},
				{Kind: sidecar.NewsNode, Node: sidecar.NodeRef{ID: "4", Class: "Four", Title: "T"}},
			},
		},
		"progress_without_a_node_is_of_the_latest": {
			[]string{`{"type":"executing","data":{"node":"4",` + a + `}}`, `{"type":"progress","data":{"value":0.05,"max":0.15,` + a + `}}`},
			[]sidecar.News{
				{Kind: sidecar.NewsNode, Node: sidecar.NodeRef{ID: "4", Class: "Four", Title: "T"}},
				{Kind: sidecar.NewsProgress, Progress: sidecar.Progress{Node: sidecar.NodeRef{ID: "4", Class: "Four", Title: "T"}, Value: .05, Max: .15, Total: 3}},
			},
		},
		"states_tell_once_what_finished": {
			[]string{
				`{"type":"progress_state","data":{` + a + `,"nodes":{"1":{"value":1,"max":1,"state":"finished"},"4.1":{"value":2.0,"max":9,"state":"running","display_node_id":"4","parent_node_id":"4"}}}}`,
				`{"type":"progress_state","data":{` + a + `,"nodes":{"1":{"value":1,"max":1,"state":"finished"},"x":7,"4":{"state":8}}}}`,
			},
			[]sidecar.News{
				{Kind: sidecar.NewsNodeDone, Node: sidecar.NodeRef{ID: "1", Class: "One"}},
				{Kind: sidecar.NewsProgress, Progress: sidecar.Progress{Node: sidecar.NodeRef{ID: "4.1", Parent: "4"}, Value: 2, Max: 9, Done: 1, Total: 3}},
			},
		},
		"of_several_running_nodes_the_latest_counts": {
			[]string{
				`{"type":"executing","data":{"node":"4",` + a + `}}`,
				`{"type":"progress_state","data":{` + a + `,"nodes":{"1":{"value":1,"max":5,"state":"running"},"4":{"value":3,"max":4,"state":"running"},"7:2":{"state":"running"}}}}`,
			},
			[]sidecar.News{
				{Kind: sidecar.NewsNode, Node: sidecar.NodeRef{ID: "4", Class: "Four", Title: "T"}},
				{Kind: sidecar.NewsProgress, Progress: sidecar.Progress{Node: sidecar.NodeRef{ID: "4", Class: "Four", Title: "T"}, Value: 3, Max: 4, Total: 3}},
			},
		},
		"numbers_that_are_none": {
			[]string{`{"type":"progress","data":{"value":NaN,"max":Infinity,"node":"1",` + a + `}}`},
			[]sidecar.News{{Kind: sidecar.NewsProgress, Progress: sidecar.Progress{Node: sidecar.NodeRef{ID: "1", Class: "One"}, Total: 3}}},
		},
		"a_blocked_branch_is_no_ending": {
			[]string{`{"type":"execution_error","data":{"node_id":"4","exception_type":"ExecutionBlocked","exception_message":"Execution Blocked: no",` + a + `}}`},
			[]sidecar.News{{Kind: sidecar.NewsNodeDone, Node: sidecar.NodeRef{ID: "4", Class: "Four", Title: "T", Error: "Execution Blocked: no"}}},
		},
		"each_kind_of_end": {
			[]string{
				`{"type":"execution_success","data":{` + a + `}}`, `{"type":"execution_interrupted","data":{` + a + `}}`,
				`{"type":"execution_error","data":{` + a + `}}`, `{"type":"executing","data":{"node":null,` + a + `}}`,
			},
			[]sidecar.News{{Kind: sidecar.NewsEnding}, {Kind: sidecar.NewsEnding}, {Kind: sidecar.NewsEnding}, {Kind: sidecar.NewsEnding}},
		},
		"what_makes_no_sense_is_passed_over": {
			[]string{
				`{`, `[]`, `null`, `"x"`, `{"type":7,"data":{}}`, `{"type":"executing"}`, `{"type":"executing","data":[]}`, `{"type":"executing","data":{"node":"4"}}`,
				`{"type":"executing","data":{"node":["4"],` + a + `}}`, `{"type":"executing","data":{"node":"4","prompt_id":"stranger"}}`,
				`{"type":"progress_state","data":{"nodes":[1],` + a + `}}`, `{"type":"execution_cached","data":{"nodes":{"a":1},` + a + `}}`,
				`{"type":"execution_cached","data":{"nodes":[null,[]],` + a + `}}`, `{"type":"status","data":{}}`, `{"type":"status","data":{"status":7}}`,
				`{"type":"assets.seed.started","data":{` + a + `}}`, `{"type":"execution_start","data":{"prompt_id":null}}`, `{"type":"executed","data":{` + a + `}}`,
				strings.Repeat("[", 20000),
			},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var f talker
			f.then = func(ctx context.Context, conn *websocket.Conn) {
				pause(ctx, time.Second)
				say(ctx, conn, c.say...)
			}
			watched(t, f, comfy.Options{}, func(t *testing.T, exec *comfy.Executor, heard *news) {
				if _, err := exec.Submit(t.Context(), job(promptA, graph)); err != nil {
					t.Fatal(err)
				}
				pause(t.Context(), 2*time.Second)
				var got []sidecar.News
				for _, item := range heard.all()[2:] { // connected, queue
					if item.Prompt != promptA || item.Epoch != 1 {
						t.Errorf("news: %+v", item)
					}
					item.Prompt, item.Epoch = "", 0
					got = append(got, item)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func TestWatchReadsFrames(t *testing.T) {
	const jpeg, png = "\xff\xd8\xffj", "\x89PNG\r\n\x1a\np"
	named := func(prompt, kind string) string {
		meta, err := json.Marshal(map[string]any{"prompt_id": prompt, "node_id": "4.1", "display_node_id": "4", "parent_node_id": nil, "image_type": kind})
		if err != nil {
			t.Fatal(err)
		}
		return string(meta)
	}
	ours, theirs, odd := named(string(promptA), "image/png"), named("stranger", "image/png"), named(string(promptA), "text/html")
	f := talker{then: func(ctx context.Context, c *websocket.Conn) {
		pause(ctx, time.Second)
		sayBinary(ctx, c, 1, 1, jpeg) // nobody executes: nobody's
		say(ctx, c, `{"type":"executing","data":{"node":"4","prompt_id":"`+string(promptA)+`"}}`)
		sayBinary(ctx, c, 1, 1, jpeg)
		sayBinary(ctx, c, 1, 2, png)
		sayBinary(ctx, c, 1, 3, jpeg)
		sayBinary(ctx, c, 1, 1)
		sayBinary(ctx, c, 3, 1, "4text")
		sayBinary(ctx, c, 4, len(ours), ours, png)
		sayBinary(ctx, c, 4, len(theirs), theirs, png)
		sayBinary(ctx, c, 4, len(odd), odd, png)
		sayBinary(ctx, c, 4, 1<<31, ours, png)
		sayBinary(ctx, c, 4, 3, "[1]", png)
		sayBinary(ctx, c, 4)
		sayBinary(ctx, c, "x")
		sayBinary(ctx, c)
		sayBinary(ctx, c, 1, 1, strings.Repeat("x", 30<<20))
		say(ctx, c, `{"type":"execution_success","data":{"x":"`+strings.Repeat("y", 1<<20)+`","prompt_id":"`+string(promptA)+`"}}`)
		sayBinary(ctx, c, 1, 1, jpeg) // after the end
	}}
	watched(t, f, comfy.Options{}, func(t *testing.T, exec *comfy.Executor, heard *news) {
		if _, err := exec.Submit(t.Context(), job(promptA, `{"4":{"class_type":"Four"}}`)); err != nil {
			t.Fatal(err)
		}
		pause(t.Context(), 20*time.Second)
		var got []string
		for _, item := range heard.of(sidecar.NewsPreview) {
			got = append(got, fmt.Sprintf("%s %s %s %d", item.Node.ID, item.Node.Parent, item.Preview.Type, len(item.Preview.Data)))
		}
		want := []string{"4  image/jpeg 4", "4  image/png 9", "4.1 4 image/png 9", fmt.Sprint("4  image/jpeg ", 30<<20)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if heard.count(sidecar.NewsEnding) != 1 || heard.count(sidecar.NewsConnected) != 1 {
			t.Errorf("endings: %d, connects: %d", heard.count(sidecar.NewsEnding), heard.count(sidecar.NewsConnected))
		}
	})
}
