package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// put writes objects until one is refused or count were acknowledged, and returns what was.
func put(ctx context.Context, c kubernetes.Interface, from, count int) (acked []string, err error) {
	for i := from; i < from+count; i++ {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%05d", i)},
			Data: map[string]string{"x": strings.Repeat("x", 64<<10)}}
		if _, err := c.CoreV1().ConfigMaps(space).Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return acked, err
		}
		acked = append(acked, o.Name)
	}
	return acked, nil
}

func expectAcknowledged(t *testing.T, c kubernetes.Interface, acked []string) {
	t.Helper()
	for _, name := range acked {
		if _, err := c.CoreV1().ConfigMaps(space).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Errorf("%s was acknowledged: %v, want no error", name, err)
		}
	}
}

// waitExit waits for the process to end by itself and returns what it printed.
func (s *server) waitExit() string {
	s.t.Helper()
	p := s.proc
	select {
	case <-p.Exited():
	case <-time.After(patient):
		s.t.Fatalf("the server goes on:\n%s", p.Report())
	}
	s.proc = nil
	log, _ := os.ReadFile(filepath.Join(s.dir, "gantry.log"))
	return p.Output() + string(log)
}

// A disk that fills up ends the server with the reason. With room again it starts, and all that was
// acknowledged is there.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small disk")
	}
	s := newServer(t)
	const small, large = "size=220m", "size=600m"
	if err := syscall.Mount("tmpfs", s.dir, "tmpfs", 0, small); err != nil {
		t.Skipf("cannot mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		s.kill()
		if err := syscall.Unmount(s.dir, 0); err != nil {
			t.Error(err)
		}
	})
	s.start()
	c := s.client(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	acked, err := put(ctx, c, 0, 20000)
	if err == nil {
		t.Fatal("the disk never was full")
	}
	if said := s.waitExit(); !strings.Contains(said, "no space left on device") ||
		!strings.Contains(said, "make room") {
		t.Errorf("after %d writes and %v the server said:\n%s", len(acked), err, said)
	}
	if err := syscall.Mount("tmpfs", s.dir, "tmpfs", syscall.MS_REMOUNT, large); err != nil {
		t.Fatal(err)
	}
	s.start()
	c = s.client(t.Context())
	if len(acked) == 0 {
		t.Error("nothing was ever written")
	}
	expectAcknowledged(t, c, acked)
	if more, err := put(t.Context(), c, 50000, 10); err != nil {
		t.Errorf("after %d writes with room: %v, want no error", len(more), err)
	}
}

// A database file with pages that something else wrote is refused by name, and left as it is.
func TestDamagedDatabase(t *testing.T) {
	s := newServer(t)
	t.Cleanup(s.kill)
	s.start()
	acked, err := put(t.Context(), s.client(t.Context()), 0, 50)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.proc.End(patient); err != nil {
		t.Fatal(err)
	}
	s.proc = nil
	db := filepath.Join(s.dir, "etcd", "member", "snap", "db")
	sound, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	bad := append([]byte(nil), sound...)
	for i := 2 * os.Getpagesize(); i < len(bad); i++ { // all but the two pages that say where the rest is
		bad[i] = 0xa5
	}
	if err := os.WriteFile(db, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	if said := s.waitExit(); !strings.Contains(said, "is damaged") || !strings.Contains(said,
		"restore it from a snapshot") || strings.Contains(said, "goroutine ") {
		t.Errorf("the server said:\n%s", said)
	}
	if now, err := os.ReadFile(db); err != nil || string(now) != string(bad) {
		t.Errorf("the damaged file was changed: %v", err)
	}
	if err := os.WriteFile(db, sound, 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	expectAcknowledged(t, s.client(t.Context()), acked)
}
