package orphanedobjects

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ObjectRef is where an object is served.
type ObjectRef struct {
	Resource        schema.GroupVersionResource
	Namespace, Name string
}

// Listing is what etcd holds at one revision.
type Listing struct {
	Namespaces map[string]bool
	Objects    []ObjectRef // of namespaced resources
}

// protectedNamespaces are the namespaces that every cluster has and nobody may delete.
var protectedNamespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

// FindOrphans names the objects whose namespace does not exist, by namespace, resource and name. An
// error says why the namespaces that were seen cannot be all there are: then nothing is an orphan.
func FindOrphans(s Listing) ([]ObjectRef, error) {
	for _, name := range protectedNamespaces {
		if !s.Namespaces[name] {
			return nil, fmt.Errorf("namespace %s is not among the %d stored ones, though every cluster has it: the "+
				"list is not complete", name, len(s.Namespaces))
		}
	}
	var out []ObjectRef
	for _, o := range s.Objects {
		if o.Namespace != "" && !s.Namespaces[o.Namespace] {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b ObjectRef) int {
		return cmp.Or(
			strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Resource.GroupResource().String(), b.Resource.GroupResource().String()),
			strings.Compare(a.Name, b.Name),
		)
	})
	return out, nil
}

// errKey is a key that does not look like those of namespaced objects.
var errKey = errors.New("no namespace and name")

// SplitKey takes the part of a key after the resource's prefix apart.
func SplitKey(rest string) (namespace, name string, err error) {
	namespace, name, ok := strings.Cut(rest, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", errKey
	}
	return namespace, name, nil
}

// Outcome is what became of an orphan.
type Outcome string

// Outcomes.
const (
	Removed     Outcome = "removed" // it is gone
	Terminating Outcome = "held"    // it is being deleted; finalizers or its grace period hold it
	Failed      Outcome = "failed"  // the deletion was refused
	Skipped     Outcome = "spared"  // its namespace exists now, or it is gone already
)

// Group is how many orphans of one resource in one namespace had the same outcome.
type Group struct {
	Namespace, Resource string
	Outcome             Outcome
	Count               int
	Reason              string // of the first one, for Terminating and Failed
}

// Report is what one audit found and did.
type Report struct{ Groups []Group }

// Add counts one orphan.
func (r *Report) Add(o ObjectRef, outcome Outcome, reason string) {
	resource := o.Resource.GroupResource().String()
	for i := range r.Groups {
		if g := &r.Groups[i]; g.Namespace == o.Namespace && g.Resource == resource && g.Outcome == outcome {
			g.Count++
			return
		}
	}
	r.Groups = append(r.Groups, Group{o.Namespace, resource, outcome, 1, reason})
}

// HasRemaining says that orphans are still there.
func (r *Report) HasRemaining() bool {
	return slices.ContainsFunc(r.Groups, func(g Group) bool { return g.Outcome == Terminating || g.Outcome == Failed })
}
