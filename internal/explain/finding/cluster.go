package finding

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cluster is the objects that were read. A kind that is no key of Objects could not be read, so
// nothing is said of what it may lack.
type Cluster struct {
	Now       time.Time
	Namespace string                     // the one that was read; empty: all
	Objects   map[string][]metav1.Object // by kind; typed as k8s.io/api has them
	Events    []corev1.Event             // warnings
	Others    []*corev1.Pod              // Pods of namespaces that were not read, as far as they are known
	Asked     map[Object]bool            // asked for by name, in namespaces that were not read
	Served    Served                     // what the API serves; nil: not read
	Unscoped  Served                     // those of them that are in no namespace
}

// Read reports whether a kind could be read.
func (c *Cluster) Read(kind string) bool { _, ok := c.Objects[kind]; return ok }

// knows reports whether an object would have been read if it were there.
func (c *Cluster) knows(o Object) bool {
	return c.Read(o.Kind) && (c.Namespace == "" || o.Namespace == "" || o.Namespace == c.Namespace || c.Asked[o])
}

// Unknown are the objects that an object names in namespaces that were not read.
func (c *Cluster) Unknown(self Object) []Object {
	o := c.Get(self)
	if o == nil {
		return nil
	}
	var out []Object
	for _, to := range append(c.namedServices(o, self), targetsOf(references(o))...) {
		if c.Read(to.Kind) && !c.knows(to) && c.Get(to) == nil && !slices.Contains(out, to) {
			out = append(out, to)
		}
	}
	return out
}

// targetsOf are the objects that references name.
func targetsOf(all []Reference) []Object {
	var out []Object
	for _, r := range all {
		out = append(out, r.To)
	}
	return out
}

// UnreadKinds are the kinds that an object, what it controls and what stands behind it name, and
// that were not read.
func (c *Cluster) UnreadKinds(self Object) []string {
	var out []string
	seen := map[Object]bool{}
	next := []Object{self}
	for len(next) > 0 && len(seen) < maxFollowed {
		at := next[0]
		o := c.Get(at)
		next, seen[at] = next[1:], true
		if o == nil {
			continue
		}
		for _, kind := range []string{"ReplicaSet", "Job", "Pod"} {
			for _, x := range owned[metav1.Object](c, kind, o) {
				next = append(next, objectOf(kind, x))
			}
		}
		for _, r := range references(o) {
			if !c.Read(r.To.Kind) && !slices.Contains(out, r.To.Kind) {
				out = append(out, r.To.Kind)
			}
			if followed[r.To.Kind] && !seen[r.To] {
				next = append(next, r.To)
			}
		}
	}
	return out
}

// outermost is the controller of an object's controller and so on, or the object.
func (c *Cluster) outermost(o metav1.Object, self Object) Object {
	for range 4 {
		r := metav1.GetControllerOf(o)
		if r == nil {
			break
		}
		self = Object{r.Kind, self.Namespace, r.Name}
		if o = c.Get(self); o == nil {
			break
		}
	}
	return self
}

// PodOwner is the outermost controller of a Pod as far as it was read, or the Pod.
func (c *Cluster) PodOwner(p metav1.Object) Object { return c.outermost(p, objectOf("Pod", p)) }

// Add adds objects of a kind; without objects the kind was read and there are none.
func (c *Cluster) Add(kind string, objects ...metav1.Object) {
	if c.Objects == nil {
		c.Objects = map[string][]metav1.Object{}
	}
	c.Objects[kind] = append(c.Objects[kind], objects...)
}

// Get returns an object, nil when it is not there.
func (c *Cluster) Get(o Object) metav1.Object {
	for _, x := range c.Objects[o.Kind] {
		if x.GetName() == o.Name && x.GetNamespace() == o.Namespace {
			return x
		}
	}
	return nil
}

// get returns an object of a type; ok is false when it is not there.
func get[T metav1.Object](c *Cluster, kind, namespace, name string) (x T, ok bool) {
	o := c.Get(Object{kind, namespace, name})
	if o == nil {
		return x, false
	}
	x, ok = o.(T)
	return x, ok
}

// list returns the objects of a kind and type.
func list[T metav1.Object](c *Cluster, kind string) []T {
	var out []T
	for _, o := range c.Objects[kind] {
		if x, ok := o.(T); ok {
			out = append(out, x)
		}
	}
	return out
}

// in returns those of a namespace.
func in[T metav1.Object](c *Cluster, kind, namespace string) []T {
	return slices.DeleteFunc(list[T](c, kind), func(x T) bool { return x.GetNamespace() != namespace })
}

// names returns the names of a kind in a namespace.
func (c *Cluster) names(kind, namespace string) []string {
	var out []string
	for _, o := range c.Objects[kind] {
		if o.GetNamespace() == namespace {
			out = append(out, o.GetName())
		}
	}
	slices.Sort(out)
	return out
}

// elsewhere returns the other namespaces that have an object of a kind and name.
func (c *Cluster) elsewhere(o Object) []string {
	var out []string
	for _, x := range c.Objects[o.Kind] {
		if x.GetName() == o.Name && x.GetNamespace() != o.Namespace {
			out = append(out, x.GetNamespace())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// objectOf names an object.
func objectOf(kind string, o metav1.Object) Object {
	return Object{kind, o.GetNamespace(), o.GetName()}
}

// owned returns the objects of a kind that an object controls.
func owned[T metav1.Object](c *Cluster, kind string, owner metav1.Object) []T {
	return slices.DeleteFunc(list[T](c, kind), func(x T) bool {
		r := metav1.GetControllerOf(x)
		return r == nil || r.UID != owner.GetUID()
	})
}

// podsOf returns the Pods of an object: its own, or those of what it controls.
func (c *Cluster) podsOf(o metav1.Object) []*corev1.Pod {
	out := owned[*corev1.Pod](c, "Pod", o)
	for _, kind := range []string{"ReplicaSet", "Job"} {
		for _, x := range owned[metav1.Object](c, kind, o) {
			out = append(out, owned[*corev1.Pod](c, "Pod", x)...)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out
}
