package metriclist

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

const pagePath = "../../docs/user/metrics.md"

// TestMetricsPage compares docs/user/metrics.md with the lists and notes.
func TestMetricsPage(t *testing.T) {
	got, err := page()
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile(pagePath, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got other metrics than docs/user/metrics.md has: run `make stories` and commit what it writes")
	}
}

// TestTypesAreKnown checks that every family of the lists has a type, and that those with
// upstream's sources say what they mean.
func TestTypesAreKnown(t *testing.T) {
	for _, list := range []string{
		"apiserver", "controllers", "dns", "kubelet", "kubelet-cadvisor", "kubelet-resource", "network", "proxy",
		"scheduler",
	} {
		families, err := readList(listPath(list))
		if err != nil {
			t.Fatal(err)
		}
		if len(families) == 0 {
			t.Errorf("got no families of %s, want some", list)
		}
		for _, f := range families {
			if f.Type == "" || f.Type == "untyped" || strings.TrimSpace(f.Help) == "" {
				t.Errorf("%s of %s: got type %q and help %q, want both", f.Name, list, f.Type, f.Help)
			}
		}
	}
}
