package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

func TestAccessFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) string {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for name, c := range map[string]struct {
		flags accessFlags
		text  string // of the file
		token string
		fault string
	}{
		"none":             {},
		"flag":             {flags: accessFlags{Token: "0123456789"}, token: "0123456789"},
		"file":             {flags: accessFlags{TokenFile: file}, text: "0123456789\n", token: "0123456789"},
		"both":             {flags: accessFlags{Token: "0123456789", TokenFile: file}, fault: "one of both"},
		"empty_file":       {flags: accessFlags{TokenFile: file}, text: " \n", fault: "is empty"},
		"no_file":          {flags: accessFlags{TokenFile: file + "x"}, fault: "--token-file"},
		"short":            {flags: accessFlags{Token: "0123"}, fault: "too short"},
		"proxy":            {flags: accessFlags{TrustedProxy: []string{"10.0.0.5", "fd00::/8", "192.168.1.7/16"}}},
		"proxy_of_no_name": {flags: accessFlags{TrustedProxy: []string{"proxy.example"}}, fault: "is no address"},
	} {
		t.Run(name, func(t *testing.T) {
			write(c.text)
			if got, _ := c.flags.token(); got != c.token {
				t.Errorf("token %q", got)
			}
			faults := strings.Join(c.flags.faults(), "\n")
			if c.fault == "" && faults != "" || !strings.Contains(faults, c.fault) {
				t.Errorf("faults %q", faults)
			}
		})
	}
}

// The token comes from a file, the launch secret from the environment.
func TestTokenAndLaunchSecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("0123456789\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(launchSecretEnv, "s3cret-of-the-launcher")
	_, comfy := startFake(t, comfyfake.Options{})
	env, err := layDemo(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, env.Dir, comfy, "--token-file", file)
	ask := func(headers ...string) int {
		req, err := http.NewRequestWithContext(t.Context(), "GET", p.url+"/runs", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	bearer := []string{"Authorization", "Bearer 0123456789"}
	if got := ask(); got != http.StatusUnauthorized {
		t.Errorf("without the token: %d", got)
	}
	if got := ask(bearer...); got != http.StatusOK {
		t.Errorf("with the token: %d", got)
	}
	for want, given := range map[int]string{exitFailed: "", exitOK: "0123456789"} {
		var out, problem strings.Builder
		if code := run(t.Context(), []string{"health", "--url", p.url, "--token", given}, &out, &problem); code != want {
			t.Errorf("health with the token %q: %d %s", given, code, problem.String())
		}
	}
	hop := append([]string{"X-Forwarded-Host", "studio.example"}, bearer...)
	if got := ask(append(hop, "X-Studio-Launch-Secret", "s3cret-of-the-launcher", "Origin", "http://studio.example")...); got != http.StatusOK {
		t.Errorf("through the launcher: %d", got)
	}
}

// TestHealthCommandTellsTheDoubt: what may be no ComfyUI is available, and said
// to be doubtful.
func TestHealthCommandTellsTheDoubt(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"ok":true,"environment":"demo","comfyui":{"available":true,"hint":"Look at the address."}}`)
	}))
	defer srv.Close()
	var out, problem strings.Builder
	if code := run(t.Context(), []string{"health", "--url", srv.URL}, &out, &problem); code != exitOK || !strings.Contains(out.String(), "comfyui available: Look at the address.") {
		t.Errorf("%d %s%s", code, out.String(), problem.String())
	}
}
