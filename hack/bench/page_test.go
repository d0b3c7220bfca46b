package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A page keeps what was not measured again, and the scheduler's section stays the last.
func TestPageKeepsOtherSections(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	write := func(titles ...string) string {
		var p page
		for _, title := range titles {
			p.add(section{Title: title, How: "How of " + title + ".", Budget: "none", Head: []string{"a"}, Rows: [][]string{{"new"}}})
		}
		if err := p.write(file); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	headings := func(page string) string {
		var out []string
		for _, l := range strings.Split(page, "\n") {
			if h, ok := strings.CutPrefix(l, "## "); ok {
				out = append(out, h)
			}
		}
		return strings.Join(out, ", ")
	}
	if got := headings(write("Starting", "Writes")); got != "Starting, Writes" {
		t.Error(got)
	}
	old := introduction + "\n## Starting\n\nold start\n\n## Found\n\nby hand\n\n## Writes\n\nold writes\n\n## Scheduler\n\nfigures\n\n## After\n\nit\n"
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	got := write("Writes", "Names")
	if headings(got) != "Starting, Found, Writes, Names, Scheduler, After" {
		t.Error(headings(got))
	}
	for _, want := range []string{"old start\n\n## Found\n\nby hand\n\n## Writes\n\n| a |", "How of Names.\n\n## Scheduler\n\nfigures\n\n## After\n\nit\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "old writes") || write("Writes", "Names") != got {
		t.Errorf("written again it is\n%s", got)
	}
}
