package app

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/options"
	"github.com/gantry-project/gantry/test/ports"
)

// Without --dashboard-port the page takes its last port again, and any when that is taken; a port
// that was asked for and is taken is an error with a remedy.
func TestPortOfTheDashboard(t *testing.T) {
	dir := t.TempDir()
	port, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	last := other.Addr().String()
	options.RecordPartAddress(dir, options.DashboardPart, last)
	d := &Dashboard{}
	l, err := d.listen(dir)
	if err != nil || l.Addr().String() == last {
		t.Fatalf("its last port is taken: got %v, %v", l, err)
	}
	_ = l.Close()
	d.port = other.Addr().(*net.TCPAddr).Port
	if l, err := d.listen(dir); err == nil || !strings.Contains(err.Error(), "dashboard:") {
		t.Errorf("a port that is taken got %v, %v", l, err)
	}
	_ = other.Close()
	d.port = 0
	if l, err = d.listen(dir); err != nil || l.Addr().String() != last {
		t.Errorf("its last port is free: got %v, %v, want %s", l, err, last)
	} else {
		_ = l.Close()
	}
	for _, port := range []int{-1, 65536} {
		if err := (&Dashboard{port: port}).Check(); err == nil {
			t.Errorf("port %d was accepted", port)
		}
	}
}

// Sessions outlive a restart because the key does; nobody else may read it.
func TestKeyOfSessions(t *testing.T) {
	dir := t.TempDir()
	first, _, err := dashboardSessions(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := dashboardSessions(dir)
	if err != nil || !bytes.Equal(first, again) {
		t.Errorf("the next start has another key: %v", err)
	}
	info, err := os.Stat(filepath.Join(dir, "dashboard.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file is %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "dashboard.key"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	mended, _, err := dashboardSessions(dir)
	if err != nil || bytes.Equal(mended, first) || len(mended) != len(first) {
		t.Errorf("a broken key got %d bytes, %v", len(mended), err)
	}
	// which sessions were ended is not known: all end, once
	if err := os.WriteFile(filepath.Join(dir, "dashboard-ended.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	other, _, err := dashboardSessions(dir)
	if err != nil || bytes.Equal(other, mended) {
		t.Errorf("the key stays though nobody knows which sessions were ended: %v", err)
	}
	if again, _, err := dashboardSessions(dir); err != nil || !bytes.Equal(other, again) {
		t.Errorf("the start after that has another key: %v", err)
	}
}
