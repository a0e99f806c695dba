package comfy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// file answers /view with ten digits, as net/http serves files.
var file = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Etag", `"tag"`)
	w.Header().Set("Connection", "X-Private")
	w.Header().Set("X-Private", "1")
	w.Header().Set("Set-Cookie", "a=b")
	http.ServeContent(w, r, "r.txt", time.Unix(1e9, 0), strings.NewReader("0123456789"))
})

func fetch(t *testing.T, exec *comfy.Executor, q sidecar.FileQuery) (*sidecar.Content, string) {
	t.Helper()
	if q.Method == "" {
		q.Method = http.MethodGet
	}
	content, err := exec.Fetch(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(content.Body)
	if err = errors.Join(err, content.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return content, string(body)
}

func TestFetch(t *testing.T) {
	for _, c := range []struct {
		name, method string
		header       http.Header
		status       int
		body         string
		size         int64
	}{
		{"whole", "GET", nil, 200, "0123456789", 10},
		{"head", "HEAD", nil, 200, "", 10},
		{"range", "GET", http.Header{"Range": {"bytes=2-4"}}, 206, "234", 3},
		{"lower_case_name", "GET", http.Header{"range": {"bytes=2-4"}}, 206, "234", 3},
		{"beyond", "GET", http.Header{"Range": {"bytes=20-"}}, 416, "invalid range: failed to overlap\n", -2},
		{"if_range_stale", "GET", http.Header{"Range": {"bytes=2-4"}, "If-Range": {`"old"`}}, 200, "0123456789", 10},
		{"if_none_match", "GET", http.Header{"If-None-Match": {`"tag"`}}, 304, "", -2},
		{"if_modified_since", "GET", http.Header{"If-Modified-Since": {"Sun, 09 Sep 2001 01:46:40 GMT"}}, 304, "", -2},
		{"if_match", "GET", http.Header{"If-Match": {`"other"`}}, 412, "", -2},
		{"if_unmodified_since", "GET", http.Header{"If-Unmodified-Since": {"Sun, 09 Sep 1990 01:46:40 GMT"}}, 412, "", -2},
	} {
		t.Run(c.name, func(t *testing.T) {
			scripted(t, file, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
				content, body := fetch(t, exec, sidecar.FileQuery{Filename: "r.txt", Method: c.method, Header: c.header})
				if content.Status != c.status || body != c.body || c.size != -2 && content.Size != c.size {
					t.Errorf("%d %q, size %d", content.Status, body, content.Size)
				}
				header := http.Header(content.Header)
				for _, name := range []string{"Connection", "X-Private", "Set-Cookie"} {
					if header.Get(name) != "" {
						t.Errorf("%s came through", name)
					}
				}
				if c.status == 206 && header.Get("Content-Range") != "bytes 2-4/10" || c.status != 416 && header.Get("Etag") != `"tag"` {
					t.Errorf("headers: %v", header)
				}
			})
		})
	}
	t.Run("nothing_of_a_browser_is_passed_on", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			fetch(r.T, r.exec, sidecar.FileQuery{Filename: "ä b&c.png", Subfolder: "x/y", Type: "temp", Header: map[string][]string{
				"Origin": {"http://evil"}, "Referer": {"http://evil"}, "Cookie": {"a=b"}, "Sec-Fetch-Site": {"cross-site"},
				"Authorization": {"Bearer x"}, "Accept-Encoding": {"gzip"}, "Range": {"bytes=0-1"},
			}})
			req := r.requests(http.MethodGet, "/view")[0]
			want := http.Header{"Range": {"bytes=0-1"}, "User-Agent": {"studio-sidecar"}}
			if diff := cmp.Diff(want, req.Header); diff != "" {
				r.Error(diff)
			}
			if req.Query != "filename=%C3%A4+b%26c.png&subfolder=x%2Fy&type=temp" {
				r.Errorf("query: %s", req.Query)
			}
		})
	})
	t.Run("comfys_own_refusals_are_answers", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			for want, q := range map[int]sidecar.FileQuery{
				404: {Filename: "none.png"}, 400: {Filename: "../x"}, 403: {Filename: "x", Subfolder: "../.."},
			} {
				if content, _ := fetch(r.T, r.exec, q); content.Status != want {
					r.Errorf("%+v: %d, want %d", q, content.Status, want)
				}
			}
		})
	})
	t.Run("a_name_cannot_choose_another_folder", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			for _, name := range []string{"x.png [input]", "x.png[temp]", "x [output]"} {
				if content, _ := fetch(r.T, r.exec, sidecar.FileQuery{Filename: name}); content.Status != 404 {
					r.Errorf("%s: %d", name, content.Status)
				}
			}
			if n := len(r.fake.Requests()); n != 0 {
				r.Errorf("%d requests", n)
			}
		})
	})
	t.Run("what_is_not_about_the_file_is_refused", func(t *testing.T) {
		for _, status := range []int{302, 401, 500, 503} {
			scripted(t, answers(status, "text/plain", "away"), comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
				_, err := exec.Fetch(t.Context(), sidecar.FileQuery{Filename: "x", Method: "GET"})
				refused, ok := errors.AsType[*sidecar.RefusedError](err)
				if !ok || refused.Failure.Status != status || refused.Failure.Code != "comfyui_unavailable" || refused.Failure.URL != base+"/view" {
					t.Errorf("%d: %#v", status, err)
				}
			})
		}
	})
	t.Run("other_methods_are_not_sent", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			if _, err := r.exec.Fetch(r.Context(), sidecar.FileQuery{Filename: "x", Method: "POST"}); err == nil || len(r.fake.Requests()) != 0 {
				r.Error("it was sent")
			}
		})
	})
	t.Run("nobody_there", func(t *testing.T) {
		exec := comfy.New(comfy.Options{URL: "http://127.0.0.1:9"})
		defer exec.Close()
		_, err := exec.Fetch(t.Context(), sidecar.FileQuery{Filename: "x", Method: "GET"})
		if _, ok := errors.AsType[*sidecar.UnreachableError](err); !ok {
			t.Errorf("err = %#v", err)
		}
	})
}

// trickle sends a byte each second, then stops without an end.
func trickle(n int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flush := http.NewResponseController(w)
		for range n {
			if _, err := io.WriteString(w, "x"); err != nil || flush.Flush() != nil {
				return
			}
			pause(r.Context(), time.Second)
		}
		<-r.Context().Done()
	})
}

func TestFetchTakesItsTime(t *testing.T) {
	t.Run("as_long_as_bytes_move", func(t *testing.T) {
		scripted(t, trickle(300), comfy.Options{IdleTimeout: 10 * time.Second}, func(t *testing.T, exec *comfy.Executor) {
			content, err := exec.Fetch(t.Context(), sidecar.FileQuery{Filename: "x", Method: "GET"})
			if err != nil {
				t.Fatal(err)
			}
			defer content.Body.Close()
			began := time.Now()
			body, err := io.ReadAll(content.Body)
			// 300 s of bytes, then 10 s of nothing, less the last second's pause.
			if took := time.Since(began); len(body) != 300 || took < 308*time.Second || took > 311*time.Second {
				t.Errorf("%d bytes in %v", len(body), took)
			}
			var timeout interface{ Timeout() bool }
			if !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Errorf("err = %v", err)
			}
		})
	})
	t.Run("a_slow_reader_costs_no_time", func(t *testing.T) {
		scripted(t, file, comfy.Options{IdleTimeout: time.Second}, func(t *testing.T, exec *comfy.Executor) {
			content, err := exec.Fetch(t.Context(), sidecar.FileQuery{Filename: "x", Method: "GET"})
			if err != nil {
				t.Fatal(err)
			}
			defer content.Body.Close()
			pause(t.Context(), time.Hour)
			if body, err := io.ReadAll(content.Body); string(body) != "0123456789" || err != nil {
				t.Errorf("%q, %v", body, err)
			}
		})
	})
	t.Run("no_answer_at_all", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{IdleTimeout: 5 * time.Second}, func(r *rig) {
			defer r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Hang, Route: "/view"})()
			began := time.Now()
			_, err := r.exec.Fetch(r.Context(), sidecar.FileQuery{Filename: "x", Method: "GET"})
			away, ok := errors.AsType[*sidecar.UnreachableError](err)
			if !ok || away.Failure.Message != "ComfyUI did not answer in time." || time.Since(began) != 5*time.Second {
				r.Errorf("after %v: %#v", time.Since(began), err)
			}
		})
	})
	t.Run("closing_ends_the_transfer", func(t *testing.T) {
		gone := make(chan struct{})
		endless := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(gone)
			for {
				if _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err != nil {
					return
				}
			}
		})
		scripted(t, endless, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
			content, err := exec.Fetch(t.Context(), sidecar.FileQuery{Filename: "x", Method: "GET"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyN(io.Discard, content.Body, 1<<20); err != nil {
				t.Fatal(err)
			}
			content.Body.Close()
			<-gone
		})
	})
}

func TestHealth(t *testing.T) {
	t.Run("the_address_is_kept_without_a_slash_at_its_end", func(t *testing.T) {
		exec := comfy.New(comfy.Options{URL: "http://127.0.0.1:9/path/"})
		defer exec.Close()
		if got := exec.URL(); got != "http://127.0.0.1:9/path" {
			t.Error(got)
		}
	})
	t.Run("of_a_comfyui", func(t *testing.T) {
		for _, generation := range []comfyfake.Generation{comfyfake.V0_3_64, comfyfake.V0_33_0} {
			bubble(t, comfyfake.Options{Generation: generation}, comfy.Options{}, func(r *rig) {
				r.fake.Hold()
				r.submit(job(promptA, picture(1)))
				r.submit(job(promptB, picture(2)))
				r.await(job(promptA, picture(1)), sidecar.PlaceExecuting)
				synctest.Wait()                     // all that ComfyUI has to say of its queue is said
				for _, queue := range []int{0, 2} { // without the socket, then with it
					h, err := r.exec.Health(r.Context())
					if diff := cmp.Diff(sidecar.Health{Version: generation.String(), Queue: queue}, h); diff != "" || err != nil {
						r.Error(diff, err)
					}
					if r.news == nil {
						r.watch()
					}
				}
			})
		}
	})
	for name, c := range map[string]struct {
		handler http.Handler
		message string
		status  int
	}{
		"an_error":    {answers(500, "text/plain", "boom"), "ComfyUI is not well: boom", 500},
		"html_error":  {answers(503, "text/html", "<html>"), "ComfyUI is not well: <html>", 503},
		"broken_json": {answers(200, "application/json", "{"), "What answers at ComfyUI's address is not ComfyUI.", 200},
		"a_redirect":  {answers(302, "text/plain", ""), "ComfyUI is not well: ComfyUI returned HTTP 302", 302},
	} {
		t.Run(name, func(t *testing.T) {
			scripted(t, c.handler, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
				_, err := exec.Health(t.Context())
				refused, ok := errors.AsType[*sidecar.RefusedError](err)
				if !ok || refused.Failure.Message != c.message || refused.Failure.Status != c.status || refused.Failure.Code != "comfyui_unavailable" {
					t.Errorf("err = %#v", err)
				}
			})
		})
	}
	for name, handler := range map[string]http.Handler{
		"html_counts_with_a_doubt":          answers(200, "text/html", "<html>"),
		"a_text_counts_with_a_doubt":        answers(200, "text/plain", "{"),
		"a_list_counts_with_a_doubt":        answers(200, "application/json", "[]"),
		"null_counts_with_a_doubt":          answers(200, "application/json", "null"),
		"no_body_counts_with_a_doubt":       answers(204, "application/json", ""),
		"an_odd_object_counts_with_a_doubt": answers(200, "application/json", `{"system":5}`),
	} {
		t.Run(name, func(t *testing.T) {
			scripted(t, handler, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
				h, err := exec.Health(t.Context())
				if err != nil || h.Doubt == "" || h.Version != "" {
					t.Errorf("%+v, err = %v", h, err)
				}
			})
		})
	}
	t.Run("an_object_without_a_version_is_an_old_one", func(t *testing.T) {
		scripted(t, answers(200, "application/json", `{"exec_info":{"queue_remaining":"x"}}`), comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
			h, err := exec.Health(t.Context())
			if diff := cmp.Diff(sidecar.Health{}, h); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	})
	t.Run("gives_up_after_two_seconds", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			defer r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Hang, Route: "/system_stats"})()
			began := time.Now()
			_, err := r.exec.Health(r.Context())
			away, ok := errors.AsType[*sidecar.UnreachableError](err)
			if !ok || time.Since(began) != 2*time.Second || away.Failure.Message != "ComfyUI did not answer in time." {
				r.Errorf("after %v: %#v", time.Since(began), err)
			}
		})
	})
	t.Run("sentences_do_not_tell_the_address", func(t *testing.T) {
		for _, url := range []string{"http://127.0.0.1:9", "http://nowhere.invalid", "http://[::1", "ftp://127.0.0.1"} {
			exec := comfy.New(comfy.Options{URL: url})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := exec.Health(ctx)
			cancel()
			exec.Close()
			away, ok := errors.AsType[*sidecar.UnreachableError](err)
			if !ok {
				t.Fatalf("%s: %#v", url, err)
			}
			if text := fmt.Sprint(away.Failure.Message, away.Failure.Hint); strings.Contains(text, "nowhere") || strings.Contains(text, "127.") {
				t.Errorf("%s: %s", url, text)
			}
		}
	})
}
