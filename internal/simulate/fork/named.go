package fork

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/simulate/source"
)

// named are the objects that Pods and templates name and without which admission refuses Pods.
type named struct {
	accounts   map[string]*corev1.ServiceAccount // by namespace/name
	priorities map[string]*schedulingv1.PriorityClass
	runtimes   map[string]*nodev1.RuntimeClass
	unknown    map[string]bool // priorities of which no Pod tells the value
}

// namedByOthers returns ServiceAccounts, PriorityClasses and RuntimeClasses that the objects of a
// cluster name, of kinds of which none was read: who may not list a kind has a cluster without. The
// notes say which have values that nothing tells.
func namedByOthers(objects []runtime.Object) (missing []runtime.Object, notes []string) {
	n := named{map[string]*corev1.ServiceAccount{}, map[string]*schedulingv1.PriorityClass{},
		map[string]*nodev1.RuntimeClass{}, map[string]bool{}}
	read := map[string]bool{}
	for _, o := range objects {
		m, err := meta.Accessor(o)
		if err != nil || m.GetUID() == "" {
			continue
		}
		read[fmt.Sprintf("%T", o)] = true
		if p, ok := o.(*corev1.Pod); ok {
			n.add(p.Namespace, &p.Spec)
		} else if t := source.TemplateOf(o); t != nil {
			n.add(m.GetNamespace(), &t.Spec)
		}
	}
	if !read["*v1.ServiceAccount"] {
		for _, key := range slices.Sorted(maps.Keys(n.accounts)) {
			missing = append(missing, n.accounts[key])
		}
	}
	if !read["*v1.PriorityClass"] {
		for _, name := range slices.Sorted(maps.Keys(n.priorities)) {
			missing = append(missing, n.priorities[name])
		}
		if names := slices.Sorted(maps.Keys(n.unknown)); len(names) > 0 {
			notes = append(notes, "priority classes could not be read and no Pod tells their values, so 0 is taken: "+
				strings.Join(names, ", "))
		}
	}
	if !read["*v1.RuntimeClass"] {
		for _, name := range slices.Sorted(maps.Keys(n.runtimes)) {
			missing = append(missing, n.runtimes[name])
		}
	}
	return missing, notes
}

// add takes in what a Pod's spec or a template names. A Pod's spec tells the values; a template's
// has none.
func (n named) add(namespace string, spec *corev1.PodSpec) {
	if name := spec.ServiceAccountName; name != "" {
		n.accounts[namespace+"/"+name] = &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	if name := spec.PriorityClassName; name != "" && !strings.HasPrefix(name, "system-") {
		n.addPriority(name, spec)
	}
	if name := spec.RuntimeClassName; name != nil && *name != "" {
		r := n.runtimes[*name]
		if r == nil {
			r = &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: *name}, Handler: *name}
			n.runtimes[*name] = r
		}
		if spec.Overhead != nil {
			r.Overhead = &nodev1.Overhead{PodFixed: spec.Overhead.DeepCopy()}
		}
	}
}

func (n named) addPriority(name string, spec *corev1.PodSpec) {
	p := n.priorities[name]
	if p == nil {
		p = &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.priorities[name], n.unknown[name] = p, true
	}
	if spec.Priority != nil {
		p.Value, p.PreemptionPolicy = *spec.Priority, spec.PreemptionPolicy
		delete(n.unknown, name)
	}
}
