package podsource

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/test/wrappers"
)

func pod(name, uid string) *v1.Pod { return wrappers.MakePod().Name(name).UID(uid).Obj() }

type updateRecorder struct{ list []string }

func (s *updateRecorder) take(c PodUpdate) {
	s.list = append(s.list,
		strings.TrimSpace(fmt.Sprintf("%s %s/%s %s", c.Source, c.Pod.Name, c.Pod.UID,
			map[[2]bool]string{{true, false}: "gone", {true, true}: "forced"}[[2]bool{c.Removed, c.Forced}])))
}

func (s *updateRecorder) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := strings.Join(s.list, ", "); got != strings.Join(want, ", ") {
		t.Errorf("got %s, want %s", got, strings.Join(want, ", "))
	}
	s.list = nil
}

// row: KSL-17
// row: KSL-18
func TestMergeLetsTheStrongerSourceWin(t *testing.T) {
	var s updateRecorder
	m := NewPodConfig(s.take, API, File, HTTP)
	m.Put(API, pod("a", "1"))
	m.Put(File, pod("a", "1"))
	m.Put(API, pod("a", "1"))
	m.Remove(API, pod("a", "1"), false)
	m.Put(API, pod("b", "2"))
	s.expect(t, "api a/1", "file a/1", "api b/2")
	m.Put(API, pod("c", "3"))
	m.Put(HTTP, pod("c", "3"))
	m.Put(API, pod("c", "3"))
	m.Put(File, pod("c", "3"))
	m.Put(HTTP, pod("c", "3"))
	m.Put(File, pod("c", "3")) // what a source says again is newer than what it said
	s.expect(t, "api c/3", "http c/3", "file c/3", "file c/3")
	for _, source := range []string{API, HTTP} {
		m.Complete(source)
		select {
		case <-m.Synced():
			t.Fatal("synced before the files were read")
		default:
		}
	}
	m.Complete(File)
	<-m.Synced()
}

// An update names the source that spoke, whichever that is, and says whether the Pod is there,
// gone, or gone by force.
//
// row: KSL-20
func TestEachUpdateNamesItsSource(t *testing.T) {
	for _, source := range []string{API, File, HTTP} {
		var s updateRecorder
		m := NewPodConfig(s.take, API, File, HTTP)
		m.Put(source, pod("a", "1"))
		m.Put(source, pod("a", "1"))
		m.Remove(source, pod("a", "1"), false)
		m.Put(source, pod("a", "1"))
		m.Remove(source, pod("a", "1"), true)
		s.expect(t, source+" a/1", source+" a/1", source+" a/1 gone", source+" a/1", source+" a/1 forced")
	}
}

// row: KSL-11
// row: KSL-12
func TestReplaceRemovesMissingPods(t *testing.T) {
	var s updateRecorder
	st := &store{receiver: NewPodConfig(s.take, API), known: map[types.UID]*v1.Pod{}}
	if err := st.Replace([]any{pod("a", "1"), pod("b", "2")}, "5"); err != nil {
		t.Fatal(err)
	}
	s.expect(t, "api a/1", "api b/2")
	// While the watch was down, a was deleted and made again under another uid.
	if err := st.Replace([]any{pod("a", "3"), pod("b", "2")}, "9"); err != nil {
		t.Fatal(err)
	}
	s.expect(t, "api a/1 gone", "api a/3", "api b/2")
	zero := int64(0)
	forced := pod("b", "2")
	forced.DeletionGracePeriodSeconds = &zero
	if err := st.Delete(forced); err != nil {
		t.Fatal(err)
	}
	s.expect(t, "api b/2 forced")
	if err := st.Delete(pod("never", "9")); err != nil {
		t.Fatal(err)
	}
	s.expect(t)
}
