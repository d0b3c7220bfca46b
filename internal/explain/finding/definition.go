package finding

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// conditionsOf reads status.conditions of an object of any type.
func conditionsOf(u *unstructured.Unstructured) []map[string]any {
	list, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	if err != nil {
		return nil
	}
	var out []map[string]any
	for _, x := range list {
		if m, ok := x.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// wanted are the conditions of kinds without a Go type here, and the status that is well.
var wanted = map[string]map[string]string{
	"CustomResourceDefinition": {"NamesAccepted": "True", "Established": "True", "NonStructuralSchema": "False",
		"Terminating": "False"},
	"APIService": {"Available": "True"},
}

// wrongCondition finds a CustomResourceDefinition or APIService whose conditions say that it is not
// served.
func wrongCondition(c *Cluster, o metav1.Object, self Object) []Finding {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	var out []Finding
	for _, cond := range conditionsOf(u) {
		typ, status := fmt.Sprint(cond["type"]), fmt.Sprint(cond["status"])
		want, known := wanted[self.Kind][typ]
		if !known || status == want {
			continue
		}
		taken := c.takenNamesOf(u, self)
		if typ == "NamesAccepted" && len(taken) > 0 {
			out = append(out, taken...)
			continue
		}
		if typ == "Established" && len(taken) > 0 {
			continue // it follows
		}
		severity := Broken
		if typ == "Terminating" && o.GetDeletionTimestamp() != nil {
			severity = Threat // what holds it is told
		}
		out = append(out, Finding{Code: "ConditionWrong", Severity: severity, Stage: StageControl, Object: self,
			Field: "status.conditions", Value: typ + "=" + status, Want: typ + "=" + want,
			Message: fmt.Sprintf("%s %s is not served: %s is %s (%v): %v", self.Kind, self.Name, typ, status,
				cond["reason"], cond["message"])})
	}
	if len(conditionsOf(u)) == 0 && c.Now.Sub(u.GetCreationTimestamp().Time) > time.Minute {
		out = append(out, Finding{Code: "ControllersIdle", Stage: StageControl, Object: self,
			Field:   "status.conditions",
			Message: fmt.Sprintf("Nobody has looked at %s %s since it was created.", self.Kind, self.Name)})
	}
	return out
}

// definedNames are the names of a definition by their paths below spec.names. Those of resources
// and those of kinds are told apart: within each, names of a group may not be taken twice.
func definedNames(u *unstructured.Unstructured) (resources, kinds map[string]string) {
	resources, kinds = map[string]string{}, map[string]string{}
	for field, to := range map[string]map[string]string{"plural": resources, "singular": resources, "kind": kinds,
		"listKind": kinds} {
		if s, ok, err := unstructured.NestedString(u.Object, "spec", "names", field); ok && err == nil && s != "" {
			to[field] = s
		}
	}
	short, _, err := unstructured.NestedStringSlice(u.Object, "spec", "names", "shortNames")
	for i, s := range short {
		if err == nil {
			resources[fmt.Sprintf("shortNames[%d]", i)] = s
		}
	}
	return resources, kinds
}

// takenNamesOf finds names of a definition that another one of its group has.
func (c *Cluster) takenNamesOf(u *unstructured.Unstructured, self Object) []Finding {
	group := func(x *unstructured.Unstructured) string {
		s, _, _ := unstructured.NestedString(x.Object, "spec", "group") // empty where there is none
		return s
	}
	resources, kinds := definedNames(u)
	var out []Finding
	for _, x := range list[*unstructured.Unstructured](c, self.Kind) {
		if x.GetName() == u.GetName() || group(x) != group(u) {
			continue
		}
		theirs, theirKinds := definedNames(x)
		for _, pair := range [][2]map[string]string{{resources, theirs}, {kinds, theirKinds}} {
			for _, field := range slices.Sorted(maps.Keys(pair[0])) {
				for _, other := range slices.Sorted(maps.Keys(pair[1])) {
					if pair[0][field] != pair[1][other] {
						continue
					}
					out = append(out, Finding{Code: "NameTaken", Stage: StageControl, Object: self,
						Field: "spec.names." + field, Value: pair[0][field],
						Related: []Object{objectOf(self.Kind, x)}, Message: fmt.Sprintf("%s %s wants the name %s "+
							"(spec.names.%s), and %s of the same group has it (spec.names.%s): it is not served by "+
							"that name.", self.Kind, self.Name, pair[0][field], field, x.GetName(), other),
						Remedies: renamed(u, self, field)})
				}
			}
		}
	}
	return out
}

// renamed gives a definition names of its own in a field: made of its plural, by which it differs
// from all others of its group, or, where that is taken, of nothing: it needs a person's choice.
func renamed(u *unstructured.Unstructured, self Object, field string) []Remedy {
	plural, _, _ := unstructured.NestedString(u.Object, "spec", "names", "plural") // empty where there is none
	kind := strings.TrimSuffix(plural, "s")
	if field != "kind" && field != "listKind" || kind == "" {
		return []Remedy{{Say: "choose another name in spec.names." + field}}
	}
	kind = strings.ToUpper(kind[:1]) + kind[1:]
	return []Remedy{{Say: fmt.Sprintf("call its kind %s: manifests of it have to say that too", kind),
		Run: []string{kubectl(self, "patch", "--type=merge -p "+shellquote.Quoted(fmt.Sprintf(
			`{"spec":{"names":{"kind":%s,"listKind":%s}}}`, jsonText(kind), jsonText(kind+"List"))))}}}
}
