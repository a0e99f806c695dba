package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// machine is where and when the figures were measured.
type machine struct {
	CPU   string    `json:"cpu"`
	Cores int       `json:"cores"`
	OS    string    `json:"os"`
	Go    string    `json:"go"`
	Date  time.Time `json:"date"`
	Load  string    `json:"load,omitempty"` // over the last minute, before the run
}

func thisMachine(now time.Time) machine {
	m := machine{CPU: "unknown processor", Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Date: now.UTC().Truncate(time.Second)}
	if name := procField("/proc/cpuinfo", "model name"); name != "" {
		m.CPU = name
	}
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(data), " ")
	}
	return m
}

func (m machine) String() string {
	text := fmt.Sprintf("%s, %d cores, %s, %s, %s", m.CPU, m.Cores, m.OS, m.Go, m.Date.Format(time.RFC3339))
	if m.Load != "" {
		text += ", load before " + m.Load
	}
	return text
}

// procField reads one "name: value" line of a /proc file; it is empty where
// there is no such file or line.
func procField(path, name string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if key, text, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(text)
		}
	}
	return ""
}
