package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPicturesAreDrawn compares the pictures of docs/images with their texts.
func TestPicturesAreDrawn(t *testing.T) {
	texts, err := filepath.Glob("../../docs/images/*.txt")
	if err != nil || len(texts) == 0 {
		t.Fatalf("got texts %v and error %v, want texts", texts, err)
	}
	for _, path := range texts {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		picture := strings.TrimSuffix(path, ".txt") + ".svg"
		got, err := os.ReadFile(picture)
		if err != nil {
			t.Fatal(err)
		}
		if want := draw(strings.Split(strings.TrimRight(string(raw), "\n"), "\n")); string(got) != want {
			t.Errorf("got another picture in %s than its text gives: run `go run ./hack/picture` and commit it",
				picture)
		}
	}
}
