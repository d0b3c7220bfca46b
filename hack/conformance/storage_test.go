package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Each test of the suite is in one part, unless a focus makes one part of all.
func TestEachTestOfStorageIsInOnePart(t *testing.T) {
	const driver = "External Storage [Driver: d] [Testpattern: Dynamic PV (default fs)] "
	for name, want := range map[string]string{
		driver + "provisioning should provision storage":                        "grow",
		driver + "snapshottable [Feature:VolumeSnapshotDataSource] can restore": "snapshots",
		driver + "subPath should support volumes":                               "sub-paths",
		driver + "volumes should store data":                                    "volumes",
		driver + "volumes should run [Disruptive]":                              "",
		"In-tree Volumes [Testpattern: x] volumes should store data":            "",
	} {
		got := ""
		for i, p := range storageParts {
			focus, skip := filters(i, "", "")
			if p.name != "serial" && regexp.MustCompile(focus).MatchString(name) &&
				!regexp.MustCompile(skip).MatchString(name) {
				got += p.name
			}
		}
		if got != want {
			t.Errorf("%s is in %q, want %q", name, got, want)
		}
	}
	focus, skip := filters(0, "store", "exec")
	if focus != "External.Storage.*(store)" || !strings.HasSuffix(skip, "|exec") {
		t.Errorf("with a focus: %q without %q", focus, skip)
	}
}

// What is run again takes the place of what it was; the page says what was not run.
func TestResultsOfStorageAreKept(t *testing.T) {
	r := &storageResults{file: filepath.Join(t.TempDir(), "r.json"), Selected: []string{"a", "b", "c"}}
	if err := r.read(); err != nil {
		t.Fatal(err)
	}
	r.add("one", []spec{{Name: "a", State: "failed", Reason: "no disk"}, {Name: "b", State: "skipped"}})
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	again := &storageResults{file: r.file}
	if err := again.read(); err != nil {
		t.Fatal(err)
	}
	a := about{Version: "v1.37.2", Date: time.Date(2026, 11, 24, 1, 0, 0, 0, time.UTC)}
	const missing = "Of the 3 tests that the definition selects 1 were not run"
	if got := storageText(a, again); !strings.Contains(got, missing) || !strings.Contains(got, "- `a (failed)`") {
		t.Errorf("the page lacks what was not run and what failed:\n%s", got)
	}
	again.add("two", []spec{{Name: "a", State: "passed"}, {Name: "c", State: "passed"}})
	got := storageText(a, again)
	if strings.Contains(got, "not run") || strings.Contains(got, "Did not pass") ||
		!strings.Contains(got, "at commit one, two,\non 2026-11-24") || !strings.Contains(got, "| all | 2 | 0 | 1 |") {
		t.Errorf("the page is not of the last results:\n%s", got)
	}
	got = countResults([]spec{{Name: "a", State: "failed", Reason: "no disk"}, {State: "passed"}})
	if !strings.Contains(got, "1 passed, 0 skipped, 1 failed") ||
		!strings.Contains(got, "failed: a\n          no disk") {
		t.Errorf("the words of a part are %q", got)
	}
}
