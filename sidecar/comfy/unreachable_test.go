package comfy_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

func TestSubmitUnreachable(t *testing.T) {
	for refusals, taken := range map[int]bool{1: true, 2: false} {
		t.Run(fmt.Sprintf("a_connection_that_breaks_%d_times_before_the_order", refusals), func(t *testing.T) {
			bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
				defer r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Refuse, Route: "/features", Times: refusals})()
				_, err := r.exec.Submit(r.Context(), job(promptA, picture(1)))
				_, away := errors.AsType[*sidecar.UnreachableError](err)
				if (err == nil) != taken || away == taken {
					r.Errorf("err = %#v", err)
				}
				if n := len(r.requests(http.MethodPost, "/prompt")); (n == 1) != taken {
					r.Errorf("%d submits", n)
				}
			})
		})
	}
	t.Run("what_is_no_comfyui_gets_no_order", func(t *testing.T) {
		ordered := 0
		scripted(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.Method == http.MethodPost {
				ordered++
			}
			answers(200, "text/html", "<html>").ServeHTTP(w, req)
		}), comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
			_, err := exec.Submit(t.Context(), job(promptA, picture(1)))
			away, ok := errors.AsType[*sidecar.UnreachableError](err)
			if !ok || away.Failure.Message != "What answers at ComfyUI's address is not ComfyUI." || ordered != 0 {
				t.Errorf("%d orders, err = %#v", ordered, err)
			}
		})
	})
	t.Run("nothing_listens", func(t *testing.T) {
		exec := comfy.New(comfy.Options{URL: "http://127.0.0.1:9"})
		defer exec.Close()
		_, err := exec.Submit(t.Context(), job(promptA, picture(1)))
		away, ok := errors.AsType[*sidecar.UnreachableError](err)
		if !ok {
			t.Fatalf("err = %#v", err)
		}
		want := sidecar.Failure{
			Code: "comfyui_unavailable", Message: "ComfyUI does not answer: nothing listens at its address.",
			Hint: "Start ComfyUI, or check its address.", URL: "http://127.0.0.1:9",
		}
		if diff := cmp.Diff(want, away.Failure); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("no_route_before_the_time_is_up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			exec := comfy.New(comfy.Options{URL: base, DialContext: stuck})
			defer exec.Close()
			_, err := exec.Submit(t.Context(), job(promptA, picture(1)))
			away, ok := errors.AsType[*sidecar.UnreachableError](err)
			if !ok || away.Failure.Message != "ComfyUI did not answer in time." {
				t.Errorf("err = %#v", err)
			}
		})
	})
	t.Run("a_forwarder_that_takes_connections_for_a_comfyui_that_is_away", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var forwarder errgroup.Group
		forwarder.Go(func() error {
			for {
				conn, err := l.Accept()
				if err != nil {
					return nil // closed below
				}
				if err := conn.Close(); err != nil {
					return err
				}
			}
		})
		exec := comfy.New(comfy.Options{URL: "http://" + l.Addr().String()})
		defer exec.Close()
		_, err = exec.Submit(t.Context(), job(promptA, picture(1)))
		if _, ok := errors.AsType[*sidecar.UnreachableError](err); !ok {
			t.Errorf("err = %#v: nothing was sent, so there is nothing to be unsure of", err)
		}
		if err := errors.Join(l.Close(), forwarder.Wait()); err != nil {
			t.Error(err)
		}
	})
	t.Run("an_address_that_is_none", func(t *testing.T) {
		exec := comfy.New(comfy.Options{URL: "http://[::1"})
		defer exec.Close()
		if _, err := exec.Submit(t.Context(), job(promptA, picture(1))); err == nil {
			t.Error("no error")
		}
	})
}

func TestConnectionsStayBounded(t *testing.T) {
	bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
		r.watch()
		const workers, each = 20, 50
		errs := make(chan error, workers)
		for w := range workers {
			go func() {
				var err error
				for i := range each {
					id := sidecar.PromptID(fmt.Sprintf("%08d-0000-4000-8000-%012d", w, i))
					_, submitErr := r.exec.Submit(r.Context(), job(id, picture(1)))
					ctx, cancel := context.WithCancel(r.Context())
					cancel() // a caller who leaves
					_, lookErr := r.exec.Look(ctx, job(id, picture(1)))
					if lookErr == nil {
						lookErr = errors.New("looked with a dead context")
					} else {
						lookErr = nil
					}
					err = errors.Join(err, submitErr, lookErr)
				}
				errs <- err
			}()
		}
		for range workers {
			if err := <-errs; err != nil {
				r.Error(err)
			}
		}
		if n := r.fake.Connections(); n > 12 {
			r.Errorf("%d connections after 1,000 submits", n)
		}
		if n := r.fake.Sockets(); n != 1 {
			r.Errorf("%d sockets", n)
		}
	})
}
