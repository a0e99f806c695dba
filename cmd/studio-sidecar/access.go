package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/routes"
)

// launchSecretEnv holds the secret that a launcher's proxy brings with each
// request. There is no flag: other users of the machine can read those.
const launchSecretEnv = "STUDIO_SIDECAR_LAUNCH_SECRET"

// tokenLength is the fewest characters of a token: a shorter one is found by
// trying.
const tokenLength = 8

// accessFlags say who may come in, and through what.
type accessFlags struct {
	Token        string   `placeholder:"TOKEN" env:"STUDIO_SIDECAR_TOKEN" help:"Ask for this token; better in the variable or a file, where other users do not see it."`
	TokenFile    string   `name:"token-file" placeholder:"FILE" env:"STUDIO_SIDECAR_TOKEN_FILE" help:"Ask for the token in this file."`
	TrustedProxy []string `name:"trusted-proxy" placeholder:"ADDRESS" env:"STUDIO_SIDECAR_TRUSTED_PROXY" help:"Address or network of a proxy whose X-Forwarded headers count."`
}

func (f *accessFlags) faults() []string {
	var out []string
	if _, err := f.token(); err != nil {
		out = append(out, err.Error())
	}
	if _, err := f.proxies(); err != nil {
		out = append(out, err.Error())
	}
	return out
}

// token is what is asked for, "" for none.
func (f *accessFlags) token() (string, error) {
	token, from := f.Token, "--token (STUDIO_SIDECAR_TOKEN)"
	if f.TokenFile != "" {
		if token != "" {
			return "", fmt.Errorf("--token-file (STUDIO_SIDECAR_TOKEN_FILE): a token is given too; give one of both")
		}
		from = "--token-file (STUDIO_SIDECAR_TOKEN_FILE)"
		text, err := os.ReadFile(f.TokenFile)
		if err != nil {
			return "", fmt.Errorf("%s: %w", from, err)
		}
		if token = strings.TrimSpace(string(text)); token == "" {
			return "", fmt.Errorf("%s: %s is empty", from, f.TokenFile)
		}
	}
	if token != "" && len(token) < tokenLength {
		return "", fmt.Errorf("%s: the token is too short; use %d characters or more", from, tokenLength)
	}
	return token, nil
}

// proxies are the networks that are trusted; an address is one of its own.
func (f *accessFlags) proxies() ([]netip.Prefix, error) {
	out := make([]netip.Prefix, 0, len(f.TrustedProxy))
	for _, given := range f.TrustedProxy {
		prefix, err := netip.ParsePrefix(given)
		if addr, bad := netip.ParseAddr(given); bad == nil {
			prefix, err = addr.Prefix(addr.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("--trusted-proxy (STUDIO_SIDECAR_TRUSTED_PROXY): %q is no address; use one like 10.0.0.5 or 10.0.0.0/8", given)
		}
		out = append(out, prefix.Masked())
	}
	return out, nil
}

// tokenFlag lets a command into a sidecar that asks for a token.
type tokenFlag struct {
	Token string `placeholder:"TOKEN" env:"STUDIO_SIDECAR_TOKEN" help:"The sidecar's token; better in the variable."`
}

const tokenAdvice = "Give the right one with STUDIO_SIDECAR_TOKEN, or --token."

func (f *tokenFlag) show(req *http.Request) {
	if f.Token != "" {
		req.Header.Set("Authorization", "Bearer "+f.Token)
	}
}

// warnOfGuests tells when anybody who reaches the address may use the server.
func (c *serveCmd) warnOfGuests(log *slog.Logger) {
	asks, flag := c.Token != "" || c.TokenFile != "", "--token"
	if c.Role == routes.RoleProxy {
		asks, flag = c.ProxyToken != "", "--proxy-token"
	}
	if !asks && !isLoopback(c.Host) {
		log.Warn("anybody who reaches this address may use the server: it asks for no token", "host", c.Host, "set", flag)
	}
}
