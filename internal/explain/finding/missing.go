package finding

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// otherKinds are kinds that are taken for one another.
var otherKinds = map[string][]string{
	"ConfigMap": {"Secret", "PersistentVolumeClaim"}, "Secret": {"ConfigMap"}, "Role": {"ClusterRole"},
	"ClusterRole": {"Role"}, "Service": {"Deployment", "StatefulSet", "Ingress"}, "PriorityClass": {"RuntimeClass"},
	"RuntimeClass": {"PriorityClass"}, "StorageClass": {"PersistentVolume"},
	"Deployment":  {"StatefulSet", "DaemonSet", "ReplicaSet"},
	"StatefulSet": {"Deployment", "DaemonSet"}, "ResourceClaim": {"ResourceClaimTemplate"},
	"ResourceClaimTemplate": {"ResourceClaim"}, "PersistentVolumeClaim": {"PersistentVolume"},
}

// builtIn are objects that every API server has or that need no object.
func builtIn(o Object) bool {
	return o.Kind == "PriorityClass" && strings.HasPrefix(o.Name, "system-")
}

// missingReferences finds what an object names and that is not there, with what was probably meant.
func missingReferences(c *Cluster, o metav1.Object, self Object) []Finding {
	var out []Finding
	seen := map[string]bool{}
	refs := references(o)
	slices.SortStableFunc(refs, func(a, b Reference) int { return int(a.Stage) - int(b.Stage) })
	for _, r := range refs {
		if !c.knows(r.To) || r.Optional || builtIn(r.To) || r.To.Kind == "ServiceAccount" && c.noNamespace(r.To) &&
			strings.HasSuffix(self.Kind, "RoleBinding") {
			continue // of subjects in a namespace that is not there a rule of its own tells
		}
		if r.To.Kind == "StorageClass" && c.BoundByHand(o, r.To.Name) {
			continue
		}
		f, missing := c.missing(r, self)
		key := f.Object.String() + f.Field + f.Value
		if missing && !seen[key] {
			seen[key] = true
			out = append(out, f)
		}
	}
	return out
}

// BoundByHand reports whether a claim's class is only a name: the claim names a volume of it, or
// somebody, and no provisioner, made volumes of it. Such a class needs no StorageClass.
func (c *Cluster) BoundByHand(o metav1.Object, class string) bool {
	p, ok := o.(*corev1.PersistentVolumeClaim)
	if !ok || c == nil {
		return false
	}
	return slices.ContainsFunc(list[*corev1.PersistentVolume](c, "PersistentVolume"),
		func(v *corev1.PersistentVolume) bool {
			_, provisioned := v.Annotations["pv.kubernetes.io/provisioned-by"]
			return v.Spec.StorageClassName == class && (v.Name == p.Spec.VolumeName || !provisioned)
		})
}

// noNamespace reports whether the namespace of an object is not there.
func (c *Cluster) noNamespace(o Object) bool {
	return o.Namespace != "" && c.Read("Namespace") && c.Get(Object{Kind: "Namespace", Name: o.Namespace}) == nil
}

// missing reports whether what a reference names is not there, as a finding.
func (c *Cluster) missing(r Reference, self Object) (Finding, bool) {
	f := Finding{Code: "ReferenceMissing", Stage: r.Stage, Object: self, Field: r.Field, Value: r.To.Name,
		Related: []Object{r.To}}
	if r.Weak {
		f.Severity = Threat
	}
	target := c.Get(r.To)
	switch {
	case target == nil && r.To.Kind == "ServiceAccount" && c.isBootstrap(self):
		return f, false // Kubernetes makes such bindings for components that need not run as an account
	case target == nil:
		f.Message = fmt.Sprintf("%s %s names %s %s in %s, and there is no %s %s%s.", self.Kind, self.Name, r.To.Kind,
			r.To.Name, r.Field, r.To.Kind, r.To.Name, where(r.To))
		c.nearObject(&f, r)
		return f, true
	case r.Key != "":
		keys, known := keysOf(target)
		if !known || slices.Contains(keys, r.Key) {
			return f, false
		}
		f.Code, f.Value = "KeyMissing", r.Key
		f.Message = fmt.Sprintf("%s %s wants key %s of %s %s in %s, which has %s.", self.Kind, self.Name, r.Key,
			r.To.Kind, r.To.Name, r.Field, orNone(keys, "no keys"))
		c.nearKey(&f, r, keys)
		return f, true
	case wrongType(&f, r, target):
		return f, true
	case target.GetDeletionTimestamp() != nil && r.To.Kind == "PersistentVolumeClaim":
		f.Code = "ReferenceTerminating"
		f.Message = fmt.Sprintf("%s %s names %s %s in %s, which is being deleted.", self.Kind, self.Name, r.To.Kind,
			r.To.Name, r.Field)
		c.anotherClaim(&f, self, r)
		return f, true
	}
	return f, false
}

func where(o Object) string {
	if o.Namespace == "" {
		return ""
	}
	return " in namespace " + o.Namespace
}

func orNone(words []string, none string) string {
	if len(words) == 0 {
		return none
	}
	return joined(words)
}

// nearObject names what was probably meant: another name, another namespace, another kind.
func (c *Cluster) nearObject(f *Finding, r Reference) {
	have := slices.DeleteFunc(c.names(r.To.Kind, r.To.Namespace), func(name string) bool {
		return f.Object == Object{r.To.Kind, r.To.Namespace, name} // nobody means itself
	})
	if c.noNamespace(r.To) {
		f.Message += fmt.Sprintf(" There is no namespace %s either.", r.To.Namespace)
		if near, how := Near(r.To.Namespace, c.names("Namespace", "")); near != "" {
			f.Message += fmt.Sprintf(" There is %s: perhaps that was meant; %s.", near, how)
		}
	}
	if name, differs := Near(r.To.Name, have); name != "" {
		f.Want = name
		f.Near = true
		f.Message += fmt.Sprintf(" There is a %s %s: perhaps that was meant; %s.", r.To.Kind, name, differs)
		f.Related = append(f.Related, Object{r.To.Kind, r.To.Namespace, name})
	}
	if r.To.Namespace != "" {
		if others := c.elsewhere(r.To); len(others) > 0 {
			f.Message += fmt.Sprintf(" A %s of that name is in namespace %s: objects of another namespace cannot be "+
				"used.", r.To.Kind, joined(others))
			f.Related = append(f.Related, Object{r.To.Kind, others[0], r.To.Name})
			f.Remedies = append(f.Remedies, copyInto(r.To, others[0])...)
		}
	}
	for _, kind := range otherKinds[r.To.Kind] {
		for _, x := range c.Objects[kind] {
			if f.Object == objectOf(kind, x) {
				continue // nobody means itself
			}
			if x.GetName() == r.To.Name && (x.GetNamespace() == r.To.Namespace || x.GetNamespace() == "" ||
				r.To.Namespace == "") {
				f.Message += fmt.Sprintf(" There is a %s of that name: perhaps the other kind was meant.", kind)
				f.Related = append(f.Related, objectOf(kind, x))
				f.Remedies = append(f.Remedies, c.otherKind(f.Object, r, x, kind)...)
			}
		}
	}
	if f.Want == "" && len(have) > 0 && len(have) <= 5 {
		f.Message += fmt.Sprintf(" What there is: %s.", joined(have))
	}
	if f.Want != "" {
		f.Remedies = append(f.Remedies, Remedy{Say: fmt.Sprintf("name %s in %s of %s", f.Want, r.Field, f.Object),
			Run: c.claimedAnew(f.Object, c.replaceCommand(f.Object, nameField(r), f.Want))})
	}
	c.classInstead(f, r)
	c.onlyOne(f, r)
	f.Remedies = append(f.Remedies, createRemedy(r))
}

// pointer is the JSON pointer of a field's path: spec.volumes[0].name is /spec/volumes/0/name. What
// follows a NUL is the last part as it is, for keys with dots.
func pointer(field string) string {
	path, last, ok := strings.Cut(field, "\x00")
	path = "/" + strings.NewReplacer(".", "/", "[", "/", "]", "").Replace(path)
	if ok {
		path += "/" + last
	}
	return path
}

// objectFields are the fields in which references to objects end; the name or key is below them.
var objectFields = []string{"Ref", "subjects[0]", "subjects[1]", "subjects[2]", ".service"}

// replaceCommand is the command that sets a field of an object. None where the field cannot be
// changed or another object makes this one.
func (c *Cluster) replaceCommand(o Object, field, value string) []string {
	if x := c.Get(o); x == nil || metav1.GetControllerOf(x) != nil || fixed(o, x, field) {
		return nil
	}
	return c.setCommand(o, field, jsonText(value))
}

// jsonText is a text as JSON.
func jsonText(s string) string {
	return shellquote.JSON(s)
}

// setCommand is replaceCommand with a value in JSON.
func (c *Cluster) setCommand(o Object, field, raw string) []string {
	if strings.Contains(field, "[*]") {
		return nil
	}
	if o.Kind == "PersistentVolumeClaim" && strings.HasPrefix(field, "spec.dataSource") {
		return c.patchCommand(o, fmt.Sprintf(`[{"op":"replace","path":"/spec/dataSource/name","value":%s},`+
			`{"op":"replace","path":"/spec/dataSourceRef/name","value":%s}]`, raw, raw)) // they have to be the same
	}
	return c.patchCommand(o, fmt.Sprintf(`[{"op":"replace","path":%s,"value":%s}]`, jsonText(pointer(field)), raw))
}

// patchCommand is the command that changes an object by a JSON patch: what cannot be changed is
// made anew for it. None where another object makes this one, nor for a Pod that is ending: to make
// it anew would wait for its end.
func (c *Cluster) patchCommand(o Object, patch string) []string {
	x := c.Get(o)
	if x == nil || metav1.GetControllerOf(x) != nil || o.Kind == "Pod" && x.GetDeletionTimestamp() != nil &&
		len(x.GetFinalizers()) == 0 {
		return nil
	}
	patch = shellquote.Quoted(patch)
	if !requiresRecreate(o, x) {
		return c.withoutItsJobs(o, x, []string{kubectl(o, "patch", "--type=json -p "+patch)})
	}
	drop := ""
	if o.Kind == "Job" {
		drop = `kubectl patch --local -f - --type=merge -p '{"spec":{"selector":null,` +
			`"template":{"metadata":{"labels":` +
			`{"controller-uid":null,"batch.kubernetes.io/controller-uid":null}}}}}' -o json | `
	}
	return []string{kubectl(o, "get", "-o json") + " | " + drop + "kubectl patch --local -f - --type=json -p " + patch +
		" -o json | kubectl replace --force -f -"}
}

// nameField is the path of the name or key that a reference says.
func nameField(r Reference) string {
	for _, end := range objectFields {
		if strings.HasSuffix(r.Field, end) && r.Key != "" {
			return r.Field + ".key"
		} else if strings.HasSuffix(r.Field, end) {
			return r.Field + ".name"
		}
	}
	return r.Field
}

// kubectl is a command on an object.
func kubectl(o Object, verb, rest string) string {
	s := "kubectl "
	if o.Namespace != "" {
		s += "-n " + o.Namespace + " "
	}
	s += verb + " " + strings.ToLower(o.Kind) + " " + shellquote.Word(o.Name)
	if rest != "" {
		s += " " + rest
	}
	return s
}

// copyInto copies an object from another namespace.
func copyInto(o Object, from string) []Remedy {
	if o.Kind != "ConfigMap" && o.Kind != "Secret" {
		return nil
	}
	return []Remedy{{Say: fmt.Sprintf("copy %s %s from namespace %s", o.Kind, o.Name, from),
		Run: []string{fmt.Sprintf("kubectl -n %s get %s %s -o json | kubectl patch --local -f - --type=merge -p "+
			"%s -o json | kubectl create -f -", from, strings.ToLower(o.Kind), o.Name,
			shellquote.Quoted(fmt.Sprintf(`{"metadata":{"namespace":%s,"uid":null,"resourceVersion":null,`+
				`"creationTimestamp":null,"ownerReferences":null}}`, jsonText(o.Namespace))))}}}
}

// createRemedy is the creation of what is missing; a command where an empty object is of use.
func createRemedy(r Reference) Remedy {
	out := Remedy{Say: fmt.Sprintf("or create the %s %s%s", r.To.Kind, r.To.Name, where(r.To))}
	key := ""
	if r.Key != "" {
		key = " --from-literal=" + shellquote.Word(r.Key) + "=CHANGE-ME"
	}
	switch r.To.Kind {
	case "ServiceAccount":
		out.Run = []string{fmt.Sprintf("kubectl -n %s create serviceaccount %s", r.To.Namespace, r.To.Name)}
	case "ConfigMap":
		out.Run = []string{fmt.Sprintf("kubectl -n %s create configmap %s%s", r.To.Namespace, r.To.Name, key)}
	case "Secret":
		out.Run = []string{fmt.Sprintf("kubectl -n %s create secret generic %s%s", r.To.Namespace, r.To.Name, key)}
	}
	if len(out.Run) > 0 && r.To.Kind != "ServiceAccount" {
		out.Say += "; its content is yours to fill in"
	}
	return out
}

// keysOf returns the keys of a ConfigMap or Secret.
func keysOf(o metav1.Object) (keys []string, ok bool) {
	switch x := o.(type) {
	case *corev1.ConfigMap:
		keys = slices.Collect(maps.Keys(x.Data))
		keys = append(keys, slices.Collect(maps.Keys(x.BinaryData))...)
	case *corev1.Secret:
		keys = slices.Collect(maps.Keys(x.Data))
	default:
		return nil, false
	}
	slices.Sort(keys)
	return keys, true
}

// nearKey names the key that was probably meant: one of the object, or the same of another object.
func (c *Cluster) nearKey(f *Finding, r Reference, keys []string) {
	if key, differs := Near(r.Key, keys); key != "" {
		f.Want = key
		f.Message += fmt.Sprintf(" Perhaps %s was meant; %s.", key, differs)
		f.Remedies = append(f.Remedies, Remedy{Say: fmt.Sprintf("name key %s in %s of %s", key, r.Field,
			f.Object), Run: c.replaceCommand(f.Object, nameField(r), key)})
	}
	var same []string // names of objects of the same kind that have the key
	for _, kind := range []string{"ConfigMap", "Secret"} {
		for _, x := range c.Objects[kind] {
			have, _ := keysOf(x)
			if x.GetNamespace() == r.To.Namespace && slices.Contains(have, r.Key) {
				f.Message += fmt.Sprintf(" %s %s has a key %s.", kind, x.GetName(), r.Key)
				f.Related = append(f.Related, objectOf(kind, x))
				if kind == r.To.Kind {
					same = append(same, x.GetName())
				}
			}
		}
	}
	if name, ok := strings.CutSuffix(nameField(r), ".key"); ok && len(same) == 1 {
		f.Remedies = append(f.Remedies, Remedy{
			Say: fmt.Sprintf("or name %s %s, which has that key", r.To.Kind, same[0]),
			Run: c.replaceCommand(f.Object, name+".name", same[0])})
	}
	f.Remedies = append(f.Remedies, addKey(r)...)
}

// addKey puts a key that is missing into a ConfigMap or Secret.
func addKey(r Reference) []Remedy {
	say := fmt.Sprintf("or add key %s to %s %s", r.Key, r.To.Kind, r.To.Name)
	field := map[string]string{"ConfigMap": "data", "Secret": "stringData"}[r.To.Kind]
	if field == "" {
		return []Remedy{{Say: say}}
	}
	return []Remedy{{Say: say + "; the value is yours to fill in, CHANGE-ME stands for it",
		Run: []string{kubectl(r.To, "patch", "--type=merge -p "+shellquote.Quoted(fmt.Sprintf(`{%q:{%s:"CHANGE-ME"}}`,
			field, jsonText(r.Key))))}}}
}
