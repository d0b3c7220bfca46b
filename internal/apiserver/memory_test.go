package apiserver

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// heapInUse is how many bytes of the heap are in use.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// runPodLifecycles makes Pods that are bound, run and are removed, with the events that they bring.
func runPodLifecycles(t *testing.T, c kubernetes.Interface, ns, prefix string, n int) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(16)
	for i := range n {
		g.Go(func() error {
			name := fmt.Sprintf("%s-%05d", prefix, i)
			p := pod(name)
			p.Annotations = map[string]string{"filler": strings.Repeat("x", 2000)}
			ctx, pods := t.Context(), c.CoreV1().Pods(ns)
			if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
				return err
			}
			b := &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"},
			}
			if err := pods.Bind(ctx, b, metav1.CreateOptions{}); err != nil {
				return err
			}
			for _, phase := range []string{"Pending", "Running"} {
				patch := fmt.Appendf(nil, `{"status":{"phase":%q,"message":"m"}}`, phase)
				_, err := pods.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
				if err != nil {
					return err
				}
			}
			for _, reason := range []string{"Scheduled", "Pulled", "Created", "Started", "Killing"} {
				e := &corev1.Event{
					ObjectMeta: metav1.ObjectMeta{Name: name + "." + strings.ToLower(reason)},
					Reason:     reason, Message: strings.Repeat("y", 100),
					InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: name},
				}
				if _, err := c.CoreV1().Events(ns).Create(ctx, e, metav1.CreateOptions{}); err != nil {
					return err
				}
			}
			return pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// Pods that came and went leave nothing behind in memory but what young watchers may ask for: here
// a megabyte for a dozen Pods if it stayed.
func TestMemoryIsGivenBackAfterALoad(t *testing.T) {
	const many, bound = 300, 8 << 20
	s, c, _ := startServer(t, testConfig(t.TempDir()))
	ns := newNamespace(t, c)
	runPodLifecycles(t, c, ns, "first", 30)
	s.Store().TrimHistories(time.Now().Add(time.Hour))
	before := heapInUse()
	runPodLifecycles(t, c, ns, "then", many)
	loaded := heapInUse()
	s.Store().TrimHistories(time.Now().Add(time.Hour))
	after := heapInUse()
	t.Logf("%d Pods: %d KiB live before, %d right after, %d when history is old", many, before>>10, loaded>>10,
		after>>10)
	if after > before+bound {
		t.Errorf("%d KiB stay", (after-before)>>10)
	}
	if out := os.Getenv("GANTRY_TEST_HEAP"); out != "" { // for go tool pprof
		f, err := os.Create(out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := pprof.WriteHeapProfile(f); err != nil {
			t.Fatal(err)
		}
	}
}
