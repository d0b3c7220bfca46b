package finding

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// How the scheduler tells that a selector of devices could not be evaluated, and what it read.
var (
	selectorWords = regexp.MustCompile(
		`(?:claim ([^\s/]+)/(\S+)|class (\S+)): selector #(\d+) on device (\S+): (.*)`)
	keyWords = regexp.MustCompile(`no such (?:key|attribute|capacity): ([A-Za-z0-9_.-]*[A-Za-z0-9_])`)
)

// deviceSelectors finds a selector of devices, of a Pod's claim or its class, that could not be
// evaluated for a device: the Pod is then refused everywhere, also where other devices fit.
func deviceSelectors(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Spec.NodeName != "" {
		return nil
	}
	words := ""
	if x := pod.Condition(p, corev1.PodScheduled); x != nil && x.Status == corev1.ConditionFalse {
		words = x.Message
	}
	m := selectorWords.FindStringSubmatch(words)
	if m == nil {
		return nil
	}
	i, err := strconv.Atoi(m[4])
	if err != nil {
		return nil
	}
	key := ""
	if k := keyWords.FindStringSubmatch(m[6]); k != nil {
		key = k[1]
	}
	var at Object
	var field, text string
	if claim, ok := get[*resourcev1.ResourceClaim](c, "ResourceClaim", m[1], m[2]); ok {
		at, field, text = c.selectorOf(claim, i, key)
		at, field = claimMade(p, claim, at, field)
	} else {
		at, field, text = c.selectorOfClass(m[3], i, key)
	}
	if text == "" {
		return nil
	}
	why, _, _ := strings.Cut(strings.TrimPrefix(m[6], "CEL runtime error: "), ". ")
	f := Finding{Code: "SelectorUnread", Stage: StagePlacement, Object: at, Field: field, Value: text,
		Related: []Object{self}, Numbers: map[string]string{"device": m[5], "error": why, "selector": m[4]},
		Message: fmt.Sprintf("%s of %s %s cannot be evaluated for device %s (%s), and so Pod %s is refused on every "+
			"node: %s.", field, at.Kind, at.Name, m[5], why, self.Name, text)}
	if key != "" {
		f.Numbers["key"] = key
		c.attributesInstead(&f, m[5], key)
	}
	r := Remedy{Say: "let the expression ask first whether the device has it, with has(...) or .?NAME.orValue(...)"}
	if at.Kind == "ResourceClaim" || at.Kind == "ResourceClaimTemplate" {
		r = Remedy{Say: r.Say + ", and make it anew: its content cannot be changed",
			Run: []string{kubectl(at, "get", "-o yaml")}}
	}
	f.Remedies = append(f.Remedies, r)
	return []Finding{f}
}

// selectorOf is the selector of an index that read a key: of a request of a claim, or of its class.
func (c *Cluster) selectorOf(claim *resourcev1.ResourceClaim, i int, key string) (at Object, field, text string) {
	for j, r := range claim.Spec.Devices.Requests {
		if r.Exactly == nil {
			continue
		}
		if text := reading(r.Exactly.Selectors, i, key); text != "" {
			return objectOf("ResourceClaim", claim), fmt.Sprintf(
				"spec.devices.requests[%d].exactly.selectors[%d].cel.expression", j, i), text
		}
		if at, field, text = c.selectorOfClass(r.Exactly.DeviceClassName, i, key); text != "" {
			return at, field, text
		}
	}
	return Object{}, "", ""
}

// selectorOfClass is the selector of an index of a class that read a key.
func (c *Cluster) selectorOfClass(class string, i int, key string) (at Object, field, text string) {
	x, ok := get[*resourcev1.DeviceClass](c, "DeviceClass", "", class)
	if !ok {
		return at, "", ""
	}
	return objectOf("DeviceClass", x), fmt.Sprintf("spec.selectors[%d].cel.expression", i), reading(x.Spec.Selectors,
		i, key)
}

// reading is the expression of an index where it reads a key; empty where it does not.
func reading(list []resourcev1.DeviceSelector, i int, key string) string {
	if i >= len(list) || list[i].CEL == nil || !strings.Contains(list[i].CEL.Expression, key) {
		return ""
	}
	return list[i].CEL.Expression
}

// claimMade is the template that a Pod's claim was made from, with the field in it, or what it is
// given.
func claimMade(p *corev1.Pod, claim *resourcev1.ResourceClaim, at Object, field string) (Object, string) {
	for _, s := range p.Status.ResourceClaimStatuses {
		if at.Kind != "ResourceClaim" || s.ResourceClaimName == nil || *s.ResourceClaimName != claim.Name {
			continue
		}
		for _, x := range p.Spec.ResourceClaims {
			if x.Name == s.Name && x.ResourceClaimTemplateName != nil {
				return Object{"ResourceClaimTemplate", p.Namespace, *x.ResourceClaimTemplateName}, "spec." + field
			}
		}
	}
	return at, field
}

// attributesInstead names the attributes that a device has, and the one that was probably meant.
func (c *Cluster) attributesInstead(f *Finding, device, key string) {
	for _, s := range list[*resourcev1.ResourceSlice](c, "ResourceSlice") {
		for _, d := range s.Spec.Devices {
			if s.Spec.Driver+"/"+s.Spec.Pool.Name+"/"+d.Name != device {
				continue
			}
			var have []string
			for n := range maps.Keys(d.Attributes) {
				have = append(have, string(n))
			}
			slices.Sort(have)
			f.Message += fmt.Sprintf(" The device has %s.", orNone(have, "no attributes"))
			if near, how := Near(key, have); near != "" {
				f.Want = near
				f.Message += fmt.Sprintf(" Perhaps %s was meant; %s.", near, how)
			}
		}
	}
}
