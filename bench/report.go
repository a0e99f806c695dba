package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// report is what one run of the bench found.
type report struct {
	machine machine
	notes   []string // what a reader must know to judge the figures
	rows    []row
	took    time.Duration
}

// missed are the measures whose wanted value was not reached, and those that
// could not be made.
func (r report) missed() []string {
	var out []string
	for _, row := range r.rows {
		if row.err != nil || row.verdict() == missed {
			out = append(out, row.measure)
		}
	}
	return out
}

// write prints the report as people read it.
func (r report) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintln(&b, r.machine)
	for _, n := range r.notes {
		fmt.Fprintln(&b, n)
	}
	b.WriteByte('\n')
	b.WriteString(table(r.rows))
	fmt.Fprintf(&b, "\nTook %.0f s. Figures belong to this machine; quote the ratios.\n", r.took.Seconds())
	if m := r.missed(); len(m) > 0 {
		fmt.Fprintf(&b, "MISSED: %s\n", strings.Join(m, "; "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// table lays the rows out in columns: text to the left, numbers to the right.
func table(rows []row) string {
	lines := [][]string{{"measure", "unit", "sidecar", "reference", "raw", "of reference", "of raw", "wanted", ""}}
	for _, r := range rows {
		mark := map[verdict]string{met: "ok", missed: "MISSED", unknown: "?"}[r.verdict()]
		if r.err != nil {
			mark = "FAILED: " + firstLine(r.err.Error())
		}
		lines = append(lines, []string{r.measure, r.unit, figure(r.sidecar), figure(r.reference), figure(r.raw),
			times(r.overPeer()), times(r.overRaw()), r.goal.String(), mark})
	}
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, line := range lines {
		var out strings.Builder
		for i, cell := range line {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i >= 2 && i <= 6 {
				out.WriteString(gap + cell + "  ")
			} else {
				out.WriteString(cell + gap + "  ")
			}
		}
		b.WriteString(strings.TrimRight(out.String(), " ") + "\n")
	}
	return b.String()
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// rowJSON is a row as --json writes it; figures that were not measured are
// absent.
type rowJSON struct {
	Group       string   `json:"group"`
	Measure     string   `json:"measure"`
	Unit        string   `json:"unit"`
	Sidecar     *float64 `json:"sidecar,omitempty"`
	Reference   *float64 `json:"reference,omitempty"`
	Raw         *float64 `json:"raw,omitempty"`
	OfReference *float64 `json:"of_reference,omitempty"`
	OfRaw       *float64 `json:"of_raw,omitempty"`
	Wanted      string   `json:"wanted,omitempty"`
	Verdict     verdict  `json:"verdict,omitempty"`
	Error       string   `json:"error,omitempty"`
}

func (r row) json() rowJSON {
	out := rowJSON{Group: r.group, Measure: r.measure, Unit: r.unit, Sidecar: finite(r.sidecar), Reference: finite(r.reference),
		Raw: finite(r.raw), OfReference: finite(r.overPeer()), OfRaw: finite(r.overRaw()), Wanted: r.goal.String(), Verdict: r.verdict()}
	if r.err != nil {
		out.Error = r.err.Error()
	}
	return out
}

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// writeJSON writes the report to a file for programs.
func (r report) writeJSON(path string) error {
	out := struct {
		Machine machine   `json:"machine"`
		Notes   []string  `json:"notes"`
		Seconds float64   `json:"seconds"`
		Rows    []rowJSON `json:"rows"`
	}{r.machine, r.notes, r.took.Seconds(), nil}
	for _, row := range r.rows {
		out.Rows = append(out.Rows, row.json())
	}
	data, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
