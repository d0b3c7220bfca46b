package controllerrevision

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

var resourceName = schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}

// client is a client of these revisions whose requests of a verb fail as said.
func client(failing map[string]error, there ...runtime.Object) *fake.Clientset {
	c := fake.NewClientset(there...)
	for verb, err := range failing {
		c.PrependReactor(verb, "controllerrevisions", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, err
		})
	}
	return c
}

func verbs(c *fake.Clientset) string {
	var out []string
	for _, a := range c.Actions() {
		out = append(out, a.GetVerb())
	}
	return strings.Join(out, " ")
}

func TestEnsureWritesWhatIsMissing(t *testing.T) {
	one := find(t, owner("a:1")).Revision
	two := find(t, owner("a:2"), one).Revision
	foreign, free, other := one.DeepCopy(), one.DeepCopy(), one.DeepCopy()
	foreign.OwnerReferences[0].UID = "another"
	free.OwnerReferences = nil
	other.Data = two.Data
	down := errors.New("down")
	for _, c := range []struct {
		name    string
		have    []*appsv1.ControllerRevision // as the cache has them
		there   []runtime.Object
		failing map[string]error
		verbs   string
		number  int64
		err     error
	}{
		{name: "the first", verbs: "create", number: 1},
		{name: "known", have: []*appsv1.ControllerRevision{one}, there: []runtime.Object{one}, number: 1},
		{name: "going back", have: []*appsv1.ControllerRevision{one, two}, there: []runtime.Object{one, two},
			verbs: "update", number: 3},
		{name: "the cache is behind", there: []runtime.Object{one}, verbs: "create get", number: 1},
		{name: "another's", there: []runtime.Object{foreign}, verbs: "create get", err: Collision{one.Name}},
		{name: "nobody's", there: []runtime.Object{free}, verbs: "create get", err: Collision{one.Name}},
		{name: "other data", there: []runtime.Object{other}, verbs: "create get", err: Collision{one.Name}},
		{name: "not written", failing: map[string]error{"create": down}, verbs: "create", err: down},
		{name: "gone again", failing: map[string]error{"create": apierrors.NewAlreadyExists(resourceName, "x"),
			"get": down}, verbs: "create get", err: down},
	} {
		t.Run(c.name, func(t *testing.T) {
			api := client(c.failing, c.there...)
			got, err := Ensure(context.Background(), api.AppsV1().ControllerRevisions("ns"), owner("a:1"), c.have)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Fatalf("got error %v, want %v", err, c.err)
			}
			if said := verbs(api); said != c.verbs {
				t.Errorf("got requests %q, want %q", said, c.verbs)
			}
			if err == nil && (got == nil || got.Name != one.Name || got.Revision != c.number) {
				t.Errorf("got %+v, want %s with number %d", got, one.Name, c.number)
			}
		})
	}
}

func TestTruncateKeepsTenWithoutALimit(t *testing.T) {
	var all []*appsv1.ControllerRevision
	var there []runtime.Object
	for i := range 12 {
		r := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: string(rune('a' + i)), Namespace: "ns"},
			Revision: int64(i)}
		all, there = append(all, r), append(there, r)
	}
	down := errors.New("down")
	for _, c := range []struct {
		name    string
		limit   *int32
		failing map[string]error
		want    int
		err     error
	}{
		{"no limit", nil, nil, 2, nil},
		{"eleven", ptr.To[int32](11), nil, 1, nil},
		{"gone already", nil, map[string]error{"delete": apierrors.NewNotFound(resourceName, "a")}, 2, nil},
		{"refused", nil, map[string]error{"delete": down}, 1, down},
	} {
		t.Run(c.name, func(t *testing.T) {
			api := client(c.failing, there...)
			err := Truncate(context.Background(), api.AppsV1().ControllerRevisions("ns"),
				Retention{Revisions: slices.Clone(all), HistoryLimit: c.limit})
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || len(api.Actions()) != c.want {
				t.Errorf("got %d requests, error %v, want %d and %v", len(api.Actions()), err, c.want, c.err)
			}
		})
	}
}

func TestRevisionsOfOneNumberGoByAgeThenName(t *testing.T) {
	at := func(name string, number int64, minute int) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{Revision: number, ObjectMeta: metav1.ObjectMeta{Name: name,
			CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC))}}
	}
	all := []*appsv1.ControllerRevision{at("e", 3, 0), at("a", 1, 2), at("d", 1, 1), at("b", 1, 2), at("c", 2, 0)}
	Sort(all)
	got := ""
	for _, r := range all {
		got += r.Name
	}
	if got != "dabce" {
		t.Errorf("got %s, want dabce", got)
	}
}

// The stored patch is what kubectl rollout undo sends: it replaces the template as a whole. Names
// and data are those that upstream gives.
func TestStoredTemplate(t *testing.T) {
	r := find(t, owner("a:1")).Revision
	want := `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"a"}},` +
		`"spec":{"containers":[{"image":"a:1","name":"c","resources":{}}]}}}}`
	if got := string(r.Data.Raw); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := r.Name; got != "db-"+r.Labels[HashLabel] {
		t.Errorf("got %s, want db- and the hash", got)
	}
	if len(r.OwnerReferences) != 1 || r.OwnerReferences[0].UID != "u" || r.Namespace != "ns" {
		t.Errorf("got %+v, want it in ns and controlled by u", r.ObjectMeta)
	}
	once, twice := owner("a:1"), owner("a:1")
	once.Collisions, twice.Collisions = 1, 2
	if a, b := find(t, once).Revision.Name, find(t, twice).Revision.Name; a == b {
		t.Errorf("got %s after one collision and after two, want different names", a)
	}
	long := owner("a:1")
	long.Object.SetName(strings.Repeat("x", 250))
	if got := find(t, long).Revision.Name; !strings.HasPrefix(got, strings.Repeat("x", maxOwnerName)+"-") {
		t.Errorf("got %s, want %d letters of the owner's name and a dash", got, maxOwnerName)
	}
	named := owner("a:1")
	named.Label = "own"
	if got := find(t, named).Revision; got.Labels["own"] == "" || got.Labels[HashLabel] != "" {
		t.Errorf("got labels %v, want the hash under own alone", got.Labels)
	}
}

func TestSameComparesTemplates(t *testing.T) {
	with := func(raw string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(raw)}}
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":2}`, `{"b":2, "a":1}`, true}, {`{"a":1}`, `{"a":2}`, false}, {`{`, `{}`, false},
		{`{}`, `{`, false},
		{`{`, `{`, false},
	} {
		if got := Same(with(c.a), with(c.b)); got != c.want {
			t.Errorf("%s and %s: got %t, want %t", c.a, c.b, got, c.want)
		}
	}
	if _, err := Template(with("{")); err == nil {
		t.Error("got no error of a template that cannot be read")
	}
}
