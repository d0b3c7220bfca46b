package cri_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/cri/crifake"
)

// With FailFast, Dial returns at once if nothing listens; the image service counts as well.
func TestFailFastDoesNotWaitForARuntime(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := crifake.Start(crifake.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	none := filepath.Join(dir, "none.sock")
	for _, c := range []struct{ endpoint, images, want string }{
		{none, "", none + "\": there is no socket: is the container runtime running?"},
		{"unix://" + stale, "", "nobody listens on the socket"},
		{f.Endpoint(), none, none + "\": there is no socket"},
		{"", "", "is empty"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := cri.Dial(ctx, cri.Options{Endpoint: c.endpoint, ImageEndpoint: c.images, ConnectTimeout: time.Hour,
			FailFast: true})
		if err == nil || !strings.Contains(err.Error(), c.want) || ctx.Err() != nil {
			t.Errorf("%q, %q: %v, want %q at once", c.endpoint, c.images, err, c.want)
		}
		cancel()
	}
	k, err := cri.Dial(t.Context(), cri.Options{Endpoint: f.Endpoint(), FailFast: true})
	if err != nil {
		t.Fatal(err)
	}
	_ = k.Close()
}
