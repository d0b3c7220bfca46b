package finding

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/workload"
)

// mostNear is how many near names are told of one that is not there.
const mostNear = 3

// Absent is the finding that an object which somebody asks about is not there, with what was
// probably meant: near names, other namespaces, other kinds, and the workload that makes objects of
// such names. toCome is the workload that has not made it yet; then the finding is a note.
func Absent(c *Cluster, o Object) (f Finding, toCome *Object) {
	f = Finding{Code: "NoSuchObject", Stage: StageReference, Object: o, Field: "metadata.name", Value: o.Name,
		Message: fmt.Sprintf("There is no %s %s%s.", o.Kind, o.Name, where(o))}
	ask := func(say string, x Object) {
		f.Related = append(f.Related, x)
		f.Remedies = append(f.Remedies, Remedy{Say: say, Run: []string{"gantry why " + x.String()}})
	}
	if c.noNamespace(o) {
		c.absentNamespace(&f, o, ask)
	}
	have := c.names(o.Kind, o.Namespace)
	for range mostNear {
		name, differs := Near(o.Name, have)
		if name == "" {
			break
		}
		if f.Want == "" {
			f.Want = name
		}
		f.Message += fmt.Sprintf(" There is a %s %s: perhaps that was meant; %s.", o.Kind, name, differs)
		ask("ask about "+name, Object{o.Kind, o.Namespace, name})
		have = slices.DeleteFunc(have, func(n string) bool { return n == name })
	}
	if others := c.elsewhere(o); len(others) > 0 {
		f.Message += fmt.Sprintf(" A %s of that name is in namespace %s.", o.Kind, joined(others))
		for _, ns := range others[:min(len(others), mostNear)] {
			ask("ask about that of namespace "+ns, Object{o.Kind, ns, o.Name})
		}
	}
	c.otherKinds(&f, o, ask)
	toCome = c.madeByAnother(&f, o, ask)
	if len(f.Remedies) == 0 {
		f.Remedies = []Remedy{{Say: "see what there is", Run: []string{listCommand(o)}}}
	}
	return f, toCome
}

// listCommand lists what there is of a kind.
func listCommand(o Object) string {
	if o.Namespace == "" {
		return "kubectl get " + o.lower()
	}
	return fmt.Sprintf("kubectl -n %s get %s", o.Namespace, o.lower())
}

// absentNamespace makes it a matter of the namespace, which is not there either.
func (c *Cluster) absentNamespace(f *Finding, o Object, ask func(string, Object)) {
	f.Field, f.Value = "metadata.namespace", o.Namespace
	f.Message += fmt.Sprintf(" There is no namespace %s either.", o.Namespace)
	near, how := Near(o.Namespace, c.names("Namespace", ""))
	if near == "" {
		return
	}
	f.Want = near
	f.Message += fmt.Sprintf(" There is %s: perhaps that was meant; %s.", near, how)
	ask("ask in namespace "+near, Object{o.Kind, near, o.Name})
}

// nameLikePods are kinds whose names are taken for those of their Pods.
var nameLikePods = []string{"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicaSet", "Service"}

// otherKinds names objects of other kinds that have the name; where there are none and nothing else
// is near, workloads and Services that nearly have it.
func (c *Cluster) otherKinds(f *Finding, o Object, ask func(string, Object)) {
	found := false
	for _, kind := range c.sortedKinds() {
		for _, x := range []Object{{kind, o.Namespace, o.Name}, {kind, "", o.Name}} {
			if kind == o.Kind || kind == "EndpointSlice" || c.Get(x) == nil || slices.Contains(f.Related, x) {
				continue
			}
			found = true
			f.Message += fmt.Sprintf(" There is a %s of that name.", kind)
			ask("ask about the "+kind, x)
		}
	}
	if found || f.Want != "" || !slices.Contains(append([]string{"Pod"}, nameLikePods...), o.Kind) {
		return
	}
	for _, kind := range nameLikePods {
		if name, how := Near(o.Name, c.names(kind, o.Namespace)); name != "" && !strings.HasPrefix(o.Name, name+"-") {
			f.Message += fmt.Sprintf(" There is a %s %s; %s.", kind, name, how)
			ask("ask about the "+kind, Object{kind, o.Namespace, name})
		}
	}
}

// makers are the ends that controllers append to their names for what they make.
var makers = []struct {
	of, by string
	end    *regexp.Regexp
}{
	{"Pod", "StatefulSet", regexp.MustCompile(`^\d+$`)},
	{"Pod", "Deployment", regexp.MustCompile(`^[a-z0-9]{6,10}-[a-z0-9]{5}$`)},
	{"Pod", "ReplicaSet", regexp.MustCompile(`^[a-z0-9]{5}$`)},
	{"Pod", "DaemonSet", regexp.MustCompile(`^[a-z0-9]{5}$`)},
	{"Pod", "CronJob", regexp.MustCompile(`^\d{6,}-(\d+-)?[a-z0-9]{5}$`)},
	{"Pod", "Job", regexp.MustCompile(`^(\d+-)?[a-z0-9]{5}$`)},
	{"Job", "CronJob", regexp.MustCompile(`^\d{6,}$`)},
	{"ReplicaSet", "Deployment", regexp.MustCompile(`^[a-z0-9]{6,10}$`)},
}

// madeByAnother names the workload that makes objects of such names, and what it has now. It is
// returned when the object is still to come: one of a StatefulSet's ordinals.
func (c *Cluster) madeByAnother(f *Finding, o Object, ask func(string, Object)) *Object {
	for _, m := range makers {
		if m.of != o.Kind {
			continue
		}
		for _, x := range in[metav1.Object](c, m.by, o.Namespace) {
			end, ok := strings.CutPrefix(o.Name, x.GetName()+"-")
			if !ok || !m.end.MatchString(end) || metav1.GetControllerOf(x) != nil {
				continue
			}
			at := objectOf(m.by, x)
			if s, ok := x.(*appsv1.StatefulSet); ok {
				return c.ordinal(f, s, end, ask)
			}
			f.Message += fmt.Sprintf(" %s %s makes such names, another for each; it has %s now.", at.Kind, at.Name,
				orNone(c.madeBy(x, o.Kind), "none"))
			ask("ask about what makes them", at)
			return nil
		}
	}
	return nil
}

// madeBy are the names of the objects of a kind that an object made, directly or not.
func (c *Cluster) madeBy(x metav1.Object, kind string) []string {
	var out []string
	if kind == "Pod" {
		for _, p := range c.podsOf(x) {
			out = append(out, p.Name)
		}
		return out
	}
	for _, y := range owned[metav1.Object](c, kind, x) {
		out = append(out, y.GetName())
	}
	slices.Sort(out)
	return out
}

// ordinal tells of a Pod of a StatefulSet: one of its ordinals is to come, another is not.
func (c *Cluster) ordinal(f *Finding, s *appsv1.StatefulSet, end string, ask func(string, Object)) *Object {
	at := objectOf("StatefulSet", s)
	first, want := firstOrdinal(s), workload.Replicas(s.Spec.Replicas)
	f.Numbers = map[string]string{"replicas": fmt.Sprint(want), "ordinal": end}
	ask("ask about its StatefulSet", at)
	n, err := strconv.ParseInt(end, 10, 32)
	if err == nil && int32(n) >= first && int32(n) < first+want {
		f.Severity, f.Want = Note, ""
		f.Message = fmt.Sprintf("There is no Pod %s%s yet: StatefulSet %s makes it, and has %s now.", f.Value,
			where(at), s.Name, orNone(c.madeBy(s, "Pod"), "none"))
		return &at
	}
	f.Message += fmt.Sprintf(" StatefulSet %s has %d replicas (spec.replicas): its Pods have the ordinals from %d to "+
		"%d.", s.Name, want, first, first+want-1)
	if want == 0 {
		f.Message += " It has none."
	}
	return nil
}

// Makers are the kinds that are read whole to say what makes, or is named like, an object of a kind
// that is not there.
func Makers(kind string) []string {
	if kind != "Pod" && !slices.Contains(nameLikePods, kind) {
		return nil
	}
	return append([]string{"Pod"}, nameLikePods...)
}
