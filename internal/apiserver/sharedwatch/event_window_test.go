package sharedwatch

import (
	"bytes"
	"io"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
)

// A window gives what was added from any place that it still keeps, keeps what somebody needs as
// long as it is not too much, and knows what it has forgotten.
func TestEventWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := eventWindow{lowRevision: 10, highRevision: 10}
		var all []uint64
		needed := 0
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			for range rapid.IntRange(0, 700).Draw(t, "added") {
				all = append(all, 11+uint64(len(all)))
				w.add(entry{revision: all[len(all)-1]})
			}
			needed = rapid.IntRange(needed, len(all)).Draw(t, "needed")
			w.trim(needed)
			if w.endIndex() != len(all) || len(w.entries) > maxWindowEvents+recentEvents ||
				(w.firstIndex > needed && len(w.entries) < maxWindowEvents) ||
				len(w.entries) < min(recentEvents, len(all)) {
				t.Fatalf("%d entries from %d to %d, though %d are needed and there are %d", len(w.entries),
					w.firstIndex, w.endIndex(), needed, len(all))
			}
			if want := 10 + uint64(w.firstIndex); w.lowRevision != want {
				t.Fatalf("knows what comes after %d, want %d", w.lowRevision, want)
			}
			place := rapid.IntRange(0, len(all)).Draw(t, "place")
			got, ok := w.eventsFrom(place, make([]entry, 0, 10))
			if ok != (place >= w.firstIndex) || ok && len(got) != min(10, len(all)-place) {
				t.Fatalf("from %d of %d to %d: %d entries, %t", place, w.firstIndex, len(all), len(got), ok)
			}
			for n, e := range got {
				if e.revision != all[place+n] {
					t.Fatalf("entry %d is %d, want %d", place+n, e.revision, all[place+n])
				}
			}
		}
	})
}

// Many encode an object at once; it happens once per format, to a copy.
func TestObjectIsEncodedOnce(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	o := newCachingObject(pod).(runtime.CacheableObject)
	if again := newCachingObject(o.(runtime.Object)); again != o.(runtime.Object) {
		t.Errorf("wrapped twice: got %v, want %v", again, o.(runtime.Object))
	}
	if m, err := meta.Accessor(o); err != nil || m.GetName() != "a" {
		t.Errorf("metadata: %v, %v", m, err)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	calls := map[string]int{}
	for n := range 20 {
		id := strconv.Itoa(n % 2)
		wg.Go(func() {
			var b bytes.Buffer
			if err := o.CacheEncode(runtime.Identifier(id), func(x runtime.Object, w io.Writer) error {
				mu.Lock()
				defer mu.Unlock()
				calls[id]++
				x.(*corev1.Pod).Name = "written into"
				_, err := io.WriteString(w, "format "+id)
				return err
			}, &b); err != nil || b.String() != "format "+id {
				t.Errorf("got %q, %v, want no error and b %v", b.String(), err, "format "+id)
			}
		})
	}
	wg.Wait()
	if calls["0"] != 1 || calls["1"] != 1 || pod.Name != "a" {
		t.Errorf("encoded %v, the object is now called %s", calls, pod.Name)
	}
}
